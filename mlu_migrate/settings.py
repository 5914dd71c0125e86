"""Settings of a run: defaults, ``[tool.mlu-migrate]`` of the nearest pyproject.toml, then flags. A flag beats the file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run was asked to do. Rules and engine read this; nobody changes it."""

    select: tuple[str, ...] = ()  # code prefixes; empty means all
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    unsafe: bool = False
    torch_mlu: str = "2.4"  # 2.1 | 2.3 | 2.4
    guarded_import: bool = False
    audit: bool = False
    configs: str = "report"  # off | report | write
    lang: str = "en"

    def wants(self, code: str) -> bool:
        """Whether findings with this code are asked for."""
        if any(code.startswith(p) for p in self.ignore) and not any(code == p for p in self.select + self.extend_select):
            return False
        return not self.select or any(code.startswith(p) for p in self.select + self.extend_select)
