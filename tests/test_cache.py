from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlu_migrate import cache
from mlu_migrate.model import Confidence, Edit, FileResult, FileStatus, Finding, Safety, Severity
from mlu_migrate.settings import Settings

FINDING = Finding(
    code="MLU201",
    name="cuda-method",
    severity=Severity.INFO,
    safety=Safety.SAFE,
    confidence=Confidence.HIGH,
    path="a.py",
    line=3,
    column=1,
    end_line=3,
    end_column=9,
    message_id="call",
    args={"what": "{x}"},
    edits=(Edit(1, 2, b"\xff\x00"),),
    before="x.cuda()",
    after="x.mlu()",
    applied=True,
)
RESULT = FileResult("a.py", FileStatus.CHANGED, None, b"x.cuda()", b"x.mlu()\r", (FINDING,))


def test_a_packed_result_comes_back_equal() -> None:
    assert cache.unpack(cache.pack(RESULT), "a.py", b"x.cuda()") == RESULT


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"status":"changed"}', b"\x80\x04pickle"])
def test_bytes_of_another_make_are_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="not a cache entry"):
        cache.unpack(body, "a.py", b"")


def test_what_was_put_is_got_by_another_process_later(tmp_path: Path) -> None:
    name = cache.key("a", b"b")
    cache.Cache(tmp_path / "c").put(name, b"body")
    again = cache.Cache(tmp_path / "c")
    assert again.get(name) == b"body"
    assert again.get(cache.key("ab", b"")) is None
    assert (again.hits, again.misses) == (1, 1)


def test_a_damaged_entry_is_a_miss(tmp_path: Path) -> None:
    store = cache.Cache(tmp_path)
    name = cache.key("a")
    store.put(name, b"body")
    path = tmp_path / name[:2] / name[2:]
    path.write_bytes(path.read_bytes()[:-1])
    assert store.get(name) is None


def test_the_folder_is_ignored_by_git_and_by_backups(tmp_path: Path) -> None:
    cache.Cache(tmp_path / "c").put(cache.key("a"), b"")
    assert (tmp_path / "c" / ".gitignore").read_text() == "*\n"
    assert (tmp_path / "c" / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = cache.Cache(tmp_path / "file" / "c")
    store.put(cache.key("a"), b"body")
    assert store.get(cache.key("a")) is None


def test_over_the_limit_the_oldest_entries_go_first(tmp_path: Path) -> None:
    store = cache.Cache(tmp_path, limit=10_000)
    names = [cache.key(str(n)) for n in range(20)]
    for age, name in enumerate(names):
        store.put(name, b"x" * 1000)
        os.utime(tmp_path / name[:2] / name[2:], (1_000_000 + age, 1_000_000 + age))
    assert store.tidy() > 0
    kept = [store.get(name) is not None for name in names]
    assert kept == sorted(kept)
    assert kept[-1]
    assert sum(kept) * 1000 <= 7_500


def test_the_default_place_is_the_users_cache_or_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLU_MIGRATE_CACHE_DIR", str(tmp_path / "here"))
    assert cache.default_folder() == tmp_path / "here"
    monkeypatch.delenv("MLU_MIGRATE_CACHE_DIR")
    assert "mlu-migrate" in str(cache.default_folder())


def test_a_fingerprint_does_not_depend_on_the_process() -> None:
    program = (
        "from mlu_migrate import cache; from mlu_migrate.settings import Settings;"
        "print(cache.fingerprint({'a': {'x', 'y', 'z'}, 'b': Settings(select=('MLU2',)), 'c': (1, b'2', None)}))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


def test_a_fingerprint_changes_with_any_setting() -> None:
    changed = [Settings(), Settings(unsafe=True), Settings(select=("MLU2",)), Settings(kept=(("MLU201", 1, 2),))]
    assert len({cache.fingerprint(item) for item in changed}) == 4


def test_a_value_without_a_stable_form_is_refused() -> None:
    with pytest.raises(TypeError, match="no stable form"):
        cache.fingerprint(object())


def test_processes_writing_the_same_entries_do_not_disturb_each_other(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from mlu_migrate import cache\n"
        "store = cache.Cache(Path(sys.argv[1]))\n"
        "for n in range(300):\n"
        "    name = cache.key(str(n % 30)); store.put(name, b'z' * 5000)\n"
        "    body = store.get(name); assert body == b'z' * 5000, body\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert not list(tmp_path.rglob(".new-*"))


def test_encoded_values_come_back_and_equal_values_have_equal_bytes() -> None:
    value = {"b": (1, None, "é\udce9"), "a": frozenset({("x", 2), ("y", 1)}), "e": Edit(0, 1, b"\xff"), "f": 1.5}
    body = cache.encode(value)
    assert cache.decode(body, (Edit,)) == value
    assert cache.encode(dict(reversed(value.items()))) == body


@pytest.mark.parametrize("body", [b"[", b'["x"]', b'["d","Nope",[]]', b'["d","Edit",[1]]', b'["m",1]'])
def test_encoded_values_of_another_make_are_refused(body: bytes) -> None:
    with pytest.raises(ValueError):
        cache.decode(body, (Edit,))


def test_tidying_meets_nothing_but_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLU_MIGRATE_CACHE_DIR", str(tmp_path))
    (tmp_path / "device").mkdir()
    (tmp_path / "device" / "core.so").write_bytes(b"x" * 5000)
    os.utime(tmp_path / "device" / "core.so", (1, 1))
    store = cache.Cache(limit=1000)
    for number in range(5):
        store.put(cache.key(str(number)), b"x" * 1000)
    assert store.tidy() > 0
    assert (tmp_path / "device" / "core.so").exists()
