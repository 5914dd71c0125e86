"""Errors: types and texts as on hardware."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch_mlu
from _programs import lines, run


@pytest.mark.parametrize("card", [8, -1, 99])
def test_a_card_that_is_not_there_has_no_properties(card: int) -> None:
    with pytest.raises(AssertionError, match="^Invalid device id$"):
        torch.mlu.get_device_properties(card)


def test_a_peer_that_is_not_there_is_named() -> None:
    with pytest.raises(AssertionError, match="^Invalid device id$"):
        torch.mlu.can_device_access_peer(99, 0)
    with pytest.raises(AssertionError, match="^Invalid peer device id$"):
        torch.mlu.can_device_access_peer(0, 99)


@pytest.mark.parametrize(
    "use",
    [lambda: torch.mlu.set_device(99), lambda: torch.zeros(1, device="mlu:99"), lambda: torch.ones(1).to("mlu:8")],
)
def test_using_a_card_that_is_not_there_fails_in_the_library(use) -> None:
    with pytest.raises(RuntimeError, match="^CNRT error: "):
        use()


def test_a_negative_card_is_refused_by_the_library() -> None:
    with pytest.raises(RuntimeError, match="^device id must be positive!$"):
        torch_mlu._MLUC._mlu_setDevice(-1)


def test_another_device_type_is_refused() -> None:
    with pytest.raises(ValueError, match="^Expected a mlu device, but got: cpu$"):
        torch.mlu.get_device_name("cpu")
    with pytest.raises(ValueError, match="^Expected a mlu or cpu device, but got: meta$"):
        torch.mlu._utils._get_device_index("meta", allow_cpu=True)
    with pytest.raises(RuntimeError, match="^Invalid device, must be mlu device$"):
        torch.ones(1).mlu("cpu")


@pytest.mark.parametrize(
    "operation",
    [
        lambda a, b: a @ b,
        lambda a, b: torch.mm(a, b),
        lambda a, b: a + b,
        lambda a, b: torch.cat([a, b]),
        lambda a, b: torch.nn.functional.linear(a, b),
    ],
)
def test_mixed_devices_are_refused(operation) -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        operation(torch.ones(2, 2), torch.ones(2, 2, device="mlu"))
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        operation(torch.ones(2, 2, device="mlu:0"), torch.ones(2, 2, device="mlu:1"))


def test_a_forked_child_of_a_process_that_used_a_card_may_not() -> None:
    code = """
    import os, torch, torch_mlu
    torch.zeros(1, device="mlu")
    child = os.fork()
    if child == 0:
        for use in (torch.mlu.init, lambda: torch.zeros(1, device="mlu"), lambda: torch.mlu.current_device()):
            try:
                use()
            except RuntimeError as error:
                print(error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    """
    text = (
        "Cannot re-initialize MLU in forked subprocess. To use MLU with multiprocessing, "
        "you must use the 'spawn' start method"
    )
    assert lines(code) == [text] * 3


def test_a_forked_child_of_a_process_that_only_asked_may() -> None:
    code = """
    import os, torch, torch_mlu
    torch.mlu.is_available(), torch.mlu.device_count()
    child = os.fork()
    if child == 0:
        print(torch.ones(1, device="mlu").item(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    """
    assert lines(code) == ["1.0"]


def test_a_missing_operator_raises_when_falling_back_is_switched_off() -> None:
    code = """
    import torch, torch_mlu
    try:
        torch.linalg.eig(torch.eye(2, device="mlu"))
    except NotImplementedError as error:
        print(error)
    """
    (line,) = lines(code, fresh=True, ENABLE_FALLBACK_TO_CPU="0")
    assert (
        line.startswith("The operator 'aten::linalg_eig") and "is not currently implemented for the MLU device." in line
    )


def test_a_missing_operator_warns_once_and_falls_back() -> None:
    code = """
    import warnings, torch, torch_mlu
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            torch.linalg.eig(torch.eye(2, device="mlu"))
    print([str(w.message) for w in caught if "fall back" in str(w.message)])
    """
    (line,) = lines(code)
    assert line.count("fall back") == 1
    assert "on the MLU backend and will fall back to run on the CPU. This may have performance implications." in line


def test_storages_do_not_travel_alone() -> None:
    from multiprocessing.reduction import ForkingPickler

    with pytest.raises(RuntimeError, match="^Cannot pickle MLU storage; try pickling a MLU tensor instead$"):
        ForkingPickler.dumps(torch.ones(1, device="mlu").untyped_storage())


def test_quantised_storages_are_refused() -> None:
    with (
        pytest.raises(RuntimeError, match="^Cannot create MLU storage with quantized dtype$"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        torch.TypedStorage(4, dtype=torch.quint8).mlu()


def test_the_usual_cuda_names_raise_and_say_so() -> None:
    done = run("import torch, torch_mlu; torch.ones(1).cuda()")
    assert done.returncode == 1 and "CUDA" in done.stderr


def test_habits_of_cuda_fail_as_on_the_card() -> None:
    """What a migrated program still gets wrong has to go wrong here."""
    assert torch.version.mlu is None
    with pytest.raises(AttributeError):
        torch.version.mlu.split(".")
    assert torch.mlu.get_device_capability()[0] < 8


def test_operators_the_card_runs_whole_need_no_fallback_for_their_pieces() -> None:
    code = """
    import torch, torch_mlu, warnings
    warnings.simplefilter("error")
    scores = torch.randn(9, 2, 5, device="mlu", requires_grad=True)
    target = torch.tensor([[1, 2], [3, 1]], device="mlu")
    torch.nn.functional.ctc_loss(scores.log_softmax(2), target, [9, 9], [2, 2]).backward()
    matrix = torch.eye(3, device="mlu")
    print(tuple(scores.grad.shape), torch.linalg.det(matrix).item(), torch.linalg.slogdet(matrix)[1].item())
    """
    assert lines(code, ENABLE_FALLBACK_TO_CPU="0") == ["(9, 2, 5) 1.0 0.0"]
