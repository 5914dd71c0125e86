"""Rule MLU003."""

from __future__ import annotations

from mlu_migrate.model import Safety, Severity
from mlu_migrate.rule import Rule


class UnusedIgnore(Rule):
    """
    Ignore comments that keep nothing.

    ## What it reports
    A `# mlu: keep`, `# mlu: off`, `# mlu: keep-file` or `# mlu-migrate: ignore` comment on code where nothing would
    be reported or rewritten without it, and codes in its brackets that find nothing there. Such a comment hides
    what a later change brings in.

    ## Before
        import torch

        count = 3  # mlu: keep
        model = torch.nn.Linear(1, 1).cuda()  # mlu: keep

    ## After
        MLU003 on line 3

    ## Left alone
    A comment for a rule that this run does not look for, because of `--select` or `--ignore`.

    ## Source
    `mlu_migrate/suppress.py`; the comments are described in README.md.
    """

    code = "MLU003"
    name = "unused-ignore"
    severity = Severity.WARNING
    safety = Safety.MANUAL
    topics = ("set-up",)
