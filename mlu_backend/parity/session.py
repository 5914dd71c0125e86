"""
One parity check from start to end: run the reference, run it again, run the candidate, judge, and look closer where
they part.

    reference        recorded at the level asked for
    reference again  recorded by step only: shows that the program repeats itself, and that recording does not change it
    candidate        recorded like the reference, its edited lines traced
    rounding control up to three times, where a profile that rounds left numbers beyond the limits: the reference,
                     rounded on other grids, shows how far rounding alone moves this program
    closer look      both once more, up to the step of the first divergence, with the operators inside it

Each run gets a fresh copy of its program, so that what one run writes is not found by the next.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlu_backend import launch
from mlu_backend.parity import align, control, coverage, editmap, elsewhere, evidence, locate, tolerance, trace, verdict
from mlu_backend.parity.findings import Category, Difference, Status, Verdict, not_judged
from mlu_backend.parity.options import Control, Options
from mlu_backend.parity.record import Outcome, record

REFERENCES = ("emulated-cuda", "cpu")
_PROBE = "import torch, torch_mlu; torch.empty(1, device='mlu')"
_RANK = re.compile(r"^\[rank\d+\]:\s?")
_EXCEPTION = re.compile(r"[\w.]*(Error|Exception|Interrupt|Warning as error)\b")
_LEFT_OUT = shutil.ignore_patterns(
    ".git",
    ".hg",
    ".svn",
    ".venv",
    "venv",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    "node_modules",
    ".tox",
)


@dataclass(frozen=True)
class Plan:
    """
    What is to be compared. ``reference`` is ``emulated-cuda``, ``cpu`` or the path of a trace. ``work`` is a folder
    that is empty or not there; copies and traces are made in it. ``edits`` is the path of an edit map, if there is
    one. ``candidate_command`` is for a migrated program that takes other words than the original.
    """

    original: Path
    migrated: Path
    command: tuple[str, ...]
    work: Path
    reference: str = "emulated-cuda"
    profile: str = "exact"
    level: str = "module"
    steps: int = 0
    seed: int | None = 0
    every: int = 10
    timeout: float | None = None
    limits: tuple[tolerance.Limit, ...] = ()
    edits: Path | None = None
    cards: int | None = None
    look_closer: bool = True
    candidate_command: tuple[str, ...] = ()
    repeat: bool = True  # run the reference twice; not needed where it is known to repeat itself


class Session:
    """Runs a plan. ``talk`` gets one line for each thing that starts."""

    def __init__(self, plan: Plan, talk: Callable[[str], None] = lambda text: None) -> None:
        self.plan = plan
        self.talk = talk
        self.runs: list[dict[str, Any]] = []
        self.is_trace = plan.reference not in REFERENCES
        self.edits = editmap.read(plan.edits) if plan.edits else editmap.EditMap()

    def run(self) -> Verdict:
        """The verdict. Raises OSError where a command cannot be started or a copy cannot be made."""
        plan = self.plan
        missing = self._missing()
        if missing:
            return self._finish(not_judged(missing))
        reference = self._reference()
        if isinstance(reference, Verdict):
            return self._finish(reference)
        candidate = self._run("candidate", plan.migrated, "none")
        if candidate.status is None:
            problem = f"the candidate did not end within {plan.timeout:g} s"
            return self._finish(not_judged(problem, notes=self._output("candidate", candidate)))
        theirs = trace.read(candidate.trace)
        question = verdict.Question(
            profile=plan.profile,
            reference="trace" if self.is_trace else plan.reference,
            extra=plan.limits,
            controlled=not self.is_trace,
        )
        if candidate.status != 0:
            found = self._failed(reference, theirs, question, candidate)
            self._coverage(found, candidate)
            return self._finish(found)
        found = self._controlled(verdict.judge(reference, theirs, question), reference, theirs, question)
        found = self._repeated(found, reference)
        if found.status is not Status.NOT_JUDGED:
            self._look_closer(found)
        self._coverage(found, candidate)
        return self._finish(found)

    def _missing(self) -> str | None:
        """Why the candidate cannot run on ``mlu`` here."""
        python = self.plan.command[0] if "python" in Path(self.plan.command[0]).name else sys.executable
        self.talk("checking the mlu device")
        try:
            done = subprocess.run(
                [python, "-c", _PROBE],
                env=self._environment("none"),
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"no mlu device: {error}"
        if done.returncode:
            lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
            return f"no mlu device: {lines[-1] if lines else f'exit status {done.returncode}'}"
        return None

    def _environment(self, route: str, profile: str | None = None) -> dict[str, str]:
        env = launch.environment(self.plan.cards, profile or self.plan.profile)
        env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", "")])
        env.setdefault("PYTHONDONTWRITEBYTECODE", "1")
        if route == "cpu":
            env.pop("MLU_EMULATOR_PROFILE", None)
        return env

    def _run(self, name: str, program: Path, route: str, **changes: Any) -> Outcome:
        """One recorded run in a fresh copy."""
        plan = self.plan
        self.talk(f"running the {name}")
        copy = plan.work / name.replace(" ", "-")
        shutil.copytree(program, copy, symlinks=True, ignore=_LEFT_OUT)
        options = Options(
            out=str(plan.work / f"{name.replace(' ', '-')}.trace"),
            root=str(copy),
            level=plan.level,
            every=plan.every,
            steps=plan.steps,
            seed=plan.seed,
            route="emulated-cuda" if route == "emulated-cuda" else "none",
            eager=plan.reference == "emulated-cuda",
            edits=str(plan.edits) if name == "candidate" and plan.edits else None,
        )
        original = program == plan.original
        command = plan.command if original else plan.candidate_command or plan.command
        outcome = record(
            [_in_copy(word, (plan.original, plan.migrated), copy) for word in command],
            replace(options, **changes),
            cwd=copy,
            env=self._environment(route, "exact" if original else None),
            timeout=plan.timeout,
            label=name,
            capture_output=True,
        )
        self.runs.append({"name": name, "seconds": round(outcome.seconds, 2), "status": outcome.status})
        return outcome

    def _reference(self) -> trace.Trace | Verdict:
        plan = self.plan
        if self.is_trace:
            return trace.read(plan.reference)
        first = self._run("reference", plan.original, plan.reference)
        problem = _ended_badly("reference", first, plan.timeout)
        if problem:
            return not_judged(self._outside(problem), notes=self._output("reference", first))
        reference = trace.read(first.trace)
        reasons = verdict.vacuous(reference, reference, verdict.Question(need_device=False))
        if reasons:
            return not_judged(reasons[0])
        if not plan.repeat:
            return reference
        again = self._run("reference again", plan.original, plan.reference, level="step")
        problem = _ended_badly("second reference", again, plan.timeout)
        if problem:
            return not_judged(self._outside(problem), notes=self._output("second reference", again))
        same = verdict.judge(
            reference, trace.read(again.trace), verdict.Question(need_device=False, steps_only=True, profile="exact")
        )
        return _unrepeatable(same) or reference

    def _repeated(self, found: Verdict, reference: trace.Trace) -> Verdict:
        """
        The verdict, unless it blames the data and the reference by itself does not get the same twice. The second run
        of the reference does not record what modules are given, and a program that only computes forward has nothing
        else that would show it.
        """
        if self.is_trace or not self.plan.repeat or found.first is None or found.first.kind != align.INPUT:
            return found
        outcome = self._run("reference for its data", self.plan.original, self.plan.reference)
        if _ended_badly("", outcome, self.plan.timeout):
            return found
        again = verdict.judge(reference, trace.read(outcome.trace), verdict.Question(need_device=False))
        return _unrepeatable(again) or found

    def _failed(
        self, reference: trace.Trace, theirs: trace.Trace, question: verdict.Question, outcome: Outcome
    ) -> Verdict:
        """The migrated program stopped with an error: that is a mismatch whatever its numbers were until then."""
        found = verdict.judge(reference, theirs, replace(question, need_device=False))
        found.status = Status.MISMATCH
        error = self._outside(error_line(outcome.output))
        site = self._traceback_site(outcome)
        difference = Difference(
            Category.STRUCTURE,
            f"the candidate failed: {error}",
            "ended normally",
            f"exit status {outcome.status}",
            site=site,
            kind="failure",
        )
        found.reasons = [f"the candidate failed: {error}"]
        found.notes += self._output("candidate", outcome)
        found.differences.insert(0, difference)
        found.count(difference)
        found.first = difference
        locate.attach_edits(found, self.edits)
        return found

    def _outside(self, text: str) -> str:
        """Text of a program without the folder of its copy, which is not there any more when it is read."""
        for folder in (str(self.plan.work), os.path.realpath(self.plan.work)):
            text = re.sub(re.escape(folder + os.sep) + r"[a-z]+(-[a-z0-9]+)*" + re.escape(os.sep), "", text)
        return text

    def _output(self, name: str, outcome: Outcome) -> list[str]:
        """Notes: the last lines that a program printed."""
        lines = [line for line in self._outside(outcome.output).splitlines() if line.strip()]
        if not lines:
            return [f"the {name} printed nothing"]
        return [f"output of the {name} ended with:", *(f"    {line}" for line in lines[-12:])]

    def _controlled(
        self, found: Verdict, reference: trace.Trace, theirs: trace.Trace, question: verdict.Question
    ) -> Verdict:
        """The verdict, judged against what rounding alone does to the reference where that could change it."""
        if self.is_trace or not control.wanted(found):
            return found
        traces: list[trace.Trace] = []
        for number in range(1, control.RUNS + 1):
            name = f"rounding control {number}"
            outcome = self._run(
                name, self.plan.original, self.plan.reference, control=Control(self.plan.profile, number)
            )
            problem = _ended_badly(name, outcome, self.plan.timeout)
            if problem:
                found.notes.append(f"{problem}; what the program amplifies could not be measured")
                return found
            traces.append(trace.read(outcome.trace))
            sensitivity = control.measure(reference, traces)
            found = verdict.judge(reference, theirs, replace(question, sensitivity=sensitivity))
            if found.status is Status.MATCH or not sensitivity.moved:
                break
        return found

    def _traceback_site(self, outcome: Outcome) -> tuple[str, int, str] | None:
        """The innermost line of the program in the last traceback."""
        root = os.path.realpath(self.plan.work / "candidate") + os.sep
        found = None
        for name, line, function in re.findall(r'File "([^"]+)", line (\d+), in (\S+)', outcome.output):
            real = os.path.realpath(os.path.join(root, name))
            if real.startswith(root):
                found = (real[len(root) :].replace(os.sep, "/"), int(line), function)
        return found

    def _look_closer(self, found: Verdict) -> None:
        """Find the operator inside the first divergence, and accept it if neither side is nearer to float64."""
        locate.attach_edits(found, self.edits)
        focus = locate.focus_of(found.first)
        if focus is None or found.first is None or self.is_trace or not self.plan.look_closer:
            return
        steps = focus.step + 1
        sides = []
        for name, program, route in (
            ("closer reference", self.plan.original, self.plan.reference),
            ("closer candidate", self.plan.migrated, "none"),
        ):
            outcome = self._run(name, program, route, focus=focus, steps=steps)
            if outcome.status != 0:
                found.notes.append(f"the {name} run for the operators inside {focus.path} failed")
                return
            sides.append(trace.read(outcome.trace))
        found.first.operator = locate.operator_of(sides[0], sides[1], self.plan.profile, self.plan.limits)
        found.first.edits = locate.edits_of(found.first, self.edits)
        whole = locate.truth_of(sides[0], sides[1], found.first)
        inside = (found.first.operator or {}).get("truth")
        if self.plan.profile != "exact" and locate.both_inexact(whole or inside):
            found.notes.append(
                f"{found.first.what}: the candidate is as near to the float64 result as the reference; "
                "the difference is rounding of both"
            )
            if locate.is_alone(found):
                found.status = Status.MATCH

    def _coverage(self, found: Verdict, candidate: Outcome) -> None:
        if not self.plan.edits:
            return
        found.coverage = coverage.judge(self.edits, self.plan.migrated, coverage.read(candidate.trace))
        if self.plan.reference == "emulated-cuda":
            sinks = evidence.seen(self.plan.work / "reference.trace")
            found.coverage["proven"] = evidence.proven(self.edits, sinks, self.plan.original)

    def _finish(self, found: Verdict) -> Verdict:
        found.profile, found.reference, found.runs = self.plan.profile, self.plan.reference, self.runs
        return found


def _in_copy(word: str, programs: Sequence[Path], copy: Path) -> str:
    """A word of the command that names a file of the program by its whole path is to name that of the copy."""
    option, equals, path = word.partition("=") if word.startswith("-") else ("", "", word)
    if os.path.isabs(path):
        for program in programs:
            for root in (os.path.abspath(program), os.path.realpath(program)):
                if path == root or path.startswith(root + os.sep):
                    return f"{option}{equals}{os.path.abspath(copy)}{path[len(root) :]}"
    return word


def _unrepeatable(same: Verdict) -> Verdict | None:
    """What is said where two runs of the reference, judged against each other, differ."""
    if same.status is not Status.MISMATCH or same.first is None:
        return None
    return not_judged(
        f"two runs of the reference differ by themselves: {same.first.what}: {same.first.reference} and then "
        f"{same.first.candidate}. The program is not repeatable, or recording it by module changes it; a seed helps if "
        "it draws random numbers from a source of its own, --level step if it is the recording"
    )


def _ended_badly(name: str, outcome: Outcome, timeout: float | None) -> str | None:
    if outcome.status is None:
        return f"the {name} run did not end within {timeout:g} s"
    if outcome.status != 0:
        line = error_line(outcome.output)
        said = line if _EXCEPTION.match(line) else f"the last it printed is: {line}"
        return f"the {name} run failed with exit status {outcome.status}: {said}"
    return None


def error_line(output: str) -> str:
    """
    The line of a program's output that says what went wrong: the last exception that is not a launcher's, else the
    last.
    """
    lines = [_RANK.sub("", line).strip() for line in output.splitlines()]
    lines = [line for line in lines if line]
    for line in reversed(lines):
        if _EXCEPTION.match(line) and "ChildFailedError" not in line:
            return line
    return lines[-1] if lines else "no output"


def run(plan: Plan, talk: Callable[[str], None] = lambda text: None) -> Verdict:
    """Run a plan. Raises OSError, TraceError, EditMapError."""
    return Session(plan, talk).run()


def compare(
    reference: Path,
    candidate: Path,
    *,
    profile: str = "exact",
    kind: str = "trace",
    limits: Sequence[tolerance.Limit] = (),
    need_device: bool = True,
    edits: Path | None = None,
) -> Verdict:
    """Judge two traces that were recorded elsewhere. Raises TraceError, EditMapError."""
    ours, theirs = trace.read(reference), trace.read(candidate)
    found = elsewhere.judge(ours, theirs, verdict.Question(profile, kind, tuple(limits), need_device))
    if edits is not None:
        locate.attach_edits(found, editmap.read(edits))
    found.reference = str(reference)
    return found
