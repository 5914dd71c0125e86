"""
A stand-in for the vendor's converter: ten regular expressions, line by line, over a copy of a folder.

`python benchmarks/regex_converter.py FOLDER COPY`. Written by us from the description in the reference (behaviours,
section 18: a copy, `import torch_mlu` below the first line that is `import torch`, on every other line a fixed list of
patterns without word boundaries), for comparisons of speed (rewriter.py) and of results (parity_converters.py).
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

PATTERNS = {
    r"cuda": "mlu",
    r"nccl": "cncl",
    r"torch\.backends\.cudnn\.enabled": "torch.backends.mlufusion.enabled",
    r"torch\.backends\.cuda\.matmul\.allow_tf32": "torch.backends.mlu.matmul.allow_tf32",
    r"torch\.backends\.cudnn\.allow_tf32": "torch.backends.cnnl.allow_tf32",
    r"ProfilerActivity\.CUDA": "ProfilerActivity.MLU",
    r"nvtx": "cnpx",
    r"torch\.get_autocast_gpu_dtype": "torch.mlu.get_autocast_dtype",
    r"torch\.set_autocast_gpu_dtype": "torch.mlu.set_autocast_dtype",
    r"CUDAGraph": "MLUGraph",
}


def convert(lines: list[str]) -> list[str]:
    """The lines as the patterns leave them."""
    out = []
    imported = False
    for line in lines:
        if not imported and line.strip() == "import torch":
            out += [line, line.replace("import torch", "import torch_mlu")]
            imported = True
            continue
        for old, new in PATTERNS.items():
            line = re.sub(old, new, line)
        out.append(line)
    return out


def convert_folder(folder: Path, copy: Path) -> None:
    """Copy ``folder`` to ``copy``, which must not be there, and convert its Python files."""
    shutil.copytree(folder, copy)
    for path in copy.rglob("*.py"):
        with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            lines = file.readlines()
        with path.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.writelines(convert(lines))


if __name__ == "__main__":
    convert_folder(Path(sys.argv[1]), Path(sys.argv[2]))
