"""MLU003: ignore comments that cover nothing."""

from __future__ import annotations

from mlu_migrate.model import Safety, Severity
from mlu_migrate.rule import Rule


class UnusedIgnore(Rule):
    """
    Ignore comments that cover no finding.

    ## What it changes
    Nothing. A `# mlu: keep` that no longer covers anything is told, so that it can be deleted.

    ## Before
        import torch

        x = torch.ones(2)  # mlu: keep[MLU201]

    ## Finding
    At the comment: it covers no finding of this run.

    ## Left alone
    Comments that cover a finding, and comments of other tools.

    ## Source
    design.md, section 2.3.
    """

    code = "MLU003"
    name = "unused-ignore"
    severity = Severity.WARNING
    safety = Safety.MANUAL
    topics = ("set-up",)
