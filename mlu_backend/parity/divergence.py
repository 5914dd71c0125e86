"""The difference to look at first: the earliest call whose inputs agree and whose output does not."""

from __future__ import annotations

from mlu_backend.parity.findings import Category, Difference


def first(differences: list[Difference]) -> Difference | None:
    """
    The divergence to look at first: a setting if one differs, else the earliest call whose inputs agree and whose
    output does not, else the earliest of all. ``differences`` are in execution order.
    """
    for difference in differences:
        if difference.category is Category.CONFIGURATION:
            return difference
    for difference in differences:
        if difference.kind == "curve":
            continue
        if difference.category is Category.STRUCTURE and difference.kind == "call":
            outer = _outermost(difference, differences)
            if outer is not None:
                return outer
        limit, inputs = difference.limit, difference.inputs
        equal = inputs is None or (inputs.mean == 0.0 and inputs.single == 0.0)
        if equal or (limit is not None and inputs is not None and inputs.mean <= limit.mean):
            return _loss_before(difference, differences)
    return differences[0] if differences else None


def _loss_before(found: Difference, differences: list[Difference]) -> Difference:
    """
    The loss of the step where gradients made from it are what was found, and all module calls before it agree: then
    what the program does between the model and the loss is what differs.
    """
    if found.kind not in ("grad", "grads", "parameters"):
        return found
    same = [d for d in differences if (d.step, d.rank) == (found.step, found.rank)]
    if any(d.kind == "call" for d in same):
        return found
    return next((d for d in same if d.kind == "curve"), found)


def _outermost(inner: Difference, differences: list[Difference]) -> Difference | None:
    """
    A switch such as training mode or autocast is lost for a module and all inside it. Inner calls return first, but
    the place to look at is where the outermost one was called. None if the difference is no such switch.
    """
    fact = next((f for f in ("training", "autocast") if inner.what.endswith(f": {f}")), None)
    if fact is None:
        return None
    same = [
        d
        for d in differences
        if d.kind == "call"
        and d.what.endswith(f": {fact}")
        and (d.step, d.rank) == (inner.step, inner.rank)
        and (inner.path == d.path or inner.path.startswith(f"{d.path}."))
        and (d.reference, d.candidate) == (inner.reference, inner.candidate)
    ]
    return min(same, key=lambda d: (len(d.path), d.order), default=inner)
