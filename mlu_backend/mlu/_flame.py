"""
A flame graph as SVG from folded stacks, drawn here.

torch's own helper for memory snapshots fetches a script from the network; this one needs nothing.
"""

from __future__ import annotations

from html import escape

WIDTH, ROW = 1200.0, 16
COLOURS = ("#e4572e", "#f3a712", "#a8c686", "#669bbc", "#b388eb", "#f28482")


def _tree(folded: str) -> dict[str, list]:
    """Nested ``{name: [total, children]}`` of lines like ``outer;inner 12``."""
    root: dict[str, list] = {}
    for line in folded.splitlines():
        stack, _, weight = line.rpartition(" ")
        if not stack or not weight.isdigit():
            continue
        level = root
        for name in stack.split(";"):
            node = level.setdefault(name, [0, {}])
            node[0] += int(weight)
            level = node[1]
    return root


def flame_graph(folded: str, flamegraph_script: str | None = None) -> str:
    """SVG of ``folded``; each box is a frame, its width the bytes below it. The second argument is ignored."""
    root = _tree(folded)
    total = sum(node[0] for node in root.values())
    boxes: list[str] = []
    depth_seen = 0
    pending = [(0.0, 0, root)]
    while pending:
        left, depth, level = pending.pop()
        for name, (weight, children) in level.items():
            width = WIDTH * weight / total if total else 0.0
            depth_seen = max(depth_seen, depth + 1)
            label = escape(f"{name} ({weight} bytes)")
            fill = COLOURS[sum(map(ord, name)) % len(COLOURS)]
            boxes.append(
                f'<g><title>{label}</title><rect x="{left:.1f}" y="{depth * ROW}" width="{width:.1f}" '
                f'height="{ROW - 1}" fill="{fill}"/><text x="{left + 2:.1f}" y="{depth * ROW + 11}" font-size="10">'
                f"{escape(name[: int(width // 6)])}</text></g>"
            )
            pending.append((left, depth + 1, children))
            left += width
    height = max(depth_seen, 1) * ROW
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:.0f}" height="{height}" font-family="monospace">'
    return "\n".join([head, *boxes, "</svg>"]) + "\n"
