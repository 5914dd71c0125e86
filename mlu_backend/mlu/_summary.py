"""The table ``torch.mlu.memory_summary`` prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping

WIDTH = 75
ROWS = (
    ("allocated_bytes", "Allocated memory"),
    ("active_bytes", "Active memory"),
    ("requested_bytes", "Requested memory"),
    ("reserved_bytes", "MLU reserved memory"),
    ("inactive_split_bytes", "Non-releasable memory"),
    ("allocation", "Allocations"),
    ("active", "Active allocs"),
    ("segment", "MLU reserved segments"),
    ("inactive_split", "Non-releasable allocs"),
)
OVERSIZE = (("oversize_allocations", "Oversize allocations"), ("oversize_segments", "Oversize MLU segments"))
POOLS = (("large_pool", "      from large pool"), ("small_pool", "      from small pool"))
LEAVES = ("current", "peak", "allocated", "freed")


def _bytes(value: int, scale: int) -> str:
    """``value`` in the unit that suits ``scale``, so that a row and its pools share one unit."""
    units = ("B  ", "KiB", "MiB", "GiB", "TiB", "PiB")
    step = 0
    while scale >= 768 * 1024 and step < len(units) - 1:
        scale /= 1024
        value //= 1024
        step += 1
    return f"{value:6d} {units[step]}"


def _count(value: int, scale: int) -> str:
    units = (" ", "K", "M")
    step = 0
    while scale >= 750_000 and step < len(units) - 1:
        scale /= 1000
        value //= 1000
        step += 1
    return f"{value:7d} {units[step]} "


def _line(title: str, values: list[int], scales: list[int], show: Callable[[int, int], str]) -> str:
    cells = " | ".join(show(value, scale) for value, scale in zip(values, scales, strict=True))
    return f" {title:<21} | {cells} "


def summary(stats: Mapping[str, int], device: int, abbreviated: bool) -> str:
    """``stats`` (flat, as ``memory_stats`` gives them) as a bordered table, 75 columns wide."""
    lines = ["=" * WIDTH, f"{'PyTorch MLU memory summary, device ID ' + str(device):^{WIDTH}}", "-" * WIDTH]
    retries = f"cnrtMalloc retries: {stats.get('num_alloc_retries', 0)}"
    lines += [f"{'MLU OOMs: ' + str(stats.get('num_ooms', 0)):^37}|{retries:^37}", "=" * WIDTH]
    lines.append("        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ")
    for key, title in ROWS:
        show = _bytes if key.endswith("bytes") else _count
        lines.append("-" * WIDTH)
        scales = [stats.get(f"{key}.all.{leaf}", 0) for leaf in LEAVES]
        lines.append(_line(title, scales, scales, show))
        for pool, label in () if abbreviated else POOLS:
            lines.append(_line(label, [stats.get(f"{key}.{pool}.{leaf}", 0) for leaf in LEAVES], scales, show))
    for key, title in OVERSIZE:
        values = [stats.get(f"{key}.{leaf}", 0) for leaf in LEAVES]
        lines += ["-" * WIDTH, _line(title, values, values, _count)]
    lines.append("=" * WIDTH)
    return "".join(f"|{line:<{WIDTH}}|\n" for line in lines)
