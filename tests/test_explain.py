from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from mlu_migrate import addignore, engine, explain
from mlu_migrate.configs.catalogue import pages
from mlu_migrate.model import FileResult
from mlu_migrate.rule import all_rules
from mlu_migrate.settings import Settings

SOURCE = b"""import torch

x = torch.ones(1).cuda()
y = torch.ones(1).cuda()  # mlu: keep[MLU201] on purpose
# talk about cuda
print("cuda rocks")
cuda_count = 1
z = "mlu:0"
"""


def migrate(source: bytes, settings: Settings) -> FileResult:
    return engine.migrate(source, "a.py", settings)


def why(line: int, settings: Settings | None = None, source: bytes = SOURCE) -> explain.Answer:
    return explain.why(source, line, settings or Settings(), migrate)


def keys(answer: explain.Answer) -> set[tuple[str, str]]:
    return {(verdict.finding.code, verdict.key) for verdict in answer.verdicts}


def test_a_rewritten_line_names_its_rule() -> None:
    assert ("MLU201", "why.applied") in keys(why(3))


def test_a_line_kept_by_a_comment_says_what_the_rule_would_have_done() -> None:
    assert ("MLU201", "why.comment") in keys(why(4))


def test_a_rule_that_is_switched_off_is_named() -> None:
    assert ("MLU201", "why.off") in keys(why(3, Settings(ignore=("MLU2",))))


def test_a_finding_held_by_a_baseline_is_named() -> None:
    column = SOURCE.splitlines()[2].index(b"cuda") + 1
    found = [(f.code, f.line, f.column) for f in migrate(SOURCE, Settings()).findings if f.line == 3]
    assert found, column
    assert ("MLU201", "why.baseline") in keys(why(3, Settings(kept=tuple(found))))


@pytest.mark.parametrize(("line", "kind", "column"), [(5, "comment", 14), (6, "string", 8), (7, "name", 1)])
def test_words_that_stay_are_explained_by_what_they_are_in(line: int, kind: str, column: int) -> None:
    source = SOURCE
    answer = why(line, source=source)
    told = {(item.kind, item.column) for item in answer.mentions}
    audited = {verdict.finding.column for verdict in answer.verdicts}
    assert (kind, column) in told or audited, answer


def test_a_line_without_anything_has_nothing_to_say() -> None:
    answer = why(1, source=b"x = 1\n")
    assert (answer.verdicts, answer.mentions, answer.failed) == ((), (), None)


def test_making_ignore_comments_inert_does_not_touch_strings() -> None:
    assert explain._without_ignores(SOURCE).count(b'"mlu:0"') == 1
    assert b"# mlu; keep[MLU201]" in explain._without_ignores(SOURCE)


def test_a_file_that_cannot_be_parsed_says_so() -> None:
    assert "line 2" in (why(1, source=b"import torch\nprint 'cuda'\n").failed or "")


def test_a_line_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="no line 99"):
        why(99)


def test_the_catalogue_lists_every_rule_once_with_its_first_sentence() -> None:
    lines = explain.catalogue().splitlines()
    assert [line.split()[0] for line in lines] == sorted(
        {*(rule.code for rule in all_rules()), *(page.code for page in pages())}
    )
    assert all(len(line.split()) > 4 for line in lines)


def test_every_rule_has_a_page_with_its_parts() -> None:
    for rule in all_rules():
        page = explain.page(rule.code) or ""
        assert page.startswith(f"{rule.code} {rule.name} (")
        assert "## Source" in page, rule.code
        assert "## Before" in page, rule.code
        assert "## Left alone" in page, rule.code


def test_a_code_that_is_no_rule_has_no_page() -> None:
    assert explain.page("MLU999") is None


def left_after(source: bytes) -> tuple[bytes, list[str]]:
    first = addignore.add(source, [f for f in migrate(source, Settings()).findings if f.code != "MLU001"])
    assert first.problems == []
    result = migrate(first.output, Settings())
    return first.output, [f.code for f in result.findings]


def test_ignore_comments_are_added_and_silence_what_they_name() -> None:
    output, left = left_after(b"import torch\nx = torch.ones(1).cuda()\n")
    assert output == b"import torch\nx = torch.ones(1).cuda()  # mlu: keep[MLU201]\n"
    assert left == []


def test_codes_are_added_to_a_comment_that_is_there() -> None:
    output, left = left_after(b"import torch\nx = torch.ones(1).cuda()  # mlu: keep[MLU901]\n")
    assert b"# mlu: keep[MLU201,MLU901]" in output
    assert "MLU201" not in left


@pytest.mark.parametrize("newline", [b"\r\n", b"\r"])
def test_added_comments_keep_the_line_ends(newline: bytes) -> None:
    source = b"import torch\nx = torch.ones(1).cuda()\n".replace(b"\n", newline)
    output, left = left_after(source)
    assert output.endswith(b"# mlu: keep[MLU201]" + newline)
    assert left == []


def test_a_line_that_goes_on_gets_its_comment_at_the_end_of_the_construct() -> None:
    source = b'import torch\nx = torch.ones(1) \\\n    .cuda()\ny = (torch.device("cuda"), """\ntext""")\n'
    output, left = left_after(source)
    assert b"    .cuda()  # mlu: keep[MLU201]\n" in output
    assert left == []


def test_a_finding_about_an_unused_comment_gets_no_comment() -> None:
    source = b"import torch\nx = 1  # mlu: keep\n"
    finding = next(f for f in migrate(source, Settings()).findings if f.code == "MLU003")
    assert addignore.add(source, [finding]).output == source


def test_a_place_beyond_the_file_is_a_problem_and_not_a_crash() -> None:
    finding = dataclasses.replace(migrate(SOURCE, Settings()).findings[0], line=99, end_line=99)
    added = addignore.add(SOURCE, [finding])
    assert added.output == SOURCE
    assert added.problems


def test_a_page_of_what_is_judged_outside_python_is_found_by_code_and_name() -> None:
    assert "docker run --gpus" in (explain.page("MLU604") or "")
    assert explain.page("container") == explain.page("MLU604")
    assert "MLU602" in explain.codes()


def test_a_code_with_two_pages_shows_both() -> None:
    page = explain.page("MLU601") or ""
    assert "os.environ" in page and "In scripts and configurations" in page


def test_a_line_of_a_notebook_is_answered_for_its_cell() -> None:
    from mlu_migrate import nonpython

    path = Path(__file__).parent.parent / "fixtures" / "notebooks" / "training.ipynb"
    source = path.read_bytes()
    line = source.decode().split("\n").index('    "%time y = x.cuda()\\n",') + 1
    answer = explain.why(source, line, Settings(), lambda s, settings: nonpython.migrate(s, "a.ipynb", settings))
    assert [v.finding.code for v in answer.verdicts] == ["MLU201"] and not answer.mentions
