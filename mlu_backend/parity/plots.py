"""
The plots of the HTML section, as inline SVG without scripts: error by layer and step, and the loss curves on one
another with their difference below.

Colours come from the page's own CSS variables where it has them, so light and dark both work. Plots keep their size
(``html`` lets them scroll where the page is narrow), so that their words stay readable. Everything drawn is also in a
table of the section or in the JSON report, and each plot has a title and a description for those who cannot see it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape

from mlu_backend.parity.findings import LossRow
from mlu_backend.parity.wording import counted

ROWS = 40
COLUMNS = 60
_CELL = 14
_TOP = 34
_NAME = 60  # characters of a module's name
_LETTER = 6.1  # width of one at 10 px
_DECADES = (-9.0, 0.0)  # error of 1e-9 and below is the lightest shade, 1 the strongest
_RED, _BLUE, _LINE = "var(--error,#b3261e)", "var(--info,#23669e)", "var(--line,#d5dae0)"


def layer_plot(layers: dict[str, dict[int, float]], first: tuple[str, int] | None = None) -> str:
    """
    A grid: one row a module in execution order, one column a step (or a few steps, then the largest error of them), the
    shade is the decade of the error. ``first``: module and step of the first divergence, which gets a frame.
    """
    if not layers:
        return ""
    names = _worst(layers)
    columns = _columns(sorted({step for row in layers.values() for step in row}))
    left = max(70.0, 14 + _LETTER * max(len(_short(name)) for name in names))
    caption = _caption(len(names), len(layers), columns)
    width = round(max(left + len(columns) * _CELL + 10, left + 24 * _LETTER * 2, 16 + len(caption) * _LETTER))
    height = _TOP + len(names) * _CELL + 48
    out = [
        _svg(width, height, 'font-family="ui-monospace,monospace" font-size="10"'),
        "<title>Error by layer and step</title>",
        f"<desc>{escape(caption)}; a stronger colour is a larger mean relative error, on a logarithmic scale</desc>",
        _text(left - 6, 14, "step", "end"),
    ]
    out += _steps(left, columns)
    for number, name in enumerate(names):
        y = _TOP + number * _CELL
        out.append(_text(left - 6, y + 10, _short(name), "end"))
        for column, steps in enumerate(columns):
            errors = [layers[name][step] for step in steps if step in layers[name]]
            if errors:
                framed = first is not None and first[0] == name and first[1] in steps
                out.append(_cell(left + column * _CELL, y, max(errors), f"{name}, {_span(steps)}", framed))
    out += _key(left, height - 38, first is not None and first[0] in names)
    out += [_text(left, height - 8, caption), "</svg>"]
    return "".join(out)


def _worst(layers: dict[str, dict[int, float]]) -> list[str]:
    """The names to show: all, or those with the largest errors, in their order."""
    names = list(layers)
    if len(names) <= ROWS:
        return names
    keep = set(sorted(names, key=lambda name: -max(layers[name].values(), default=0.0))[:ROWS])
    return [name for name in names if name in keep]


def _columns(steps: list[int]) -> list[list[int]]:
    """The steps of each column; neighbours share one where there are too many."""
    each = -(-len(steps) // COLUMNS)
    return [steps[at : at + each] for at in range(0, len(steps), each)]


def _caption(shown: int, modules: int, columns: list[list[int]]) -> str:
    text = f"{counted(modules, 'module')} by {counted(sum(map(len, columns)), 'step')}"
    if shown < modules:
        text += f", the {shown} with the largest errors"
    if len(columns[0]) > 1:
        text += f"; a column is {len(columns[0])} steps and shows the largest error"
    return text


def _short(name: str) -> str:
    """A long name without its middle: what tells modules apart stands at both ends."""
    half = _NAME // 2
    return name if len(name) <= _NAME else f"{name[:half]}...{name[3 + half - _NAME :]}"


def _span(steps: list[int]) -> str:
    return f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"


def _steps(left: float, columns: list[list[int]]) -> Iterator[str]:
    """Every so many columns, the step they begin with; numbers do not touch."""
    digits = len(str(columns[-1][0]))
    apart = max(math.ceil((digits + 1) * _LETTER / _CELL), math.ceil(len(columns) / 12), 1)
    for column in range(0, len(columns), apart):
        yield _text(left + column * _CELL + (_CELL - 1) / 2, _TOP - 6, str(columns[column][0]), "middle")


def _cell(x: float, y: float, error: float, words: str, framed: bool) -> str:
    frame = 'stroke="currentColor" stroke-width="2"' if framed else f'stroke="{_LINE}" stroke-width="0.5"'
    return (
        f'<rect x="{x:.1f}" y="{y}" width="{_CELL - 1}" height="{_CELL - 1}" fill="{_RED}" '
        f'fill-opacity="{_shade(error):.2f}" {frame}><title>{escape(words)}: {error:.1e}</title></rect>'
    )


def _key(left: float, y: float, framed: bool) -> Iterator[str]:
    """What the shades mean."""
    x = left
    for error, word in ((0.0, "equal"), (1e-9, "1e-9"), (1e-6, "1e-6"), (1e-3, "1e-3"), (1.0, "1")):
        yield _cell(x, y, error, "shade of", False)
        yield _text(x + _CELL + 2, y + 10, word)
        x += _CELL + 12 + len(word) * _LETTER
    if framed:
        yield _cell(x, y, 0.0, "first divergence", True)
        yield _text(x + _CELL + 2, y + 10, "first")


def _shade(error: float) -> float:
    if math.isnan(error):
        return 1.0
    if error <= 0:
        return 0.0
    low, high = _DECADES
    return min(1.0, max(0.08, (math.log10(error) - low) / (high - low)))


_WIDTH, _LEFT, _RIGHT = 640, 76, 624
_CURVE, _APART = (34.0, 164.0), (200.0, 284.0)  # top and bottom of the two panels


def loss_plot(rows: Sequence[LossRow], limit: float | None = None) -> str:
    """
    Both curves over the backward passes, the candidate dashed on top, and below them how far they are apart, on a
    logarithmic scale with the limit of one loss.
    """
    finite = [r for r in rows if math.isfinite(r.reference) and math.isfinite(r.candidate)]
    if len(finite) < 2:
        return ""
    apart = _apart(finite, limit)
    height = (_APART if apart else _CURVE)[1] + 44
    out = [
        _svg(_WIDTH, round(height), 'font-size="11"'),
        "<title>Loss of reference and candidate</title>",
        f"<desc>{len(finite)} backward passes, from {finite[0].reference:.4g} to {finite[-1].reference:.4g} in the "
        f"reference and to {finite[-1].candidate:.4g} in the candidate</desc>",
        *_legend(),
        *_curves(finite),
        *apart,
        *_passes(len(finite), height - 26),
    ]
    words = "backward pass" if apart else "backward pass; the losses of both are equal"
    if len(finite) < len(rows):
        words += f"; {len(rows) - len(finite)} with inf or nan left out"
    out += [_text(_LEFT, height - 8, words), "</svg>"]
    return "".join(out)


def _legend() -> Iterator[str]:
    yield _line(_LEFT, 14, _LEFT + 24, 14, _BLUE, 'stroke-width="3"')
    yield _text(_LEFT + 30, 18, "reference")
    yield _line(_LEFT + 110, 14, _LEFT + 134, 14, _RED, 'stroke-width="1.5" stroke-dasharray="5 4"')
    yield _text(_LEFT + 140, 18, "candidate")


def _curves(rows: Sequence[LossRow]) -> Iterator[str]:
    low = min(min(r.reference, r.candidate) for r in rows)
    high = max(max(r.reference, r.candidate) for r in rows)
    yield from _axes(*_CURVE, f"{high:.4g}", f"{low:.4g}" if high > low else "")
    span = (low, high) if high > low else (low - 1, high)  # a flat curve lies on the upper line
    yield _polyline([r.reference for r in rows], *span, _CURVE, _BLUE, 'stroke-width="3"')
    yield _polyline([r.candidate for r in rows], *span, _CURVE, _RED, 'stroke-width="1.5" stroke-dasharray="5 4"')


def _apart(rows: Sequence[LossRow], limit: float | None) -> list[str]:
    """The lower panel; nothing where no loss differs."""
    errors = [math.log10(r.error) if r.error > 0 else -math.inf for r in rows]
    seen = [e for e in errors if math.isfinite(e)]
    if not seen:
        return []
    marks = [*seen, math.log10(limit)] if limit else seen
    low, high = math.floor(min(marks)), math.ceil(max(marks))
    low -= low == high
    out = [*_axes(*_APART, f"1e{high:+03d}", f"1e{low:+03d}")]
    words = "relative difference" if len(seen) == len(rows) else "relative difference (no point: equal)"
    if limit:
        words += f"; dotted: limit {limit:.0e}"
    out.append(_text(_LEFT, _APART[0] - 8, words))
    x, y = _across(len(rows)), _down(low, high, _APART)
    out += [
        f'<circle cx="{x(i):.1f}" cy="{y(e):.1f}" r="{3 if len(rows) <= 60 else 1.5}" fill="{_RED}">'
        f"<title>pass {i + 1}, step {rows[i].step}: {rows[i].error:.1e}</title></circle>"
        for i, e in enumerate(errors)
        if math.isfinite(e)
    ]
    if limit:
        at = y(math.log10(limit))
        out.append(_line(_LEFT, at, _RIGHT, at, "currentColor", 'stroke-width="1" stroke-dasharray="2 3"'))
    return out


def _across(count: int) -> Callable[[float], float]:
    return lambda i: _LEFT + i * (_RIGHT - _LEFT) / max(1, count - 1)


def _down(low: float, high: float, panel: tuple[float, float]) -> Callable[[float], float]:
    return lambda value: panel[0] + (high - value) / (high - low) * (panel[1] - panel[0])


def _polyline(
    values: Sequence[float], low: float, high: float, panel: tuple[float, float], colour: str, style: str
) -> str:
    x, y = _across(len(values)), _down(low, high, panel)
    points = " ".join(f"{x(i):.1f},{y(value):.1f}" for i, value in enumerate(values))
    return f'<polyline fill="none" stroke="{colour}" {style} points="{points}"/>'


def _axes(top: float, bottom: float, high: str, low: str) -> Iterator[str]:
    yield _line(_LEFT, top, _LEFT, bottom, _LINE)
    yield _line(_LEFT, bottom, _RIGHT, bottom, _LINE)
    yield _text(_LEFT - 6, top + 5, high, "end")
    yield _text(_LEFT - 6, bottom + 3, low, "end")


def _passes(count: int, y: float) -> Iterator[str]:
    """Numbers of some backward passes, from 1."""
    x = _across(count)
    for i in range(0, count, -(-count // 12)):
        yield _text(x(i), y, str(i + 1), "middle")


def _svg(width: int, height: int, style: str) -> str:
    return f'<svg role="img" viewBox="0 0 {width} {height}" width="{width}" height="{height}" {style}>'


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor">{escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, style: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" {style}/>'
