"""The build: kept, shared, safe to kill, clear when it cannot work. A small C++ module stands in for the device."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlu_backend import build

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = """
#include "value.h"
#include <Python.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_mlu_core", nullptr, -1, nullptr};
extern "C" __attribute__((visibility("default"))) PyObject* PyInit__mlu_core() {
  PyObject* module = PyModule_Create(&definition);
  PyModule_AddIntConstant(module, "value", VALUE);
  return module;
}
"""
BUILD = """
import pathlib, sys
from mlu_backend import build
build.CSRC = pathlib.Path(sys.argv[1])
print(build.core_library())
"""


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "csrc"
    folder.mkdir()
    (folder / "one.cpp").write_text(SOURCE)
    (folder / "value.h").write_text("#define VALUE 1\n")
    monkeypatch.setattr(build, "CSRC", folder)
    monkeypatch.setenv(build.BUILD_DIR, str(tmp_path / "cache"))
    yield folder
    build.compiler.cache_clear()


def start(sources: Path, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", BUILD, str(sources)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_a_build_is_kept_in_the_named_folder_and_not_repeated(
    sources: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = build.core_library()
    assert first.is_file() and first.is_relative_to(tmp_path / "cache")
    assert "compiling the emulated device" in capfd.readouterr().err
    written = first.stat().st_mtime_ns
    assert build.core_library() == first and first.stat().st_mtime_ns == written
    assert capfd.readouterr().err == ""
    assert build.built()
    assert [path.name for path in first.parent.iterdir() if path.suffix != ".lock"] == ["_mlu_core.so"]


def test_a_changed_or_added_header_makes_another_library(sources: Path) -> None:
    before = build._path(build.library())
    (sources / "value.h").write_text("#define VALUE 2\n")
    changed = build._path(build.library())
    (sources / "more.h").write_text("// unused so far\n")
    assert len({before, changed, build._path(build.library())}) == 3


@pytest.mark.parametrize("jobs", [1, 2, 3, 4, 64])
def test_every_source_is_compiled_once_however_many_processors_there_are(jobs: int) -> None:
    sources = build.library().sources
    heaps = build._heaps(sources, jobs)
    assert len(heaps) == min(jobs, 4)
    assert sorted(path for heap in heaps for path in heap) == sorted(sources)


def test_what_reads_the_most_headers_is_compiled_together_on_two_processors() -> None:
    heavy, light = build._heaps(build.library().sources, 2)
    assert {path.stem for path in heavy} == {"cncl", "module", "retarget"}
    assert not any(b"/pybind" in path.read_bytes() for path in light)


def test_two_processes_that_need_the_device_at_once_share_one_build(sources: Path) -> None:
    running = [start(sources) for _ in range(2)]
    done = [process.communicate(timeout=280) for process in running]
    assert [process.returncode for process in running] == [0, 0], done
    assert done[0][0] == done[1][0]
    assert sum(err.count("compiling") for _, err in done) == 1


def test_a_killed_build_leaves_nothing_that_looks_done_and_the_next_one_succeeds(sources: Path, tmp_path: Path) -> None:
    # A compiler that never ends, so that the kill is sure to come in the middle.
    slow = tmp_path / "slow-compiler"
    slow.write_text("#!/bin/sh\necho half > one.o\nsleep 1000\n")
    slow.chmod(0o755)
    process = start(sources, CXX=str(slow))
    library = build._path(build.library())
    until = time.monotonic() + 120
    while not list(library.parent.glob("*/one.o")) and time.monotonic() < until:
        time.sleep(0.05)
    assert list(library.parent.glob("*/one.o")), process.poll()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert not build.built()
    assert build.core_library() == library and library.is_file()
    assert [path.name for path in library.parent.iterdir() if path.is_dir()] == []


def test_without_a_compiler_the_error_names_the_package_to_install(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.compiler.cache_clear()
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.BuildError, match=r"no C\+\+ compiler.*Debian and Ubuntu package is g\+\+"):
        build.core_library()
    assert not build.built()


def test_a_named_compiler_that_is_missing_is_named_in_the_error(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build.compiler.cache_clear()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(build.BuildError, match="no-such-compiler"):
        build.core_library()


def test_a_compile_error_is_shown_and_nothing_is_kept(sources: Path) -> None:
    (sources / "one.cpp").write_text("#error this cannot be compiled\n")
    with pytest.raises(build.BuildError, match="this cannot be compiled"):
        build.core_library()
    assert not build.built()


def test_an_installation_without_sources_is_an_error(sources: Path) -> None:
    (sources / "one.cpp").unlink()
    with pytest.raises(build.BuildError, match="incomplete"):
        build.core_library()


def test_the_build_command_prints_the_libraries_and_refuses_arguments(
    sources: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build.main([]) == 0
    assert capsys.readouterr().out.strip() == str(build._path(build.library()))
    assert build.main(["--fast"]) == 2
