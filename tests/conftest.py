from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_cache_and_language(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads what another run left in the user's cache, or speaks the language of the machine."""
    monkeypatch.setenv("MLU_MIGRATE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with something to migrate, something to leave, and data."""
    top = tmp_path / "project"
    (top / "pkg").mkdir(parents=True)
    (top / "train.py").write_text(
        "import torch\n\n\ndef main():\n    model = torch.nn.Linear(2, 2).cuda()  # to the card\n    print(model)\n\n\n"
        'if __name__ == "__main__":\n    main()\n'
    )
    (top / "pkg" / "__init__.py").write_text("")
    (top / "pkg" / "plain.py").write_text("x = 1\n")
    (top / "data.bin").write_bytes(bytes(range(256)))
    (top / "pyproject.toml").write_text('[project]\nname = "project"\nversion = "1"\n')
    return top
