"""
The plots of the HTML section, as inline SVG without scripts: error by layer and step, and the loss curves on one
another.

Colours come from the page's own CSS variables where it has them, so light and dark both work. Everything drawn is also
in a table of the section, and each plot has a title and a description for those who cannot see it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from mlu_backend.parity.findings import LossRow

ROWS = 40
COLUMNS = 60
_CELL = 14
_LABEL = 250
_DECADES = (-9.0, 0.0)  # error of 1e-9 and below is the lightest shade, 1 the darkest


def layer_plot(layers: dict[str, dict[int, float]]) -> str:
    """A grid: one row a module in execution order, one column a step, the shade is the decade of the error."""
    if not layers:
        return ""
    names = list(layers)
    if len(names) > ROWS:  # keep the worst, in their order
        keep = set(sorted(names, key=lambda n: -max(layers[n].values(), default=0.0))[:ROWS])
        names = [n for n in names if n in keep]
    steps = sorted({s for row in layers.values() for s in row})
    steps = steps[:COLUMNS] if len(steps) <= COLUMNS else [steps[i * len(steps) // COLUMNS] for i in range(COLUMNS)]
    width, height = _LABEL + len(steps) * _CELL + 10, 24 + len(names) * _CELL + 24
    out = [
        f'<svg role="img" viewBox="0 0 {width} {height}" width="{width}" style="max-width:100%;height:auto" '
        'font-family="ui-monospace,monospace" font-size="10">',
        "<title>Error by layer and step</title>",
        f"<desc>{len(names)} modules by {len(steps)} steps; "
        "darker is a larger mean relative error, on a logarithmic scale</desc>",
    ]
    for y, name in enumerate(names):
        label = name if len(name) <= 40 else f"...{name[-37:]}"
        out.append(
            f'<text x="{_LABEL - 6}" y="{24 + y * _CELL + 10}" text-anchor="end" '
            f'fill="currentColor">{escape(label)}</text>'
        )
        for x, step in enumerate(steps):
            error = layers[name].get(step)
            if error is None:
                continue
            out.append(
                f'<rect x="{_LABEL + x * _CELL}" y="{24 + y * _CELL}" width="{_CELL - 1}" height="{_CELL - 1}" '
                f'fill="var(--error,#b3261e)" fill-opacity="{_shade(error):.2f}" '
                'stroke="var(--line,#d5dae0)" stroke-width="0.5">'
                f"<title>{escape(name)}, step {step}: {error:.1e}</title></rect>"
            )
    for x, step in enumerate(steps):
        if x % max(1, len(steps) // 10) == 0:
            out.append(f'<text x="{_LABEL + x * _CELL + 3}" y="18" fill="currentColor">{step}</text>')
    out.append(
        f'<text x="{_LABEL}" y="{height - 8}" fill="currentColor">'
        "white: equal; full colour: error of 1; one shade a decade</text></svg>"
    )
    return "".join(out)


def _shade(error: float) -> float:
    if error <= 0 or math.isnan(error):
        return 0.0
    low, high = _DECADES
    return min(1.0, max(0.08, (math.log10(error) - low) / (high - low)))


def loss_plot(rows: Sequence[LossRow]) -> str:
    """Both curves over the backward passes; the candidate dashed on top."""
    finite = [r for r in rows if math.isfinite(r.reference) and math.isfinite(r.candidate)]
    if len(finite) < 2:
        return ""
    low = min(min(r.reference, r.candidate) for r in finite)
    high = max(max(r.reference, r.candidate) for r in finite)
    span = (high - low) or 1.0
    width, height, left = 640, 220, 70

    def path(values: Sequence[float]) -> str:
        points = [
            f"{left + i * (width - left - 10) / (len(values) - 1):.1f},{10 + (high - v) / span * (height - 40):.1f}"
            for i, v in enumerate(values)
        ]
        return " ".join(points)

    return (
        f'<svg role="img" viewBox="0 0 {width} {height}" width="{width}" '
        'style="max-width:100%;height:auto" font-size="11">'
        "<title>Loss of reference and candidate</title>"
        f"<desc>{len(finite)} backward passes, from {finite[0].reference:.4g} to "
        f"{finite[-1].reference:.4g} in the reference and to "
        f"{finite[-1].candidate:.4g} in the candidate</desc>"
        f'<line x1="{left}" y1="10" x2="{left}" y2="{height - 30}" stroke="var(--line,#d5dae0)"/>'
        f'<line x1="{left}" y1="{height - 30}" x2="{width - 10}" y2="{height - 30}" stroke="var(--line,#d5dae0)"/>'
        f'<text x="{left - 6}" y="16" text-anchor="end" fill="currentColor">{high:.4g}</text>'
        f'<text x="{left - 6}" y="{height - 30}" text-anchor="end" fill="currentColor">{low:.4g}</text>'
        f'<polyline fill="none" stroke="var(--info,#23669e)" stroke-width="3" '
        f'points="{path([r.reference for r in finite])}"/>'
        f'<polyline fill="none" stroke="var(--error,#b3261e)" stroke-width="1.5" stroke-dasharray="5 4" '
        f'points="{path([r.candidate for r in finite])}"/>'
        f'<text x="{left}" y="{height - 8}" fill="currentColor">'
        "backward passes; solid: reference, dashed: candidate</text></svg>"
    )
