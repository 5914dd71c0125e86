"""Property: files made of several fixtures, at the top or inside a function, keep comments, parse, and are stable."""

from __future__ import annotations

import ast
import io
import textwrap
import tokenize
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlu_migrate import engine, project
from mlu_migrate.apimap import RELEASES
from mlu_migrate.model import FileStatus
from mlu_migrate.settings import Settings

FOLDER = Path(__file__).parent.parent / "fixtures" / "rules"


def usable(text: str) -> bool:
    """Whether a fixture can stand behind another: no future import, no star import, no comment that keeps code."""
    return "__future__" not in text and "import *" not in text and "mlu:" not in text and "\r" not in text


def parsed(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


TEXTS = [p.read_bytes().decode("utf-8", "replace") for p in sorted(FOLDER.glob("*/*.py")) if ".after." not in p.name]
PIECES = sorted({t for t in TEXTS if usable(t) and parsed(t)})


def comments(source: bytes) -> list[str]:
    """Comments but type comments and those the import brings along."""
    tokens = tokenize.tokenize(io.BytesIO(source).readline)
    found = [t.string for t in tokens if t.type == tokenize.COMMENT]
    return [c for c in found if not c.startswith("# type:") and c != "# noqa: F401"]


def inside(text: str, number: int) -> str:
    """The piece as body of a function; its docstring and names become local."""
    return f"def part_{number}():  # part {number}\n" + textwrap.indent(text, "    ") + "    return None\n"


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(st.sampled_from(PIECES), st.booleans()), min_size=1, max_size=4),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.sampled_from(RELEASES),
)
def test_files_of_several_fixtures_keep_comments_parse_and_are_stable(
    parts: list[tuple[str, bool]], newline: str, unsafe: bool, release: str
) -> None:
    text = "\n".join(inside(t, i) if nested else t for i, (t, nested) in enumerate(parts))
    if not parsed(text):
        return  # a triple-quoted text that the indentation broke
    source = text.replace("\n", newline).encode()
    collector = project.Collector()
    collector.add("case.py", source)
    facts, chosen = collector.facts(), Settings(unsafe=unsafe, torch_mlu=release)
    result = engine.migrate(source, "case.py", chosen, facts)
    assert result.status is not FileStatus.FAILED, result.reason
    ast.parse(result.result)
    assert comments(result.result) == comments(source)
    assert b"\r" not in result.result.replace(b"\r\n", b"") and (
        newline == "\n" or b"\n" not in result.result.replace(b"\r\n", b"")
    )
    again = engine.migrate(result.result, "case.py", chosen, facts)
    assert again.result == result.result
