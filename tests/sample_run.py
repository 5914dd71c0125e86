"""A run with everything a report has to cope with: hostile names and code, failures, notebooks, repeated snippets."""

from __future__ import annotations

import json

from mlu_migrate import engine, nonpython
from mlu_migrate.model import FileResult, FileStatus, RunResult
from mlu_migrate.settings import Settings

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
HOSTILE_PATH = "a b/<b>'\"&,:%\n\u202e.py"

_TRAIN = b"""import torch

x = torch.zeros(3).cuda()
print(x)
y = torch.zeros(3).cuda()
"""


def sample_run() -> RunResult:
    """Five files that were migrated, one that failed, one that was skipped."""
    settings = Settings()
    hostile = f"import torch\ns = '''{HOSTILE}'''; x = torch.zeros(1).cuda()  # {HOSTILE} \u202e\n".encode()
    book = {
        "cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "source": ["import torch\n", "x.cuda()"]}],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
    script = b"CUDA_VISIBLE_DEVICES=0 python train.py --device cuda\nnvidia-smi\nnvidia-smi\n"
    files = [
        engine.migrate(_TRAIN, "pkg/train.py", settings),
        engine.migrate(hostile, HOSTILE_PATH, settings),
        nonpython.migrate(json.dumps(book, indent=1).encode(), "demo.ipynb", settings),
        nonpython.migrate(script, "scripts/run.sh", settings),
        nonpython.migrate(b"torch\nflash-attn\n=1+1,cuda-python\n", "requirements.txt", settings),
        FileResult("bad.py", FileStatus.FAILED, "line 3: invalid syntax & <more>"),
        FileResult("link.py", FileStatus.SKIPPED, "a link"),
    ]
    return RunResult(tuple(files), seconds=1.5)
