from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from mlu_migrate import atomic


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.name.startswith(".mlu-migrate-tmp-")]


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        atomic.write(tmp_path / "a.py", b"x")
    finally:
        os.umask(before)
    assert ((tmp_path / "a.py").read_bytes(), mode(tmp_path / "a.py")) == (b"x", 0o640)


@pytest.mark.parametrize("bits", [0o755, 0o600, 0o444])
def test_an_existing_file_keeps_its_mode_bits(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "a.sh"
    path.write_bytes(b"old")
    path.chmod(bits)
    atomic.write(path, b"new")
    assert (path.read_bytes(), mode(path)) == (b"new", bits)


def test_a_link_inside_the_root_stays_a_link_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"old")
    (tmp_path / "link.py").symlink_to("a.py")
    atomic.write(tmp_path / "link.py", b"new", root=tmp_path)
    assert (tmp_path / "link.py").is_symlink()
    assert (tmp_path / "a.py").read_bytes() == b"new"


@pytest.mark.parametrize("way", ["link.py", "folder/x.py", "../outside/x.py"])
def test_a_path_that_leads_out_of_the_root_is_refused(tmp_path: Path, way: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "x.py").write_bytes(b"old")
    (root / "link.py").symlink_to(outside / "x.py")
    (root / "folder").symlink_to(outside)
    with pytest.raises(atomic.WriteError, match="leads out"):
        atomic.write(root / way, b"new", root=root)
    assert (outside / "x.py").read_bytes() == b"old"


def test_a_link_in_a_circle_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(atomic.WriteError):
        atomic.write(tmp_path / "a", b"x", root=tmp_path)


def test_a_file_that_cannot_be_written_names_itself_and_leaves_no_rest(tmp_path: Path) -> None:
    with pytest.raises(atomic.WriteError, match=r"none/a\.py: No such file"):
        atomic.write(tmp_path / "none" / "a.py", b"x")
    with pytest.raises(atomic.WriteError, match="too long"):
        atomic.write(tmp_path / ("n" * 300), b"x")
    assert list(tmp_path.iterdir()) == []


def test_many_files_are_written_all_or_none(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"old")
    with pytest.raises(atomic.WriteError):
        atomic.write_all([(tmp_path / "a", b"new"), (tmp_path / "none" / "b", b"new")])
    assert (tmp_path / "a").read_bytes() == b"old"
    assert leftovers(tmp_path) == []
    done = atomic.write_all([(tmp_path / "a", b"new"), (tmp_path / "b", b"new")], root=tmp_path)
    assert [path.read_bytes() for path in done] == [b"new", b"new"]


def test_a_disk_that_fills_up_on_the_way_leaves_everything_as_it_was(tmp_path: Path) -> None:
    import resource

    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (4096, limits[1])
    )  # files cannot grow beyond this: as a full disk, per file
    try:
        with pytest.raises(atomic.WriteError):
            atomic.write_all([(tmp_path / "a", b"new"), (tmp_path / "b", b"n" * 100_000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert [(tmp_path / name).read_bytes() for name in ("a", "b")] == [b"old", b"old"]
    assert leftovers(tmp_path) == []


def test_signals_wait_until_the_files_are_in_place(tmp_path: Path) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with atomic.signals_held():
            os.kill(os.getpid(), signal.SIGTERM)
            assert seen == []
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
