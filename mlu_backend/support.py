"""
Which operators a program ran on the device, and what the real card does with each.

``run`` starts a program with ``MLU_EMULATOR_SUPPORT`` set to a folder; every process that imports torch_mlu counts its
operators (``start``) and leaves them there when it ends. The counts are then judged against ``tables/operators.json``,
what torch_mlu registers for the card, and printed as a table of 80 columns or written as JSON:

``{"version": 1, "branch": "f", "profile": "exact", "processes": 1, "summary": {"native": 0, ...}, "operators":
[{"operator": "aten::add.Tensor", "dtypes": ["float32"], "calls": 2, "answer": "native", "reason": "", "evidence":
"path:line", "limit": null}]}``

What a listed operator calls in turn is not counted. A process that is killed, or ends through ``os._exit``, leaves
nothing, and code that torch.compile generated calls no operators: leave it out of a run that is to be judged.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = "MLU_EMULATOR_SUPPORT"
PROFILE = "MLU_EMULATOR_PROFILE"
TABLE = Path(__file__).with_name("tables") / "operators.json"
WIDTH = 80

# In the order a reader needs them: what costs or breaks first.
ANSWERS = {
    "cpu": "torch_mlu has no kernel: the tensors go to the CPU and back on every call",
    "unlisted": "there is a kernel, but not for this dtype: it may raise or convert, try it on the card",
    "casts": "runs on the card in another dtype than the tensors have",
    "native": "runs on the card as it is",
    "composite": "made of other operators, which are listed themselves",
}
COLLECTIVES = ("c10d", "_c10d_functional", "_c10d_functional_autograd")


@dataclass(frozen=True)
class Use:
    """One operator with one set of dtypes, and how often a run called it. ``composite``: torch splits it by itself."""

    operator: str
    dtypes: tuple[str, ...]
    calls: int
    composite: bool = False


@dataclass(frozen=True)
class Answer:
    """What the card does with a use. ``answer`` is a key of ANSWERS; ``limit`` an official remark, if there is one."""

    operator: str
    dtypes: tuple[str, ...]
    calls: int
    answer: str
    reason: str
    evidence: str
    limit: str | None = None


@cache
def table() -> dict[str, Any]:
    """The facts about torch_mlu that answers are taken from."""
    data: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return data


def judge(use: Use, profile: str = "exact") -> Answer:
    """The card's answer to one use, with the file and line in torch_mlu that says so."""
    facts = table()
    namespace, _, name = use.operator.partition("::")
    remark = facts["limits"].get(name.partition(".")[0])
    limit = f"{remark['api']}: {remark['limit']}" if remark else None

    def answer(kind: str, reason: str, evidence: str) -> Answer:
        return Answer(use.operator, use.dtypes, use.calls, kind, reason, evidence, limit)

    row = facts["operators"].get(use.operator)
    if namespace in COLLECTIVES:
        return answer("native", "", "torch_mlu/csrc/framework/distributed/process_group_cncl.cpp:194")
    if row is None:
        if use.operator in facts["never_fall_back"]:
            return answer("native", "", facts["fallback_evidence"])
        if use.composite:
            return answer("composite", "", "")
        reason = f"no PrivateUse1 kernel in {facts['line']}"
        if namespace != "aten":
            reason = "a custom operator: it needs a kernel of its own for the MLU"
        return answer("cpu", reason, facts["fallback_evidence"])
    evidence = row.get("cpp") or f"{facts['line']}:{row['line']}"
    if profile == "mlu370" and "bfloat16" in use.dtypes:
        return answer("unlisted", "an MLU370 has no bfloat16", "torch_mlu/mlu/__init__.py:535")
    main = _main_dtype(use.dtypes)
    kernel = row.get("kernel_dtypes")
    if kernel and main is not None and main not in kernel:
        return answer("unlisted", f"registered for {', '.join(kernel)}", evidence)
    narrowed = [dtype for dtype in use.dtypes if dtype in facts["narrowed"]]
    if narrowed:
        reason = ", ".join(f"{dtype} computed as {facts['narrowed'][dtype]}" for dtype in narrowed)
        return answer("casts", reason, facts["narrowed_evidence"])
    for cast in row.get("casts", ()):
        source, _, target = cast.partition("->")
        if source in use.dtypes:
            return answer("casts", f"{source} computed as {target}", evidence)
    return answer("native", "", evidence)


def _main_dtype(dtypes: tuple[str, ...]) -> str | None:
    """The dtype a kernel is chosen by: the first that is not an index or a mask, else the first."""
    for dtype in dtypes:
        if dtype.startswith(("float", "bfloat", "complex")):
            return dtype
    return dtypes[0] if dtypes else None


def judge_all(uses: Iterable[Use], profile: str = "exact") -> list[Answer]:
    """Answers for all uses, the costly kinds first and the most called first within a kind."""
    order = list(ANSWERS)
    answers = [judge(use, profile) for use in uses]
    return sorted(answers, key=lambda a: (order.index(a.answer), -a.calls, a.operator, a.dtypes))


def summary(answers: Iterable[Answer]) -> dict[str, int]:
    """How many rows of each kind there are."""
    counts = dict.fromkeys(ANSWERS, 0)
    for answer in answers:
        counts[answer.answer] += 1
    return counts


