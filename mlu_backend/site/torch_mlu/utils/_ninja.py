"""The text of a ninja file for one extension."""

from __future__ import annotations


def _path(text: str) -> str:
    return text.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def text(
    cxx: str,
    cncc: str | None,
    cflags: list[str],
    bang_cflags: list[str],
    edges: list[tuple[str, str, bool]],
    ldflags: list[str] | None,
    target: str | None,
) -> str:
    """
    Rules, one edge for each (source, object, whether it is a kernel file), and a link edge when ``target`` is given.

    Flags come as they are to stand on the command line.
    """
    lines = ["ninja_required_version = 1.3", f"cxx = {cxx}", f"cflags = {' '.join(cflags)}"]
    lines += [
        "rule compile",
        "  command = $cxx -MMD -MF $out.d $cflags -c $in -o $out",
        "  depfile = $out.d",
        "  deps = gcc",
    ]
    if cncc is not None:
        lines += [f"cncc = {cncc}", f"bang_cflags = {' '.join(bang_cflags)}"]
        lines += ["rule bang_compile", "  command = $cncc $bang_cflags -c $in -o $out"]
    for source, made, kernel in edges:
        lines.append(f"build {_path(made)}: {'bang_compile' if kernel else 'compile'} {_path(source)}")
    if target is not None:
        lines += [f"ldflags = {' '.join(ldflags or [])}", "rule link", "  command = $cxx $in $ldflags -o $out"]
        lines.append(f"build {_path(target)}: link {' '.join(_path(made) for _, made, _ in edges)}")
        lines.append(f"default {_path(target)}")
    return "\n".join(lines) + "\n"
