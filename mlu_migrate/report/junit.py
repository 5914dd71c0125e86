"""JUnit XML: one test case a file. It fails where there is something to migrate or to do, as a check in CI does."""

from __future__ import annotations

import re
from xml.sax.saxutils import quoteattr

from mlu_migrate.model import FileResult, FileStatus, Finding, RunResult, Severity
from mlu_migrate.report import place
from mlu_migrate.report.places import sentence
from mlu_migrate.settings import Settings

# What XML 1.0 cannot hold, escaped or not.
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def render(run: RunResult, settings: Settings, lang: str = "en") -> str:
    """
    The report. A file fails when it changes, or when a finding of warning or above is left; one that could not be
    migrated is an error.
    """
    cases = [_case(file, lang) for file in run.files]
    failures = sum(bool(_left(file)) for file in run.files)
    errors = sum(file.status is FileStatus.FAILED for file in run.files)
    skipped = sum(file.status is FileStatus.SKIPPED for file in run.files)
    counts = f'tests="{len(cases)}" failures="{failures}" errors="{errors}" skipped="{skipped}" time="{run.seconds}"'
    head = f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites name="mlu-migrate" {counts}>\n'
    body = "".join(cases)
    return f'{head}<testsuite name="mlu-migrate" {counts}>\n{body}</testsuite>\n</testsuites>\n'


def _left(file: FileResult) -> list[Finding]:
    return [f for f in file.findings if f.applied or f.severity.rank >= Severity.WARNING.rank]


def _case(file: FileResult, lang: str) -> str:
    name = f'<testcase classname="mlu-migrate" name={_attribute(file.path)} file={_attribute(file.path)}'
    if file.status is FileStatus.FAILED:
        return f"{name}><error message={_attribute(file.reason or '')}/></testcase>\n"
    if file.status is FileStatus.SKIPPED:
        return f"{name}><skipped message={_attribute(file.reason or '')}/></testcase>\n"
    left = _left(file)
    if not left:
        return f"{name}/>\n"
    # A test case has one failure: several are not read by all viewers.
    kinds = ", ".join(sorted({f.code for f in left}))
    lines = [f"{place(f)}: {f.code} {f.severity.value} {sentence(f, lang)}" for f in left]
    message = f"{len(left)} findings ({kinds})" if len(left) > 1 else lines[0]
    text = _clean("\n".join(lines)).replace("]]>", "]]]]><![CDATA[>")
    failure = f"<failure type={_attribute(kinds)} message={_attribute(message)}><![CDATA[{text}]]></failure>"
    return f"{name}>{failure}</testcase>\n"


def _clean(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)


def _attribute(text: str) -> str:
    return quoteattr(_clean(text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