def as_table(answers: list[Answer]) -> str:
    """The answers as text of at most 80 columns. Composite operators appear only where there is a remark on them."""
    shown = [answer for answer in answers if answer.answer != "composite" or answer.limit]
    if not shown:
        return "No operator ran on the device.\n"
    lines = [f"{'operator':<40} {'dtypes':<20} {'calls':>8} {'card':<9}".rstrip(), "-" * WIDTH]
    for answer in shown:
        operator, dtypes = answer.operator.removeprefix("aten::"), ", ".join(answer.dtypes)
        if len(operator) > 40:
            lines.append(operator)
            operator = ""
        lines.append(f"{operator:<40} {_cut(dtypes, 20):<20} {answer.calls:>8} {answer.answer:<9}".rstrip())
        for text in (answer.reason, answer.limit and f"limit: {answer.limit}"):
            if text:
                lines += textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="    ")
    lines.append("-" * WIDTH)
    for kind, count in summary(shown).items():
        if count:
            lines += textwrap.wrap(f"{count:>5} {kind}: {ANSWERS[kind]}", WIDTH, subsequent_indent=" " * 6)
    return "\n".join(lines) + "\n"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def as_json(answers: list[Answer], profile: str, processes: int) -> str:
    """The answers as a JSON document (layout: the module's docstring)."""
    document = {
        "version": 1,
        "branch": table()["branch"],
        "profile": profile,
        "processes": processes,
        "summary": summary(answers),
        "operators": [asdict(answer) for answer in answers],
    }
    return json.dumps(document, indent=1) + "\n"


# Counting, inside the program.


@cache
def _library() -> ctypes.CDLL:
    from mlu_backend import build

    library = ctypes.CDLL(str(build.core_library()))
    library.mlu_support_start.argtypes = [ctypes.c_char_p]
    library.mlu_support_read.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.mlu_support_read.restype = ctypes.c_size_t
    return library


def start() -> None:
    """Count operators in this process from now on, and leave the counts in the folder of ``run`` if there is one."""
    names = [*table()["operators"], *(name for name in table()["never_fall_back"] if not name.endswith("*"))]
    _library().mlu_support_start("".join(f"{name}\n" for name in names).encode())
    if os.environ.get(FOLDER):
        atexit.register(_leave)


def start_if_asked() -> None:
    """``start`` in a process that ``run`` started, directly or through others; ``import torch_mlu`` calls it."""
    if os.environ.get(FOLDER):
        start()


def stop() -> None:
    """Count no further; what was counted stays."""
    _library().mlu_support_stop()


def clear() -> None:
    """Forget what was counted."""
    _library().mlu_support_clear()


def uses() -> list[Use]:
    """What this process counted so far."""
    import torch

    library = _library()
    size = library.mlu_support_read(None, 0)
    while True:
        buffer = ctypes.create_string_buffer(size)
        needed = library.mlu_support_read(buffer, size)
        if needed <= size:
            break
        size = needed
    found = []
    for line in buffer.value.decode().splitlines():
        operator, dtypes, calls = line.split("\t")
        # The composite form of a structured operator (...NonFunctional) ends in its out= form, which needs a kernel.
        composite = any(
            torch._C._dispatch_has_kernel_for_dispatch_key(operator, key)
            for key in ("CompositeImplicitAutograd", "CompositeExplicitAutograd")
        )
        found.append(Use(operator, tuple(dtypes.split(",")), int(calls), composite))
    return found


def report(profile: str | None = None) -> list[Answer]:
    """Answers for what this process counted so far."""
    return judge_all(uses(), profile or os.environ.get(PROFILE, "exact"))


def _leave() -> None:
    """Write this process's counts into the folder; a folder that is gone means that nobody waits for them."""
    folder = Path(os.environ.get(FOLDER, ""))
    if not folder.is_dir():
        return
    stop()
    path = folder / f"{os.getpid()}.json"
    path.write_text(json.dumps([asdict(use) for use in uses()]), encoding="utf-8")


# Collecting, around the program.


def collect(folder: Path) -> tuple[list[Use], int]:
    """The counts that processes left in ``folder``, added up, and how many processes there were."""
    added: dict[tuple[str, tuple[str, ...], bool], int] = {}
    files = sorted(folder.glob("*.json"))
    for path in files:
        for row in json.loads(path.read_text(encoding="utf-8")):
            key = (row["operator"], tuple(row["dtypes"]), row["composite"])
            added[key] = added.get(key, 0) + row["calls"]
    uses = [Use(operator, dtypes, calls, composite) for (operator, dtypes, composite), calls in added.items()]
    return uses, len(files)


def run(env: Mapping[str, str], report: str | None, start: Callable[[dict[str, str]], int]) -> int:
    """
    Run a program through ``start`` and print what it used to stderr; the program's status is returned.

    ``start`` gets ``env`` with the folder for counts added. ``report`` names a file for the JSON form, or is None.
    """
    with tempfile.TemporaryDirectory(prefix="mlu-support-") as name:
        status = start({**env, FOLDER: name})
        found, processes = collect(Path(name))
    profile = env.get(PROFILE, "exact")
    answers = judge_all(found, profile)
    print(as_table(answers), end="", file=sys.stderr)
    if processes == 0:
        print("No process imported torch_mlu, or none ended normally.", file=sys.stderr)
    if report is not None:
        Path(report).write_text(as_json(answers, profile, processes), encoding="utf-8")
    return status
