"""
Command lines written as one text in Python: `subprocess.run("python train.py --device cuda", shell=True)`.

Which texts are run as commands, and which of their words are devices or backends. Launch scripts are configs/*'s.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlu_migrate import sinks, strings
from mlu_migrate.names import last_word
from mlu_migrate.sinks import Kind
from mlu_migrate.unit import Unit

_NAME = re.compile(r"cmd|command|script(?!ion)|launch|run_?line", re.IGNORECASE)
_RUNNERS = frozenset(
    "system popen Popen run call check_call check_output getoutput getstatusoutput execute exec_command run_command "
    "run_cmd create_subprocess_shell execute_subprocess_async".split()
)
_SAID = frozenset(("help", "description", "epilog", "usage"))
_OPTION = re.compile(
    r"(?:^|(?<=[\s\"'(]))(?P<option>--?[A-Za-z][\w-]*)(?:=|\s+)[\"']?"
    r"(?P<value>cuda(?::(?:\d+|%[ds]|\{\w*\}|$))?|nccl)(?=$|[\s\"';&|)])"
)
# `trainer.device=cuda` of a program whose settings are given by name.
_SETTING = re.compile(
    r"(?:^|(?<=[\s\"'(]))(?P<option>[+~]{0,2}[A-Za-z][\w./@]*)=(?P<value>cuda(?::(?:\d+|%[ds]|\{\w*\}|$))?|nccl)"
    r"(?=$|[\s\"';&|)])"
)
# A text that begins like a command, whatever is done with it.
_BEGINS = re.compile(
    r"\s*(?:[A-Z_]+=\S*\s+)*(?:\S*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed|mpirun|srun|bash|sh)\s"
)


def is_command(unit: Unit, node: ast.AST) -> bool:
    """Whether a text is run as a command: by what it is given to, or by the name it is stored under."""
    for outer in unit.ancestors(node):
        if isinstance(outer, ast.Call):
            leaf = last_word(outer.func)
            if leaf in sinks.PROSE:
                return False
            if leaf in _RUNNERS or _NAME.search(leaf):
                return True
        elif isinstance(outer, ast.keyword):
            if outer.arg in _SAID:
                return False
            if outer.arg and _NAME.search(outer.arg):
                return True
        elif isinstance(outer, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            targets = outer.targets if isinstance(outer, ast.Assign) else [outer.target]
            return any(_NAME.search(last_word(t)) for t in targets)
        elif isinstance(outer, ast.Return):
            function = next((a for a in unit.ancestors(outer) if isinstance(a, ast.FunctionDef)), None)
            return function is not None and _NAME.search(function.name) is not None
        elif isinstance(outer, ast.stmt):
            return False
    return False


def options(unit: Unit, node: ast.Constant | ast.JoinedStr, kind: Kind) -> Iterator[tuple[int, int, str, str, bool]]:
    """
    (start, end, word, option, sure) of each device (or backend) given to an option inside a text.

    ``sure`` is False where only the text's beginning says that it is a command.
    """
    pieces = strings.pieces(unit.data, *unit.span(node)) or []
    if not any(kind.old in p.raw and ("-" in p.raw or "=" in p.raw) for p in pieces):
        return
    whole = "".join(p.raw for p in pieces)
    sure = is_command(unit, node)
    if not sure and not _BEGINS.match(whole) and not _is_split(unit, node):
        return
    if not sure and _is_said(unit, node):
        return
    for piece in pieces:
        for match in (*_OPTION.finditer(piece.raw), *_SETTING.finditer(piece.raw)):
            name = match["option"] if match["option"].startswith("-") else match["option"].rpartition(".")[2]
            if match["value"].startswith(kind.old) and sinks.says(kind, name.lstrip("+~")):
                start = piece.start + len(piece.raw[: match.start("value")].encode("utf-8"))
                yield start, start + len(kind.old), match["value"], match["option"], sure or _is_split(unit, node)


def _is_split(unit: Unit, node: ast.AST) -> bool:
    """`"--device cuda".split()`, `shlex.split("...")`: words of a command line."""
    outer = unit.parent(node)
    if isinstance(outer, ast.Attribute) and outer.attr == "split":
        call = unit.parent(outer)
        return isinstance(call, ast.Call) and not call.args
    return isinstance(outer, ast.Call) and unit.name(outer.func) == "shlex.split"


def _is_said(unit: Unit, node: ast.AST) -> bool:
    """A message: `print("python train.py --device cuda")`."""
    for outer in unit.ancestors(node):
        if isinstance(outer, ast.Call):
            leaf = last_word(outer.func)
            if leaf in sinks.PROSE or leaf.endswith(("Error", "Exception", "Warning", "Exit")):
                return True
        elif isinstance(outer, ast.keyword):
            if outer.arg in _SAID:
                return True
        elif isinstance(outer, ast.stmt):
            return isinstance(outer, (ast.Raise, ast.Assert))
    return False
