"""
Coverage-guided fuzzing of decode, parse, edit and apply: `python tests/fuzz_engine.py [-max_total_time=3600]
[CORPUS]`.

Needs the package atheris. Each input is shown to the engine as a Python file; a traceback, a result that does not parse
where the input did, or a second run that changes the result ends the run with the input saved.
"""

from __future__ import annotations

import ast
import sys
import warnings

import atheris

with atheris.instrument_imports(include=["mlu_migrate"]):
    from mlu_migrate import engine, project
    from mlu_migrate.model import FileStatus
    from mlu_migrate.settings import Settings

warnings.simplefilter("ignore")

# Input bytes choose lines from here and are mixed with raw bytes, so that deep code is reached soon.
WORDS = [
    b"import torch\n",
    b"import torch as th\n",
    b"from torch import cuda\n",
    b"from torch.cuda.amp import autocast, GradScaler\n",
    b"torch.cuda.synchronize()\n",
    b"x = y.cuda(0)  # c\n",
    b"d = 'cuda:%d' % i\n",
    b'f"{torch.cuda.device_count()} cuda"\n',
    b"t = {'cuda': torch.cuda.init}[d.type]\n",
    b"if d.type in ('cuda', 'xpu'):\n    pass\n",
    b"try:\n    import torch\nexcept ImportError:\n    torch = None\n",
    b"import os; os.environ['CUDA_VISIBLE_DEVICES'] = '0'\n",
    b"torch.load(p, map_location={'cuda:0': 'cuda:1'})\n",
    b"def cuda(self): return self\n",
    b"class A:\n    def cuda(self): return self\n",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"\x0c",
    b"\\\n",
    b"# mlu: keep\n",
    b"# coding: latin-1\n",
]


def build(data: bytes) -> bytes:
    """Bytes below 64 name a line of WORDS; a byte 255 switches to raw copying until the next 255."""
    out: list[bytes] = []
    raw = False
    for byte in data:
        if byte == 255:
            raw = not raw
        elif raw or byte >= 64:
            out.append(bytes((byte,)))
        else:
            out.append(WORDS[byte % len(WORDS)])
    return b"".join(out)


def one(data: bytes) -> None:
    """One input; raises on anything that must not happen."""
    source = build(data)
    collector = project.Collector()
    collector.add("fuzz.py", source)
    facts = collector.facts()
    result = engine.migrate(source, "fuzz.py", Settings(unsafe=bool(data[:1] and data[0] & 1)), facts)
    if result.status is FileStatus.FAILED and "internal error" in (result.reason or ""):
        raise AssertionError(result.reason)
    if result.output is None:
        return
    ast.parse(result.output)
    again = engine.migrate(result.output, "fuzz.py", Settings(unsafe=bool(data[0] & 1)), facts)
    if again.output is not None:
        raise AssertionError("a second run changes the result")


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
