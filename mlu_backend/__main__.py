"""``python -m mlu_backend``: run a program on the emulated device, build it, or say what is installed."""

from __future__ import annotations

import sys

from mlu_backend.launch import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
