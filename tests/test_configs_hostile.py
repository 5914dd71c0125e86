"""Scripts and configurations made to hurt: deep nesting, endless words. None may stop a run or change a byte."""

from __future__ import annotations

import pytest

from mlu_migrate import nonpython
from mlu_migrate.model import FileStatus
from mlu_migrate.settings import Settings

HOSTILE = {
    "substitutions that never end": ("a.sh", "cuda " + "$(" * 20_000),
    "substitutions inside one another": ("a.sh", "cuda " + "$(" * 3_000 + ")" * 3_000),
    "here documents inside one another": ("a.sh", "cuda\n" + "<<E\n" * 5_000),
    "an image name that never ends": ("a.sh", "docker run " + "a/" * 200_000 + " cuda"),
    "quotes that never end": ("a.sh", "cuda " + "'" * 100_001),
    "braces that never end": ("Makefile", "ifeq " + "${" * 50_000 + "cuda"),
    "lists inside one another in JSON": ("a.json", "[" * 50_000 + '"cuda"' + "]" * 50_000),
    "texts without end on one line": ("Jenkinsfile", '"cuda "' * 20_000),
    "comments without end": ("a.ps1", "<#" * 100_000 + "cuda"),
    "a fence without end": ("a.md", "`" * 100_000 + "cuda"),
    "texts that do not end on their line": ("a.tf", 'x = "cuda ' * 20_000),
    "a key of endless parts": ("a.toml", "a.b" * 50_000 + "='cuda'"),
    "aliases that multiply": (
        "a.yaml",
        "a0: &a0 [cuda]\n" + "".join(f"a{i}: &a{i} [*a{i - 1},*a{i - 1}]\n" for i in range(1, 60)),
    ),
    "a Dockerfile of here documents": ("Dockerfile", "RUN <<E\n" * 5_000 + "cuda"),
    "fences inside fences": ("a.md", "```bash\ncuda\n" * 5_000),
}
REFUSED = {
    "lists inside one another in YAML": ("a.yaml", "cuda: " + "[" * 5_000),
    "lists inside one another in TOML": ("a.toml", "a = " + "[" * 100_000 + "'cuda'"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_is_read_through(what: str) -> None:
    path, text = HOSTILE[what]
    result = nonpython.migrate(text.encode(), path, Settings())
    assert result.status is FileStatus.UNCHANGED and result.result == text.encode()


@pytest.mark.parametrize("what", REFUSED)
def test_a_file_that_nests_too_deeply_is_named_and_stays(what: str) -> None:
    path, text = REFUSED[what]
    result = nonpython.migrate(text.encode(), path, Settings())
    assert (result.status, result.reason) == (FileStatus.FAILED, "nests too deeply to be read")
    assert result.result == text.encode()


def test_a_notebook_inside_a_notebook_inside_a_notebook_is_named_and_stays() -> None:
    data = b'{"cells":[' * 20_000 + b'"cuda"'
    result = nonpython.migrate(data, "a.ipynb", Settings())
    assert result.status is FileStatus.FAILED and result.result == data
    assert result.reason is not None and "nests more than" in result.reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("device: cuda\n".encode("utf-16"), "UTF-16"),
        ("device: cuda\n".encode("utf-16-le"), "UTF-16"),
        (b"device: cuda\0\n", "null byte"),
    ],
)
def test_a_file_that_is_not_read_is_named_when_it_speaks_of_cuda(data: bytes, reason: str) -> None:
    result = nonpython.migrate(data, "a.yaml", Settings())
    assert result.status is FileStatus.SKIPPED and result.result == data
    assert result.reason is not None and reason in result.reason
    assert nonpython.migrate(data.replace(b"c", b"k"), "a.yaml", Settings()).status is FileStatus.UNCHANGED
