"""
What dynamo, the front end of ``torch.compile``, has to know of ``torch.mlu``.

As of ``torch.cuda``: questions about the card are answered while code is captured, ``torch.mlu.amp.autocast`` is
autocast, and everything else in ``torch.mlu`` (streams, events, memory) is called between two graphs rather than looked
into.
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import torch

from mlu_backend.after_import import after_import

# Answers that hold for the life of a process, and answers that a guard has to watch.
FIXED = (
    "is_available",
    "device_count",
    "get_device_name",
    "get_device_capability",
    "is_bf16_supported",
    "is_fp8_supported",
    "supports_linear_memory",
)
GUARDED = ("current_device", "is_initialized")


def register() -> None:
    """Teach dynamo once it is imported."""
    after_import("torch._dynamo", _teach)


def _teach(_: ModuleType) -> None:
    from torch._dynamo import trace_rules
    from torch._dynamo.variables import torch as variables

    _answer_questions(variables, trace_rules)
    _know_autocast(variables)
    for package in ("torch_mlu.mlu", "torch_mlu._MLUC"):
        trace_rules.add(package)


def _answer_questions(variables: Any, trace_rules: Any) -> None:
    rules = trace_rules.get_torch_obj_rule_map()
    for name in (*FIXED, *GUARDED):
        function = getattr(torch.mlu, name)
        rules[function] = variables.TorchInGraphFunctionVariable
        variables.constant_fold_functions[function] = None
        if name in GUARDED:
            variables.constant_fold_functions_need_guards[function] = None


def _know_autocast(variables: Any) -> None:
    import torch_mlu

    # Two classes: the module is loaded once as torch.mlu.amp and once as torch_mlu.mlu.amp.
    ours = (torch.mlu.amp.autocast, torch_mlu.mlu.amp.autocast)
    variables.supported_ctx_manager_classes.update(dict.fromkeys(ours))
    context = variables.TorchCtxManagerClassVariable
    original = context.call_function

    def call_function(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        if self.value not in ours:
            return original(self, tx, args, kwargs)
        given = inspect.signature(self.value).bind(*args, **kwargs)
        given.apply_defaults()
        return variables.AutocastModeVariable.create(torch.autocast, [], {"device_type": "mlu", **given.arguments})

    context.call_function = call_function
