"""Every row of the tables, used in a plausible line: rewritten or told, never passed over in silence."""

from __future__ import annotations

import pytest

from mlu_migrate import apimap, engine
from mlu_migrate.configs import vocabulary
from mlu_migrate.rules.cuda_package import packages
from mlu_migrate.settings import Settings

# Rows of which a bare mention says nothing, with the reason.
SILENT = {
    "torch.Tensor.get_device": "the same on an MLU",
    "torch.Tensor.record_stream": "the same on an MLU",
    "torch._cudnn_rnn": "the same on an MLU",
    "torch.is_autocast_cache_enabled": "the same on an MLU",
    "torch.utils.cpp_extension.CppExtension": "the same on an MLU",
    "torch.Tensor.is_pinned": "torch_mlu makes the MLU the default, which is what the program wants",
    "torch.Tensor.pin_memory": "torch_mlu makes the MLU the default, which is what the program wants",
    "torch.UntypedStorage.is_pinned": "torch_mlu makes the MLU the default, which is what the program wants",
    "torch.UntypedStorage.pin_memory": "torch_mlu makes the MLU the default, which is what the program wants",
    "torch.distributed.ReduceOp.AVG": "gives the same result",
    "torch.backends.cudnn": "its switches are told one by one",
    "torch.nn.parallel.DistributedDataParallel": "what differs is one module over several cards",
    "torch.distributed.nn.functional._AllGatherBase": "a module behind two prefixes that nobody spells",
    "torch.utils.cpp_extension.BuildExtension": "told with the extension it builds",
    "torch.utils.cpp_extension.load_inline": "told where it is called",
    "torch.from_dlpack": "told where it is called",
    "torch.utils.dlpack.from_dlpack": "told where it is called",
    "torch.utils.dlpack.to_dlpack": "told where it is called",
    "torch.jit.script": "told where it is called",
    "torch.compile": "told where it is called",
    "torch.utils.cpp_extension.ROCM_HOME": "None on every torch that torch_mlu runs on, as the program expects",
    "torch.utils.cpp_extension.IS_HIP_EXTENSION": "False there, as the program expects",
}
MADE = {
    "torch.cuda.Stream": "torch.cuda.Stream()",
    "torch.cuda.Event": "torch.cuda.Event()",
    "torch.cuda.CUDAGraph": "torch.cuda.CUDAGraph()",
    "torch.cuda._CudaDeviceProperties": "torch.cuda.get_device_properties(0)",
}
CALLED = {
    "torch.compile": "torch.compile(net)",
    "torch.jit.script": "torch.jit.script(net)",
    "torch.from_dlpack": "torch.from_dlpack(array)",
    "torch.utils.dlpack.to_dlpack": "torch.utils.dlpack.to_dlpack(torch.ones(2))",
    "torch.nn.DataParallel": "torch.nn.DataParallel(net)",
    "torch.nn.parallel.data_parallel": "torch.nn.parallel.data_parallel(net, x, [0, 1])",
    "torch.utils.cpp_extension.load": 'torch.utils.cpp_extension.load("m", ["m.cpp", "k.cu"])',
    "torch.utils.cpp_extension.load_inline": 'torch.utils.cpp_extension.load_inline("m", "", cuda_sources=k)',
}


def torch_rows() -> list[str]:
    return [name for name in apimap.names() if name.startswith("torch.") and name.replace(".", "").isidentifier()]


def migrated(source: str) -> tuple[bool, list[str], str]:
    """(changed, codes of what is told, result) of one file."""
    result = engine.migrate(source.encode(), "page.py", Settings())
    assert result.reason is None, result.reason
    told = [f.code for f in result.findings if not f.applied]
    return result.output is not None, told, result.result.decode()


def uses(name: str) -> list[str]:
    owner, _, leaf = name.rpartition(".")
    if owner in MADE:
        return [f"import torch\n\nmade = {MADE[owner]}\nx = made.{leaf}\n"]
    return [f"import torch\n\nx = {name}\n", f"import torch\n\n{name}()\n"]


def test_no_row_of_torch_is_passed_over_in_silence() -> None:
    silent = set()
    for name in torch_rows():
        if not any(changed or told for changed, told, _ in map(migrated, uses(name))):
            silent.add(name)
    assert silent == set(SILENT)


@pytest.mark.parametrize("name", sorted(CALLED))
def test_names_told_where_they_are_called_are_told_there(name: str) -> None:
    head = "import torch\nimport torch.utils.dlpack\n\nnet = x = k = array = None\ny = torch.ones(2).cuda()\n"
    _, told, _ = migrated(f"{head}{CALLED[name]}\n")
    assert told


def test_a_missing_name_is_told_and_keeps_its_words() -> None:
    for name, row in apimap.names().items():
        if row.status != "missing" or not name.startswith("torch.cuda."):
            continue
        for source in uses(name):
            _, told, result = migrated(source)
            assert told, name
            if name.rpartition(".")[0] not in MADE:
                assert name in result


def test_every_environment_row_is_renamed_or_told() -> None:
    for name, row in vocabulary.environment().items():
        changed, told, result = migrated(f'import os\n\nos.environ["{name}"] = "1"\n')
        assert changed or told, name
        assert name in result or row.mlu is not None and row.mlu in result, name


def test_every_package_row_is_told_where_it_is_imported() -> None:
    for module, row in packages().items():
        _, told, _ = migrated(f"import {module}\n")
        assert "MLU901" in told or "MLU404" in told, (module, row["name"])
