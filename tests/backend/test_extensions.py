"""Extensions in C++, and the tools beside the device."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch
import torch_mlu
from torch_mlu.utils import collect_env, cpp_extension, dumptool

SOURCE = """
#include <ATen/core/Tensor.h>
#include <torch/csrc/utils/pybind.h>
at::Tensor plus(at::Tensor x, double y) {
  TORCH_CHECK(x.is_privateuseone(), "expected a tensor on mlu");
  return x.add(y);
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("plus", &plus); }
"""


@pytest.fixture
def no_toolkit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEUWARE_HOME", str(tmp_path / "nowhere"))


def test_a_cpp_source_is_built_loaded_and_called(tmp_path: Path) -> None:
    (tmp_path / "plus.cpp").write_text(SOURCE)
    module = cpp_extension.load("mlu_test_plus", [str(tmp_path / "plus.cpp")], build_directory=str(tmp_path))
    assert module.plus(torch.ones(2, device="mlu"), 2.0).tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="expected a tensor on mlu"):
        module.plus(torch.ones(2), 2.0)


def test_inline_sources_become_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}
    monkeypatch.setattr(
        cpp_extension, "_jit_compile", lambda name, sources, *rest: seen.update(name=name, sources=sources)
    )
    cpp_extension.load_inline(
        "m", "int f() { return 1; }", "kernel text", functions={"f": "one"}, build_directory=str(tmp_path)
    )
    assert [Path(source).name for source in seen["sources"]] == ["main.cpp", "bang.mlu"]
    assert 'm.def("f", torch::wrap_pybind_function(f), "one");' in (tmp_path / "main.cpp").read_text()


@pytest.mark.usefixtures("no_toolkit")
def test_kernel_files_need_the_toolkit(tmp_path: Path) -> None:
    (tmp_path / "k.mlu").write_text("")
    with pytest.raises(EnvironmentError, match="NEUWARE_HOME"):
        cpp_extension.load("k", [str(tmp_path / "k.mlu")], build_directory=str(tmp_path))
    with pytest.raises(EnvironmentError, match="NEUWARE_HOME"):
        cpp_extension._join_neuware_home("bin")
    assert cpp_extension.include_paths() and not any("nowhere" in path for path in cpp_extension.include_paths())


def test_kernel_files_are_given_to_cncc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEUWARE_HOME", str(tmp_path))
    monkeypatch.setenv("TORCH_BANG_ARCH_LIST", "5.0;3.0")
    cpp_extension._write_ninja_file_to_build_library(
        str(tmp_path / "build.ninja"), "m", ["a.cpp", "k.mlu"], [], [], ["-lx"], [], True, False
    )
    text = (tmp_path / "build.ninja").read_text()
    assert f"cncc = {tmp_path}/bin/cncc" in text and "k.bang.1.o: bang_compile" in text and "a.0.o: compile" in text
    assert "--bang-arch=compute_30 --bang-arch=compute_50" in text


def test_architectures_come_from_the_list_or_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCH_BANG_ARCH_LIST", raising=False)
    assert cpp_extension._get_bang_arch_flags() == ["--bang-mlu-arch=mtp_592"]
    assert cpp_extension._get_bang_arch_flags(["--bang-arch=compute_60"]) == []
    monkeypatch.setenv("TORCH_BANG_ARCH_LIST", "7.0")
    with pytest.raises(ValueError, match="7.0"):
        cpp_extension._get_bang_arch_flags()


def test_setuptools_extensions_have_the_headers_and_keys_of_this_device() -> None:
    extension = cpp_extension.MLUExtension("m", ["a.cpp"], extra_compile_args={"cxx": ["-O2"], "cncc": ["-O3"]})
    assert extension.libraries[:2] == ["c10", "torch"] and extension.language == "c++"
    assert issubclass(
        cpp_extension.BuildExtension.with_options(no_python_abi_suffix=True), cpp_extension.BuildExtension
    )
    assert not inspect.signature(cpp_extension.library_paths).parameters


def test_the_environment_report_names_device_and_versions() -> None:
    text = collect_env.pretty_str(collect_env.get_env_info())
    assert f"Torch-MLU version: {torch_mlu.__version__}" in text
    assert "Is MLU available: True" in text and "MLU 0: MLU590" in text


def test_dumps_are_switched_by_level() -> None:
    from torch_mlu._MLUC._libraries import _gencase

    dumptool.dump_cnnl_gencase(True, "L2")
    assert (_gencase.enabled, _gencase.level) == (True, 2)
    dumptool.dump_cnnl_gencase(False)
    assert not _gencase.enabled
    with pytest.raises(ValueError, match="L9"):
        dumptool.dump_cnnl_gencase(True, "L9")
