"""
Results of files that were looked at before.

An entry's name is made of everything the result depends on: the bytes, the path, the settings, the project facts,
this tool and the running Python. So entries are never wrong, only idle, and runs at the same time cannot disturb
each other: each entry is its own file, put in place by a rename. The folder lies in the user's cache (or at
``MLU_MIGRATE_CACHE_DIR``), tells version control and backup programs to pass it by, and is cut back by age when it
grows over its limit. Entries are JSON, so reading one runs nothing.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mlu_migrate import __version__
from mlu_migrate.model import Confidence, Edit, FileResult, FileStatus, Finding, Safety, Severity

LIMIT_BYTES = 256 * 1024 * 1024
_TOUCH_AFTER = 24 * 3600.0  # seconds; an entry in use is marked as such once a day


def default_folder() -> Path:
    """
    The folder of this tool in the user's cache, or the one that the environment names. Entries lie in ``results``.
    """
    chosen = os.environ.get("MLU_MIGRATE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("mlu-migrate", appauthor=False)


@cache
def tool_fingerprint() -> str:
    """Changes whenever a file of this package does, so that a development install needs no version bump."""
    digest = hashlib.sha256(f"{__version__}\0{sys.version_info[:3]}".encode())
    package = Path(__file__).parent
    for path in sorted(package.rglob("*")):
        if path.suffix in (".py", ".toml", ".json"):
            status = path.stat()
            digest.update(f"{path.relative_to(package)}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def fingerprint(value: object) -> str:
    """
    A digest of a value made of dataclasses, mappings, sets, sequences and scalars that does not depend on the
    process.
    """
    return hashlib.sha256(encode(value)).hexdigest()


def key(*parts: str | bytes) -> str:
    """The name of an entry."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class Cache:
    """Entries of any process. Never raises: what cannot be read is a miss, what cannot be written is not kept."""

    def __init__(self, folder: Path | None = None, limit: int = LIMIT_BYTES) -> None:
        # A folder of its own: tidying must not meet what else is kept beside it, such as the compiled device.
        self.folder = folder or default_folder() / "results"
        self.limit = limit
        self.hits = 0
        self.misses = 0
        self._ready: set[Path] = set()
        self._broken = False

    def get(self, name: str) -> bytes | None:
        """The bytes of an entry, or None."""
        path = self._path(name)
        try:
            data = path.read_bytes()
            if time.time() - path.stat().st_mtime > _TOUCH_AFTER:
                os.utime(path)
        except OSError:
            self.misses += 1
            return None
        digest, _, body = data.partition(b"\n")
        if digest != hashlib.sha256(body).hexdigest().encode():
            self.misses += 1
            return None
        self.hits += 1
        return body

    def put(self, name: str, body: bytes) -> None:
        """Keep an entry. After the first failure (full disk, no permission) nothing more is tried in this run."""
        if self._broken:
            return
        path = self._path(name)
        temporary = None
        try:
            self._make(path.parent)
            handle, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            os.replace(temporary, path)
        except OSError:
            self._broken = True
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)

    def tidy(self) -> int:
        """
        If entries take more room than the limit, delete the oldest down to three quarters of it. Returns how many
        went.
        """
        entries: list[tuple[float, int, str]] = []
        stack = [str(self.folder)]
        while stack:
            with contextlib.suppress(OSError), os.scandir(stack.pop()) as items:
                for item in items:
                    with contextlib.suppress(OSError):
                        if item.is_dir(follow_symlinks=False):
                            stack.append(item.path)
                        elif item.name not in (".gitignore", "CACHEDIR.TAG"):
                            status = item.stat(follow_symlinks=False)
                            entries.append((status.st_mtime, status.st_size, item.path))
        total = sum(size for _, size, _ in entries)
        gone = 0
        if total > self.limit:
            for _, size, path in sorted(entries):
                if total <= self.limit * 3 // 4:
                    break
                with contextlib.suppress(OSError):
                    os.unlink(path)
                    gone += 1
                total -= size
        return gone

    def tidy_sometimes(self) -> None:
        """Tidy at most once an hour, whichever process comes first."""
        mark = self.folder / "CACHEDIR.TAG"
        with contextlib.suppress(OSError):
            if time.time() - mark.stat().st_mtime > 3600:
                os.utime(mark)
                self.tidy()

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / name[2:]

    def _make(self, folder: Path) -> None:
        if folder in self._ready:
            return
        folder.mkdir(parents=True, exist_ok=True)
        ignore = self.folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
            (self.folder / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n")
        self._ready.add(folder)


def pack(result: FileResult) -> bytes:
    """A result as JSON bytes, without the source, which whoever looks it up has."""
    data = {
        "status": result.status.value,
        "reason": result.reason,
        "output": None if result.output is None else base64.b64encode(result.output).decode("ascii"),
        "findings": [_pack_finding(finding) for finding in result.findings],
    }
    return json.dumps(data, separators=(",", ":")).encode("ascii")


def unpack(body: bytes, path: str, source: bytes) -> FileResult:
    """The result that :func:`pack` was given. Raises ValueError for bytes of another make."""
    try:
        data = json.loads(body)
        output = data["output"]
        return FileResult(
            path=path,
            status=FileStatus(data["status"]),
            reason=data["reason"],
            source=source,
            output=None if output is None else base64.b64decode(output),
            findings=tuple(_unpack_finding(item) for item in data["findings"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a cache entry: {error}") from None


_NAMES = [field.name for field in dataclasses.fields(Finding)]


def _pack_finding(finding: Finding) -> list[Any]:
    row: list[Any] = []
    for name in _NAMES:
        value = getattr(finding, name)
        if name == "edits":
            value = [[edit.start, edit.end, base64.b64encode(edit.text).decode("ascii")] for edit in value]
        elif name == "args":
            value = dict(value)
        elif name in ("severity", "safety", "confidence"):
            value = value.value
        row.append(value)
    return row


def _unpack_finding(row: list[Any]) -> Finding:
    if len(row) != len(_NAMES):
        raise ValueError("another version")
    values = dict(zip(_NAMES, row, strict=True))
    values["severity"] = Severity(values["severity"])
    values["safety"] = Safety(values["safety"])
    values["confidence"] = Confidence(values["confidence"])
    values["edits"] = tuple(Edit(start, end, base64.b64decode(text)) for start, end, text in values["edits"])
    return Finding(**values)


def encode(value: object) -> bytes:
    """
    A value of the kinds that :func:`fingerprint` takes, as bytes; equal values give equal bytes. Tuples and lists
    become tuples.
    """
    return json.dumps(_tagged(value), separators=(",", ":")).encode("ascii")


def decode(body: bytes, types: tuple[type, ...]) -> Any:
    """What :func:`encode` was given, dataclasses being looked up in ``types``. Raises ValueError for anything else."""
    try:
        return _untagged(json.loads(body), {kind.__name__: kind for kind in types})
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"not a cache entry: {error}") from None


def _tagged(value: object) -> Any:
    """JSON in which every container is a list that starts with its kind."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return ["b", value.hex()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ["d", type(value).__name__, [_tagged(getattr(value, f.name)) for f in dataclasses.fields(value)]]
    if isinstance(value, Mapping):
        return [
            "m",
            *sorted(([_tagged(k), _tagged(v)] for k, v in value.items()), key=lambda pair: json.dumps(pair[0])),
        ]
    if isinstance(value, (set, frozenset)):
        return ["s", *sorted((_tagged(item) for item in value), key=json.dumps)]
    if isinstance(value, (list, tuple)):
        return ["t", *(_tagged(item) for item in value)]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"no stable form for {type(value).__name__}")


def _untagged(value: Any, types: Mapping[str, type]) -> Any:
    if not isinstance(value, list):
        return value
    kind, *rest = value
    if kind == "b":
        return bytes.fromhex(rest[0])
    if kind == "d":
        return types[rest[0]](*(_untagged(item, types) for item in rest[1]))
    if kind == "m":
        return {_untagged(k, types): _untagged(v, types) for k, v in rest}
    if kind == "s":
        return frozenset(_untagged(item, types) for item in rest)
    if kind == "t":
        return tuple(_untagged(item, types) for item in rest)
    raise ValueError(f"not a cache entry: kind {kind}")
