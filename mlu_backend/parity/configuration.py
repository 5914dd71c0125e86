"""What two programs were told: settings, seeds, data loaders, optimizers, loss scaling. Compared before any number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mlu_backend.parity import align, environment
from mlu_backend.parity.findings import Category, Difference
from mlu_backend.parity.metrics import relative

Event = dict[str, Any]


def configuration(ours: align.Run, theirs: align.Run) -> tuple[list[Difference], list[str]]:
    """What the two programs were told, compared before any number."""
    a, b = ours.process, theirs.process
    faults: list[Difference] = []
    head, other = a.first("process") or {}, b.first("process") or {}
    settings, notes = environment.differences(head.get("environment", {}), other.get("environment", {}))
    faults += [Difference(Category.CONFIGURATION, text) for text in settings]
    if a.world != b.world:
        faults.append(Difference(Category.CONFIGURATION, "world size", str(a.world), str(b.world)))
    sites = {e["id"]: (e["file"], e["line"], e["function"]) for e in b.of("site")}
    for kind, what, show in _TOLD:
        faults += list(_sequence(what, list(a.of(kind)), list(b.of(kind)), show, sites))
    seeded = head.get("seed") is not None and other.get("seed") is not None
    for i, (x, y) in enumerate(zip(a.of("seed"), b.of("seed"), strict=False)):
        if x.get("before") != y.get("before") and (
            i or seeded
        ):  # where the first one comes from is known only if we seeded
            faults.append(
                Difference(
                    Category.CONFIGURATION,
                    f"order of seeding: {_seed(x)}",
                    f"from generator state {x.get('before')}",
                    f"from generator state {y.get('before')}: other random numbers were drawn before this line",
                    site=sites.get(y.get("site", -1)),
                )
            )
            break
    if any(event.get("eager") for event in b.of("compiled")):
        notes.append(
            "what the programs compile ran eagerly on both sides, since compiled code rounds and draws otherwise: this "
            "run says nothing of torch.compile itself"
        )
    faults += list(_rates(list(a.of("step")), list(b.of("step")), sites))
    random = [(x, y) for x, y in zip(a.of("random"), b.of("random"), strict=False)]
    for x, y in random:
        names = [n for n in x["states"] if n in y["states"] and x["states"][n] != y["states"][n]]
        if names:
            notes.append(
                f"state of the {', '.join(names)} random generator differs at {x['when']} {x['step']}: "
                "a seed, or the number of draws before it"
            )
            break
    return faults, notes


def apart(ours: align.Run, theirs: align.Run) -> int | None:
    """The step in which the generators of the device parted; None if they did not, or no generator of one was used."""
    for x, y in zip(ours.process.of("random"), theirs.process.of("random"), strict=False):
        if x["states"].get("device") != y["states"].get("device"):
            return int(x["step"])
    return None


def compiles(run: align.Run) -> bool:
    """Whether the program ran compiled code."""
    return any(not event.get("eager") for event in run.process.of("compiled"))


def _sequence(
    what: str, a: list[Event], b: list[Event], show: Callable[[Event], str], sites: dict[int, tuple[str, int, str]]
) -> Iterator[Difference]:
    for i in range(max(len(a), len(b))):
        x, y = (show(a[i]) if i < len(a) else "none"), (show(b[i]) if i < len(b) else "none")
        if x != y:
            event = b[i] if i < len(b) else (b[-1] if b else {})
            yield Difference(
                Category.CONFIGURATION,
                f"{what} {i + 1}",
                x,
                y,
                step=event.get("step", 0),
                site=sites.get(event.get("site", -1)),
                kind=what,
            )
            return


def _rates(a: list[Event], b: list[Event], sites: dict[int, tuple[str, int, str]]) -> Iterator[Difference]:
    """The first step whose learning rates differ by more than the rounding of a schedule's arithmetic."""
    for x, y in zip(a, b, strict=False):
        pairs = [(p, q) for p, q in zip(x["lr"], y["lr"], strict=False) if p is not None and q is not None]
        if x["opt"] == y["opt"] and any(relative(p, q) > 1e-9 for p, q in pairs):
            yield Difference(
                Category.CONFIGURATION,
                f"learning rate of step {x['step']}",
                str(x["lr"]),
                str(y["lr"]),
                step=x["step"],
                site=sites.get(y.get("site", -1)),
            )
            return


def _seed(e: Event) -> str:
    return f"{e['function']}({e['value']})"


def _loader(e: Event) -> str:
    return f"batch size {e['batch_size']}, {e['sampler']}, drop_last {e['drop_last']}, {e['length']} samples"


def _optimizer(e: Event) -> str:
    groups = ["; ".join(f"{k}={v}" for k, v in group.items()) for group in e["groups"]]
    return f"{e['type']}: " + " | ".join(groups)


def _scaler(e: Event) -> str:
    if e["what"] == "made":
        return f"made, enabled {e['enabled']}, scale {e['scale']}"
    return f"update to {e['scale']}"


_TOLD = (
    ("seed", "seed", _seed),
    ("loader", "data loader", _loader),
    ("optimizer", "optimizer settings", _optimizer),
    ("scaler", "loss scaling", _scaler),
)
