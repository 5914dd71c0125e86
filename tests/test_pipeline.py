from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mlu_migrate import cache, evidence, gathering, gitinfo, learning, pipeline, project
from mlu_migrate.model import FileStatus
from mlu_migrate.settings import Options, Settings

CALL = "import torch\nx = torch.ones(1).cuda()\n"
GUESS = 'import torch\n\nOPTIONS = {"place": "cuda:0"}\nprint(torch.ones(1))\n'


def run(*paths: Path, settings: Settings | None = None, options: Options | None = None) -> pipeline.Run:
    return pipeline.run(gathering.targets_of(paths), settings or Settings(), options or Options())


def shown(*paths: Path) -> list[str]:
    return [file.path for file in run(*paths).result.files]


def test_paths_are_relative_to_a_single_folder_and_tell_several_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one/sub/a.py", "two/a.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(CALL)
    assert shown(Path("one")) == ["sub/a.py"]
    assert shown(tmp_path / "one") == ["sub/a.py"]
    assert shown(Path("one"), Path("two")) == ["one/sub/a.py", "two/a.py"]
    assert shown(Path("one/sub/a.py")) == ["one/sub/a.py"]
    assert shown(Path("."), Path("two/a.py")) == ["one/sub/a.py", "two/a.py"], "a file named twice is looked at once"
    monkeypatch.chdir(tmp_path / "two")
    assert shown(tmp_path / "one" / "sub" / "a.py") == ["a.py"]


def test_findings_bear_the_path_of_their_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.parent)
    for file in run(Path("project/train.py"), Path("project/pkg")).result.files:
        assert {finding.path for finding in file.findings} <= {file.path}


def test_a_second_run_takes_everything_from_the_cache(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(project)

    def never(*arguments: object, **keywords: object) -> object:
        raise AssertionError("a worker was started")

    monkeypatch.setattr(pipeline.pool, "run", never)
    second = run(project)
    assert second.result.files == first.result.files


@pytest.mark.parametrize(
    "change",
    [
        lambda project: (project / "train.py").write_text("import torch\ny = torch.zeros(1).cuda()\n"),
        lambda project: (project / "pkg" / "new.py").write_text("class C:\n    def cuda(self): ...\n"),
    ],
)
def test_a_changed_file_or_project_is_looked_at_again(
    project: Path, monkeypatch: pytest.MonkeyPatch, change: object
) -> None:
    run(project)
    change(project)  # type: ignore[operator]
    fresh = run(project, options=Options(cache=False))
    assert run(project).result.files == fresh.result.files


def test_other_settings_are_other_entries(project: Path) -> None:
    assert run(project).result.files != run(project, settings=Settings(ignore=("MLU201",))).result.files


def test_a_damaged_cache_is_no_harm(project: Path) -> None:
    first = run(project)
    for path in cache.default_folder().rglob("*"):
        if path.is_file():
            path.write_bytes(b"rubbish")
    assert run(project).result.files == first.result.files


def test_facts_that_cannot_be_had_are_told_and_the_run_goes_on(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(context: object, item: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr(learning, "_scan", broken)
    said: list[str] = []
    result = pipeline.run(gathering.targets_of([project]), Settings(), Options(cache=False), talk=said.append).result
    assert any("ran out of memory" in line for line in said)
    assert FileStatus.CHANGED in {file.status for file in result.files}


def test_facts_can_be_sent_and_stored(project: Path) -> None:
    from mlu_migrate import filefacts
    from mlu_migrate import project as scanning

    facts = scanning.look_at(project, [path.relative_to(project).as_posix() for path in project.rglob("*.py")])
    assert cache.decode(cache.encode(facts), (filefacts.FileFacts,)) == facts


@pytest.fixture
def looked_at(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Answers the files that were looked at for facts since it was last asked; workers write them down."""
    log = tmp_path_factory.mktemp("facts") / "log"
    real = learning._scan

    def spy(context: object, item: tuple[Path, list[str]]) -> bytes:
        log.write_text("\n".join(item[1]))
        return real(context, item)

    def answer() -> list[str]:
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return sorted(lines)

    monkeypatch.setattr(learning, "_scan", spy)
    return answer


def test_only_a_changed_file_is_looked_at_again_for_what_it_says(
    project: Path, looked_at: Callable[[], list[str]]
) -> None:
    first = run(project).result
    assert len(looked_at()) > 1
    changed = next(path for path in sorted(project.rglob("*.py")) if b"cuda" in path.read_bytes())
    changed.write_bytes(changed.read_bytes() + b"\n# longer\n")
    second = run(project).result
    assert looked_at() == [changed.relative_to(project).as_posix()]
    assert [file.status for file in first.files] == [file.status for file in second.files]
    run(project)
    assert looked_at() == []


def test_a_file_in_no_project_does_not_make_all_that_lies_below_be_read(
    tmp_path: Path, looked_at: Callable[[], list[str]]
) -> None:
    for name in ("train.py", "utils/own.py", "other/deep/er/x.py", ".venv/y.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CALL)
    run(tmp_path / "train.py")
    assert looked_at() == ["train.py", "utils/own.py"]


def test_since_outside_git_is_an_error_of_use(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CALL)
    with pytest.raises(gitinfo.GitError):
        pipeline.run(gathering.targets_of([tmp_path]), Settings(), Options(), since="HEAD")


def test_text_is_migrated_as_the_file_it_says_it_is(project: Path) -> None:
    result = pipeline.migrate_text(CALL.encode(), project / "pkg" / "not_there.py", Settings(), Options())
    assert result.status is FileStatus.CHANGED
    elsewhere = pipeline.migrate_text(CALL.encode(), Path("no/such/folder/x.py"), Settings(), Options())
    assert elsewhere.output == result.output


def test_configs_off_leaves_scripts_alone_and_keeps_notebooks(tmp_path: Path) -> None:
    assert not gathering.handler(Settings(configs="off"))(tmp_path / "run.sh")
    assert gathering.handler(Settings(configs="off"))(tmp_path / "a.ipynb")
    assert gathering.handler(Settings())(tmp_path / "run.sh")


def test_a_guess_that_a_parity_run_saw_come_true_is_safe(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(GUESS)
    before = run(tmp_path).result
    (guess,) = [finding for finding in before.findings if finding.safety.value == "unsafe"]
    assert b'"cuda:0"' in before.files[0].result
    report = tmp_path / "parity.json"
    place = {"path": "a.py", "line": guess.line, "column": guess.column}
    report.write_text(json.dumps({"device_strings": [place]}))
    after = run(tmp_path, settings=Settings(proven=evidence.read(report))).result
    assert b'"mlu:0"' in after.files[0].result
    report.write_text(json.dumps({"device_strings": [{**place, "column": guess.column + 1}]}))
    beside = run(tmp_path, settings=Settings(proven=evidence.read(report))).result
    assert b'"cuda:0"' in beside.files[0].result


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"device_strings": [{"path": "a.py"}]}', '{"device_strings": 3}', None]
)
def test_a_file_without_evidence_is_one_clear_line(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "e.json").write_text(text)
    with pytest.raises(evidence.EvidenceError) as caught:
        evidence.read(tmp_path / "e.json")
    assert "\n" not in str(caught.value)


def test_the_project_module_is_scanned_for_what_it_defines(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch\n\n\nclass Batch:\n    def cuda(self):\n        return self\n")
    assert "Batch" in project.scan(tmp_path, [tmp_path / "a.py"]).classes
