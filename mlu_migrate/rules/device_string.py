"""MLU203: texts that name a CUDA device and reach a device sink."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate.decide import StringRule
from mlu_migrate.model import Finding, Severity
from mlu_migrate.sinks import DEVICE
from mlu_migrate.unit import Unit


class DeviceString(StringRule):
    """
    Device strings: "cuda", "cuda:0" and everything composed of them.

    ## What it changes
    The word `cuda` of a text that reaches a device: `torch.device`, `.to`, `device=`, autocast, comparisons with a
    device's type,
    defaults and options whose name says device, and every variable that flows into one of these. Tables, membership
    tests and
    `match` gain an `mlu` member and keep the rest.

    ## Before
        import torch

        dev = "cuda:%d" % rank if torch.cuda.is_available() else "cpu"
        x = torch.ones(2, device=dev)
        if x.device.type in ("cuda", "xpu"):
            pass

    ## After
        import torch
        import torch_mlu  # noqa: F401

        dev = "mlu:%d" % rank if torch.mlu.is_available() else "cpu"
        x = torch.ones(2, device=dev)
        if x.device.type in ("cuda", "mlu", "xpu"):
            pass

    ## Left alone
    File names, messages, keys of saved data, choices of an algorithm, devices of other libraries. An exact device
    string whose use
    cannot be told is reported and changed only with `--unsafe`.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/__init__.py:60 (renames PrivateUse1 to `mlu`).
    """

    code = "MLU203"
    name = "device-string"
    severity = Severity.INFO
    topics = ("devices",)
    needs = (b"cu",)
    kind = DEVICE

    def visit_Constant(self, node: ast.Constant, unit: Unit) -> Iterator[Finding]:
        """Plain and composed literals."""
        if isinstance(node.value, str) and "cuda" in node.value and self.kind.text.fullmatch(node.value):
            if not isinstance(unit.parent(node), ast.JoinedStr):
                yield from self.decide(node, node.value, unit)

    def visit_JoinedStr(self, node: ast.JoinedStr, unit: Unit) -> Iterator[Finding]:
        """f-strings that begin with the device type."""
        first = node.values[0] if node.values else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str) and first.value in ("cuda", "cuda:"):
            rest = node.values[1:]
            if len(rest) <= 1 and all(isinstance(v, ast.FormattedValue) for v in rest):
                yield from self.decide(node, "cuda:", unit)
