"""Decoding and the arithmetic of positions."""

from __future__ import annotations

import pytest

from mlu_migrate.model import Edit
from mlu_migrate.source import Source, SourceError


def test_lines_end_at_every_kind_of_line_end() -> None:
    source = Source(b"a\r\nb\rc\nd")
    assert source.starts == [0, 3, 5, 7]
    assert source.line_bytes(2) == b"b\r"


def test_form_feeds_end_no_line() -> None:
    assert Source(b"a\x0cb\n").starts == [0, 4]


def test_positions_count_code_points() -> None:
    assert Source("名x\n".encode()).position(3) == (1, 2)


def test_the_first_line_end_of_the_file_is_used_for_new_lines() -> None:
    assert Source(b"a\r\nb\n").newline == b"\r\n"
    assert Source(b"a").newline == b"\n"


def test_edits_of_another_encoding_are_mapped_to_the_original_bytes() -> None:
    original = "# coding: gbk\n名 = x\n".encode("gbk")
    source = Source(original)
    at = source.data.index(b"x")
    (edit,) = source.to_original([Edit(at, at + 1, b"y")])
    assert original[edit.start : edit.end] == b"x" and edit.text == b"y"


def test_a_null_byte_is_refused_with_its_line() -> None:
    with pytest.raises(SourceError, match="line 2"):
        Source(b"a\nb\0\n")


def test_a_second_byte_order_mark_is_refused() -> None:
    with pytest.raises(SourceError, match="two byte order marks"):
        Source(b"\xef\xbb\xbf\xef\xbb\xbfimport torch\n")


def test_a_byte_order_mark_and_another_coding_contradict_each_other() -> None:
    with pytest.raises(SourceError, match="BOM|utf-8"):
        Source(b"\xef\xbb\xbf# coding: latin-1\nimport torch\n")
    assert Source(b"\xef\xbb\xbf# coding: utf-8\nimport torch\n").base == 3
