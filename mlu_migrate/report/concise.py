"""One line a finding, as compilers and linters print them."""

from __future__ import annotations

from mlu_migrate.messages import render as words
from mlu_migrate.model import RunResult, Safety
from mlu_migrate.report import place, printable, troubled
from mlu_migrate.settings import Settings


def render(run: RunResult, settings: Settings, lang: str = "en") -> str:
    """
    ``path:line:column: CODE severity message`` for each finding; ``[*]`` marks what a run would rewrite, ``[+]``
    what one with ``--unsafe`` would. Files that failed or were skipped follow.
    """
    lines = []
    for finding in run.findings:
        mark = {Safety.SAFE: "[*] ", Safety.UNSAFE: "[+] "}.get(finding.safety, "") if finding.edits else ""
        message = printable(words(finding, lang)[0])
        lines.append(f"{place(finding)}: {finding.code} {finding.severity.value} {mark}{message}")
    lines += [f"{printable(file.path)}: {file.status.value}: {printable(file.reason or '')}" for file in troubled(run)]
    return "".join(f"{line}\n" for line in lines)
