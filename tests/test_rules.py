"""Every rule's page: the sections are there, Before becomes After (or gives the Finding), messages exist."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path

import pytest

from mlu_migrate import engine, project, rule
from mlu_migrate.model import Safety
from mlu_migrate.settings import Settings

FIXTURES = Path(__file__).parent.parent / "fixtures" / "rules"
RULES = rule.all_rules()


def section(page: str, title: str) -> str:
    """The text of one `## title` section, without its common indentation."""
    match = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.S | re.M)
    return textwrap.dedent(match[1]).strip("\n") + "\n" if match else ""


@pytest.mark.parametrize("one", RULES, ids=lambda r: r.code)
def test_the_page_converts_as_it_says(one: rule.Rule) -> None:
    page = inspect.getdoc(type(one)) or ""
    assert page.splitlines()[0].endswith("."), "the first line is a sentence"
    for title in ("What it changes", "Left alone", "Source"):
        assert section(page, title).strip(), f"{one.code} has no section {title}"
    before, after, finding = (section(page, t) for t in ("Before", "After", "Finding"))
    assert before.strip() and (after.strip() or finding.strip())
    source = before.encode()
    name = "setup.py" if "setup(" in before else "page.py"
    collector = project.Collector()
    collector.add(name, source)
    settings = Settings(audit=one.code == "MLU004")  # which speaks only when it is asked to
    result = engine.migrate(source, name, settings, collector.facts())
    if after.strip():
        assert result.result.decode() == after
    else:
        assert one.code in {f.code for f in result.findings}


@pytest.mark.parametrize("one", RULES, ids=lambda r: r.code)
def test_a_rule_has_fixtures_of_both_kinds(one: rule.Rule) -> None:
    folder = FIXTURES / one.code
    rewriting = list(folder.glob("*.before.py"))
    untouched = list(folder.glob("*.noop.py"))
    assert untouched, f"{one.code} has no no-op"
    assert rewriting or list(folder.glob("*.findings.json")), f"{one.code} shows nothing it finds"
    if one.safety is not Safety.MANUAL:
        assert rewriting, f"{one.code} rewrites but has no before / after pair"
