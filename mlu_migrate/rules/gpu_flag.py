"""MLU908: options of other libraries that ask for an NVIDIA GPU."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate.decide import with_its_call
from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.names import last_word
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit, argument, is_text

_ATTENTION = ("flash_attention_2", "flash_attention_3")


class GpuFlag(Rule):
    """
    Arguments by which a library is told to use an NVIDIA GPU or a CUDA-only kernel.

    ## What it changes
    Nothing: the word belongs to the library, which may know the MLU under another one or not at all.

    ## Before
        from transformers import AutoModel

        model = AutoModel.from_pretrained(name, attn_implementation="flash_attention_2")

    ## Finding
    At the argument: flash-attention is a CUDA kernel; use `attn_implementation="sdpa"`.

    ## Left alone
    `"gpu"` is never rewritten.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/backends/mlu/__init__.py:145-265 (scaled_dot_product_attention has fused
    kernels); for Lightning
    and ONNX Runtime the lists of accelerators and execution providers in their documentation.
    """

    code = "MLU908"
    name = "gpu-flag"
    severity = Severity.WARNING
    safety = Safety.MANUAL
    topics = ("advice",)
    needs = (
        b"attn_implementation",
        b"gpus=",
        b"xformers",
        b"accelerator",
        b"flash_attention",
        b"load_in_",
        b"8bit",
        b"adamw_apex_fused",
        b"ExecutionProvider",
    )

    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """Keywords of calls."""
        for keyword in node.keywords:
            if keyword.arg == "attn_implementation" and is_text(keyword.value, *_ATTENTION):
                yield self.found(unit, keyword.value, "attention", severity=Severity.ERROR)
            elif keyword.arg == "accelerator" and any(is_text(v, "gpu", "cuda") for v in _choices(keyword.value)):
                yield with_its_call(self.found(unit, keyword.value, "accelerator"), keyword.value, unit)
            elif keyword.arg == "gpus" and last_word(node.func) == "Trainer" and not is_text(keyword.value):
                if getattr(keyword.value, "value", 1) not in (0, None):
                    yield self.found(unit, keyword, "accelerator")
            elif keyword.arg == "use_flash_attention_2" and getattr(keyword.value, "value", None) is True:
                yield self.found(unit, keyword.value, "attention", severity=Severity.ERROR)
            elif keyword.arg in ("load_in_8bit", "load_in_4bit") and getattr(keyword.value, "value", None) is True:
                yield from self._once(unit, keyword, "quantised", Severity.ERROR, option=keyword.arg)
        if last_word(node.func) in (
            "enable_xformers_memory_efficient_attention",
            "set_use_memory_efficient_attention_xformers",
        ):
            yield from self._once(unit, node.func, "xformers", Severity.ERROR, option="xformers")
        init = argument(node, "optim")
        if is_text(init) and "8bit" in init.value:  # type: ignore[union-attr]
            assert init is not None
            yield self.found(unit, init, "quantised", severity=Severity.ERROR, option=init.value)  # type: ignore[attr-defined]
        elif is_text(init, "adamw_apex_fused"):
            assert init is not None
            yield self.found(unit, init, "apex", severity=Severity.ERROR)

    def visit_Constant(self, node: ast.Constant, unit: Unit) -> Iterator[Finding]:
        """ONNX Runtime's provider names, and flash-attention as a setting."""
        if node.value in ("gpu", "cuda") and _is_accelerator(unit, node):
            yield self.found(unit, node, "accelerator")
        if node.value in _ATTENTION and _is_setting(unit, node):
            yield from self._once(unit, node, "attention", Severity.ERROR, option=str(node.value))
        if node.value in ("CUDAExecutionProvider", "TensorrtExecutionProvider") and not unit.is_docstring(node):
            yield from self._once(unit, node, "provider", Severity.WARNING, provider=str(node.value))

    def _once(
        self, unit: Unit, node: ast.AST, message: str, severity: Severity, *, option: str = "", provider: str = ""
    ) -> Iterator[Finding]:
        """Each option or provider is told once a file."""
        seen: set[str] = unit.memo.setdefault("MLU908.told", set())  # type: ignore[assignment]
        if option + provider not in seen:
            seen.add(option + provider)
            yield self.found(unit, node, message, severity=severity, option=option, provider=provider)


def _choices(node: ast.expr) -> list[ast.expr]:
    return [*_choices(node.body), *_choices(node.orelse)] if isinstance(node, ast.IfExp) else [node]


def _is_accelerator(unit: Unit, node: ast.Constant) -> bool:
    """`cfg.trainer.accelerator = "gpu"`, `options["accelerator"] = "gpu"`, `{"accelerator": "gpu"}`."""
    parent = unit.parent(node)
    if isinstance(parent, ast.Dict):
        return node in parent.values and is_text(parent.keys[parent.values.index(node)], "accelerator")
    if not isinstance(parent, ast.Assign):
        return False
    return any(
        isinstance(t, ast.Attribute)
        and t.attr == "accelerator"
        or isinstance(t, ast.Subscript)
        and is_text(t.slice, "accelerator")
        for t in parent.targets
    )


def _is_setting(unit: Unit, node: ast.Constant) -> bool:
    """A value that is stored or a default, not one that is compared with, listed, or told by its keyword already."""
    parent = unit.parent(node)
    if isinstance(parent, ast.keyword):
        return parent.arg not in ("attn_implementation", "help", "choices")
    if isinstance(parent, ast.Dict):
        return node in parent.values
    return isinstance(parent, (ast.Assign, ast.AnnAssign, ast.IfExp, ast.Return, ast.arguments, ast.FunctionDef))
