"""Names that rules spell out themselves agree with the rows of the table."""

from __future__ import annotations

import pytest

from mlu_migrate import apimap, dynamic
from mlu_migrate.rules import graph_and_handle, process_group, profiler_keys


def missing_below(head: str) -> set[str]:
    """Last words of the pattern rows below a name that have no counterpart."""
    return {
        n.rpartition(".")[2]
        for n, row in apimap.patterns().items()
        if n.startswith(head + ".") and row.status == "missing"
    }


def test_members_process_groups_lack_are_those_of_the_table() -> None:
    assert missing_below("ProcessGroupNCCL") - {"NCCLConfig"} == process_group._LACKING


@pytest.mark.parametrize("key", sorted(profiler_keys._KEYS))
def test_event_attributes_are_those_of_the_table(key: str) -> None:
    row = apimap.patterns()[f"FunctionEvent.{key}"]
    assert row.mlu == "FunctionEvent." + key.replace("cuda", "device")
    assert apimap.patterns()[f'key_averages().table(sort_by="{key}")'].mlu == f'sort_by="{key.replace("cuda", "mlu")}"'


def test_handles_are_those_of_the_table() -> None:
    assert apimap.lookup("torch.cuda.Stream.cuda_stream").mlu == "torch.mlu.Stream.mlu_stream"  # type: ignore[union-attr]
    assert apimap.lookup("torch.cuda.Event.cuda_event").mlu == "torch.mlu.Event.mlu_event"  # type: ignore[union-attr]
    assert graph_and_handle._HANDLES["cuda_stream"][0] == "mlu_stream"
    for member in graph_and_handle._MEMBERS:
        assert apimap.lookup(f"torch.cuda.CUDAGraph.{member}").status == "missing"  # type: ignore[union-attr]


def test_autocast_functions_are_those_of_the_table() -> None:
    assert apimap.patterns()["torch.is_autocast_enabled()"].mlu == "torch.mlu.is_autocast_enabled()"
    assert apimap.patterns()["torch.set_autocast_enabled(bool)"].mlu == "torch.mlu.set_autocast_enabled(bool)"
    assert apimap.patterns()["torch.amp.GradScaler()"].mlu == 'torch.amp.GradScaler("mlu")'


@pytest.mark.parametrize("owner", ["torch.Tensor", "torch.UntypedStorage", "torch.TypedStorage"])
def test_methods_reached_through_text_are_those_of_the_table(owner: str) -> None:
    for old, new in dynamic._METHODS.items():
        assert apimap.lookup(f"{owner}.{old}").mlu == f"{owner}.{new}"  # type: ignore[union-attr]
