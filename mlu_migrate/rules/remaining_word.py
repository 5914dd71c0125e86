"""Rule MLU004."""

from __future__ import annotations

from mlu_migrate.model import Safety, Severity
from mlu_migrate.rule import Rule


class RemainingWord(Rule):
    """
    CUDA-like words that stay, with `--audit`.

    ## What it changes
    Nothing. Told is each word such as `cuda`, `nccl`, `nvidia` or `gpu` in a comment, a string or a name that no
    other rule speaks of. They do the program no harm: texts are not changed, and names are the project's own.
    Without `--audit` nothing is reported.

    ## Before
        # trains on one gpu
        use_cuda = True

    ## Finding
    With `--audit`, at `gpu` and at `cuda`.

    ## Left alone
    Words in code that another rule rewrites or reports.

    ## Source
    `mlu_migrate/audit.py` has the list of words.
    """

    code = "MLU004"
    name = "remaining-word"
    severity = Severity.INFO
    safety = Safety.MANUAL
    topics = ("set-up",)
