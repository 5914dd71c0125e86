from __future__ import annotations

import pytest

from mlu_migrate import suppress
from mlu_migrate.messages import render


def parsed(source: str) -> suppress.Suppressions:
    data = source.encode()
    return suppress.parse(data, suppress.comments_of(data))


def test_a_keep_comment_covers_its_line_and_no_other() -> None:
    found = parsed("x = a.cuda()\ny = b.cuda()  # mlu: keep\nz = c.cuda()\n")
    assert [found.covers("MLU201", line, line) for line in (1, 2, 3)] == [False, True, False]


def test_codes_in_brackets_limit_what_is_kept_and_a_reason_may_follow() -> None:
    found = parsed("NAME = 'cuda'  # mlu: keep[MLU203, mlu3] label shown to users\n")
    assert found.covers("MLU203", 1, 1)
    assert found.covers("MLU301", 1, 1)
    assert not found.covers("MLU201", 1, 1)


def test_the_long_spelling_is_understood() -> None:
    assert parsed("x.cuda()  # mlu-migrate: ignore[MLU201]\n").covers("MLU201", 1, 1)


def test_a_comment_after_another_comment_counts() -> None:
    assert parsed("x.cuda()  # noqa: E501  # mlu: keep\n").covers("MLU201", 1, 1)


def test_a_region_runs_from_off_to_on_or_to_the_end() -> None:
    found = parsed("a\n# mlu: off\nb\n# mlu: on\nc\n# mlu: off\nd\n")
    assert [found.covers("MLU201", line, line) for line in (1, 3, 5, 7)] == [False, True, False, True]


def test_keep_file_near_the_top_covers_everything() -> None:
    found = parsed("# mlu: keep-file\n" + "x = 1\n" * 50)
    assert found.keeps_file
    assert found.covers("MLU201", 51, 51)


def test_keep_file_far_below_the_top_is_not_heeded() -> None:
    found = parsed("x = 1\n" * 30 + "# mlu: keep-file\n")
    assert not found.keeps_file
    assert not found.covers("MLU201", 1, 1)


def test_words_in_strings_and_ordinary_comments_keep_nothing() -> None:
    found = parsed("x = '# mlu: keep'\n# mlu: keeping things simple\n# mlu: one card\n# the mlu: keep it\n")
    assert not found
    assert not any(found.covers("MLU201", line, line) for line in (1, 2, 3, 4))


def test_a_comment_after_a_triple_quoted_string_covers_the_lines_of_the_string() -> None:
    found = parsed('x = """\ncuda\n"""  # mlu: keep\n')
    assert found.covers("MLU203", 1, 1)
    assert found.covers("MLU203", 2, 2)


def test_a_comment_after_a_backslash_covers_the_lines_before_it() -> None:
    found = parsed("x = a \\\n    .cuda() \\\n    .half()  # mlu: keep\ny = 1\n")
    assert found.covers("MLU201", 1, 1)
    assert found.covers("MLU201", 2, 2)
    assert not found.covers("MLU201", 4, 4)


def test_a_comment_inside_a_call_over_several_lines_covers_only_its_own_line() -> None:
    found = parsed("f(\n    a.cuda(),\n    b.cuda(),  # mlu: keep\n)\n")
    assert not found.covers("MLU201", 2, 2)
    assert found.covers("MLU201", 3, 3)


def test_a_finding_over_several_lines_is_covered_by_a_comment_on_any_of_them() -> None:
    assert parsed("f(\n  a,  # mlu: keep\n).cuda()\n").covers("MLU201", 1, 3)


def test_comments_that_kept_nothing_are_unused() -> None:
    found = parsed("a.cuda()  # mlu: keep[MLU201]\nb = 1  # mlu: keep\nc.cuda()  # mlu: keep[MLU201,MLU301]\n")
    found.covers("MLU201", 1, 1)
    found.covers("MLU201", 3, 3)
    unused = found.unused()
    assert [(item.line, item.codes) for item in unused] == [(2, ()), (3, ("MLU301",))]


def test_a_comment_for_a_rule_that_was_not_run_is_not_called_unused() -> None:
    found = parsed("a = 1  # mlu: keep[MLU301]\nb = 1  # mlu: keep\n")
    assert found.unused(active=lambda code: code.startswith("MLU2")) == []


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_an_unused_comment_is_a_finding_with_a_message(lang: str) -> None:
    (item,) = parsed("b = 1  # mlu: keep\n").unused()
    finding = item.finding("a.py", column=8)
    message, hint = render(finding, lang)
    assert (finding.code, finding.line, finding.column) == ("MLU003", 1, 8)
    assert "# mlu: keep" in message
    assert hint


def test_source_that_cannot_be_tokenised_still_gives_its_line_comments() -> None:
    data = b"print 'x'  # mlu: keep\n)\n"
    found = suppress.parse(data, [(1, "# mlu: keep")])
    assert found.covers("MLU201", 1, 1)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("coding", ["utf-8", "gbk", "latin-1"])
def test_encodings_and_line_ends_do_not_matter(newline: str, coding: str) -> None:
    word = "é" if coding == "latin-1" else "显卡"
    text = (
        f"# coding: {coding}\nx = '{word}'; a.cuda()  # mlu: keep {word}\ny = b \\\n  .cuda()  # mlu: keep\nc.cuda()\n"
    )
    for data in (text.replace("\n", newline).encode(coding), text.replace("\n", newline).encode()):
        found = suppress.parse(data, suppress.comments_of(data))
        assert [found.covers("MLU201", line, line) for line in (1, 2, 3, 4, 5)] == [False, True, True, True, False]
