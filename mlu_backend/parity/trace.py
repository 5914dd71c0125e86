"""
The records of a run on disk: JSON lines for what happened, safetensors for numbers. Never pickle.

    TRACE/meta.json                      what was run, how, and whether it came to its end
    TRACE/p0000-<pid>/events.jsonl       one process, in order; readable up to the point where a killed process stopped
    TRACE/p0000-<pid>/stats-00000.safetensors
    TRACE/p0000-<pid>/tensors-00000.safetensors    full tensors, on request

Statistics are numbered in the order they were taken; events refer to the number. A chunk of 2,048 is the most that is
held in memory. A trace whose name ends in ``.zip`` is one file to carry; reading accepts both.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import struct
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from mlu_backend.parity import complete
from mlu_backend.parity.statistics import SAMPLES, Stats

VERSION = 1
CHUNK_ROWS = 2048
FLUSH_SECONDS = 2.0
_SIGN = 1 << 63
_ROW = struct.Struct(f"4d4q{SAMPLES}d")
_NO_SAMPLES = (0.0,) * SAMPLES
_BLANK = Stats(0.0, 0.0, 0.0, 0.0, -1, 0)
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=True).encode


class TraceError(Exception):
    """A trace that is missing, damaged, or of another version; the text names the file."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Shape, dtype and device type of a recorded tensor."""

    shape: tuple[int, ...]
    dtype: str
    device: str

    @property
    def role(self) -> str:
        """``host`` for CPU tensors, ``device`` for any accelerator: what is compared, since cuda becomes mlu."""
        return "host" if self.device == "cpu" else "device"


@dataclass(frozen=True, slots=True)
class Row:
    """One numbered statistic as read back."""

    kind: Kind
    stats: Stats | None  # None where the tensor could not be read


class Writer:
    """Writes one process's part of a trace. Thread safe; every method may be called from any thread."""

    def __init__(self, root: Path, order: int | None = None) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.folder = _claim(root, order)
        self._file = os.open(self.folder / "events.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._events: list[dict[str, Any]] = []  # a buffer of our own: a forked child must not write its copy of it
        self._lock = threading.RLock()
        self._kinds: dict[Kind, int] = {}
        self._rows = bytearray()  # packed as they come, which makes a row cheaper than lists of lists at the end
        self._saved = 0  # rows that are in files
        self._chunk = 0
        self._tensors: dict[str, torch.Tensor] = {}
        self._tensor_chunk = 0
        self._flushed = time.monotonic()
        self.closed = False

    def event(self, **fields: Any) -> None:
        """Append one event; values must be JSON, and stay as they are. They become text when they are written."""
        with self._lock:
            if not self.closed:
                self._events.append(fields)
                if len(self._events) >= 1000:
                    self._flush_events()

    def stat(self, kind: Kind, stats: Stats | None) -> int:
        """Append one statistic and return its number."""
        with self._lock:
            index = self._kinds.get(kind)
            if index is None:
                index = self._kinds[kind] = len(self._kinds)
                self.event(k="kind", id=index, shape=list(kind.shape), dtype=kind.dtype, device=kind.device)
            found = stats or _BLANK
            signed = found.checksum - (1 << 64) if found.checksum >= _SIGN else found.checksum
            # In one piece: a signal of the program's may end us between any two statements.
            self._rows += _ROW.pack(
                found.norm,
                found.min,
                found.max,
                found.mean,
                index,
                found.nonfinite,
                signed,
                len(found.sample),
                *found.sample,
                *_NO_SAMPLES[len(found.sample) :],
            )
            number = self._saved + len(self._rows) // _ROW.size - 1
            if len(self._rows) >= CHUNK_ROWS * _ROW.size:
                self._flush_rows()
            return number

    def tensor(self, name: str, tensor: torch.Tensor) -> None:
        """Keep a full tensor under a name that is unique in this process."""
        with self._lock:
            self._tensors[name] = tensor.detach().to("cpu", copy=True).contiguous()
            if sum(t.numel() * t.element_size() for t in self._tensors.values()) > 64 << 20:
                self._flush_tensors()

    def flush(self, force: bool = True) -> None:
        """Write what is held; unless forced, only if the last time is some seconds ago."""
        with self._lock:
            if self.closed or (not force and time.monotonic() - self._flushed < FLUSH_SECONDS):
                return
            self._flush_rows()
            self._flush_tensors()
            self._flush_events()
            self._flushed = time.monotonic()

    def close(self) -> None:
        """Write the rest. Idempotent."""
        with self._lock:
            if self.closed:
                return
            self.flush()
            self.closed = True
            os.close(self._file)

    def _flush_events(self) -> None:
        count = len(self._events)
        data = "".join(_line(event) for event in self._events[:count]).encode("utf-8", "surrogatepass")
        del self._events[:count]
        while data:
            data = data[os.write(self._file, data) :]

    def _flush_rows(self) -> None:
        count = len(self._rows) // _ROW.size
        if not count:
            return
        with _unseen():
            table = torch.frombuffer(self._rows, dtype=torch.float64).view(count, -1)
            tensors = {
                "values": table[:, :4].contiguous(),  # norm, min, max, mean
                "counts": table.view(torch.int64)[:, 4:8].contiguous(),  # kind, non-finite, checksum, samples
                "samples": table[:, 8:].contiguous(),
            }
        _save(tensors, self.folder / f"stats-{self._chunk:05d}.safetensors")
        # Only now, so that a signal before leaves the rows to be saved again, in the same file.
        self._rows, self._saved, self._chunk = bytearray(), self._saved + count, self._chunk + 1

    def _flush_tensors(self) -> None:
        if self._tensors:
            _save(self._tensors, self.folder / f"tensors-{self._tensor_chunk:05d}.safetensors")
            self._tensor_chunk += 1
            self._tensors = {}


def _line(event: dict[str, Any]) -> str:
    """One event as text; one that is no JSON must not take the others with it."""
    try:
        return _encode(event) + "\n"
    except (TypeError, ValueError) as error:
        return _encode({"k": "trouble", "text": f"{event.get('k')}: {error}"[:200]}) + "\n"


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    """Our own tensors, unseen by the program's modes and by the recorder's."""
    from torch.utils._python_dispatch import _disable_current_modes

    with torch._C.DisableTorchFunction(), _disable_current_modes():
        yield


def _save(tensors: dict[str, torch.Tensor], path: Path) -> None:
    """Write beside and rename, so that a killed process leaves no half file."""
    with _unseen():
        beside = path.with_suffix(".part")
        save_file(tensors, str(beside))
        os.replace(beside, path)


def _claim(root: Path, order: int | None) -> Path:
    """A folder of our own; the number is the order in which processes began to record."""
    number = len(list(root.glob("p[0-9]*-*"))) if order is None else order
    while True:
        folder = root / f"p{number:04d}-{os.getpid()}"
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            number += 1


@dataclass
class Process:
    """One recorded process: its events and numbered statistics."""

    name: str
    events: list[dict[str, Any]]
    rows: list[Row]
    tensors: dict[str, tuple[Path, str]] = field(default_factory=dict)

    def first(self, kind: str) -> dict[str, Any] | None:
        """The first event of a kind."""
        return next((e for e in self.events if e["k"] == kind), None)

    def of(self, kind: str) -> Iterator[dict[str, Any]]:
        """All events of a kind, in order."""
        return (e for e in self.events if e["k"] == kind)

    @property
    def rank(self) -> int:
        """The distributed rank, 0 where there is none."""
        ranks = [e["rank"] for e in self.of("world")]
        head = self.first("process") or {}
        return int(ranks[-1] if ranks else head.get("rank", 0))

    @property
    def identity(self) -> list[int]:
        """Which child of which process it was; empty for one that ``multiprocessing`` did not start."""
        later = [e["identity"] for e in self.of("identity")]
        return list(later[-1] if later else (self.first("process") or {}).get("identity", []))

    @property
    def world(self) -> int:
        """The number of ranks."""
        sizes = [e["size"] for e in self.of("world")]
        head = self.first("process") or {}
        return int(sizes[-1] if sizes else head.get("world", 1))

    def tensor(self, name: str) -> torch.Tensor | None:
        """A full tensor, if it was kept."""
        where = self.tensors.get(name)
        if where is None:
            return None
        with safe_open(str(where[0]), framework="pt") as file:
            return file.get_tensor(where[1])


@dataclass
class Trace:
    """A whole run as read back."""

    path: Path
    meta: dict[str, Any]
    processes: list[Process]
    _temporary: tempfile.TemporaryDirectory[str] | None = None


def rows_in(folder: Path) -> int:
    """How many statistics lie in the folder of a process, by the heads of their files alone."""
    count = 0
    for file in folder.glob("stats-*.safetensors"):
        with safe_open(str(file), framework="pt") as opened:
            count += opened.get_slice("counts").get_shape()[0]
    return count


def write_meta(folder: Path, **fields: Any) -> None:
    """Create or extend ``meta.json``."""
    path = folder / "meta.json"
    folder.mkdir(parents=True, exist_ok=True)
    known: dict[str, Any] = {}
    if path.is_file():
        known = json.loads(path.read_text(encoding="utf-8"))
    known.update({"version": VERSION, **fields})
    path.write_text(json.dumps(known, indent=1), encoding="utf-8")


def pack(root: Path, target: Path) -> None:
    """One file of a trace folder."""
    beside = target.with_name(target.name + ".part")
    with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED, compresslevel=4) as archive:
        for file in sorted(root.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(root).as_posix())
    os.replace(beside, target)


def _unpack(path: Path) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="mlu-parity-")
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                parts = Path(info.filename).parts
                if info.is_dir() or ".." in parts or Path(info.filename).is_absolute() or len(parts) > 2:
                    continue
                target = Path(folder.name).joinpath(*parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(info) as source, open(target, "wb") as out:
                    shutil.copyfileobj(source, out)
    except (zipfile.BadZipFile, OSError) as error:
        folder.cleanup()
        raise TraceError(f"{path}: not a trace: {error}") from error
    return folder


def read(path: Path | str) -> Trace:
    """Read a trace folder or file. Raises TraceError where there is none or it is damaged."""
    path = Path(path)
    temporary = None
    if path.is_file():
        temporary = _unpack(path)
        path = Path(temporary.name)
    meta_path = path / "meta.json"
    if not meta_path.is_file():
        raise TraceError(f"{path}: no trace here (meta.json is missing)")
    try:
        meta = json.loads(meta_path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TraceError(f"{meta_path}: {error}") from error
    if not isinstance(meta, dict) or meta.get("version") != VERSION:
        raise TraceError(
            f"{meta_path}: trace version {meta.get('version') if isinstance(meta, dict) else None}, wanted {VERSION}"
        )
    folders = sorted(p for p in path.iterdir() if p.is_dir() and (p / "events.jsonl").is_file())
    return Trace(path, meta, [_read_folder(folder) for folder in folders], temporary)


def _read_folder(folder: Path) -> Process:
    """Whatever else lies where a record should be is a damaged record."""
    try:
        return _read_process(folder)
    except (SafetensorError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise TraceError(f"{folder}: damaged: {type(error).__name__}: {error}") from error


def _read_process(folder: Path) -> Process:
    events: list[dict[str, Any]] = []
    kinds: list[Kind] = []
    lines = (folder / "events.jsonl").read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            event = json.loads(line)
        except ValueError as error:
            if number == len(lines):  # the process was killed while it wrote
                break
            raise TraceError(f"{folder / 'events.jsonl'}:{number}: {error}") from error
        if not isinstance(event, dict) or not isinstance(event.get("k"), str):
            raise TraceError(f"{folder / 'events.jsonl'}:{number}: not an event")
        if event["k"] == "kind":
            kinds.append(Kind(tuple(event["shape"]), event["dtype"], event["device"]))
        else:
            events.append(event)
    rows: list[Row] = []
    for file in sorted(folder.glob("stats-*.safetensors")):
        rows.extend(_read_rows(file, kinds))
    left = complete.count(events, len(rows))
    if any(event["k"] == "end" for event in events[left:]):  # else it was killed, and that is where
        raise TraceError(f"{folder}: damaged: statistics are missing, {len(rows)} are left")
    tensors = {}
    for file in sorted(folder.glob("tensors-*.safetensors")):
        with safe_open(str(file), framework="pt") as opened:
            tensors.update({name: (file, name) for name in opened.keys()})
    return Process(folder.name, events[:left], rows, tensors)


def _read_rows(file: Path, kinds: Sequence[Kind]) -> Iterator[Row]:
    try:
        with safe_open(str(file), framework="pt") as opened:
            values = opened.get_tensor("values").tolist()
            counts = opened.get_tensor("counts").tolist()
            samples = opened.get_tensor("samples").tolist()
    except (SafetensorError, OSError) as error:
        raise TraceError(f"{file}: {error}") from error
    for value, (kind_index, nonfinite, check, length), numbers in zip(values, counts, samples, strict=True):
        kind = kinds[kind_index]
        if nonfinite < 0:
            yield Row(kind, None)
            continue
        yield Row(kind, Stats(*value, nonfinite, check & ((1 << 64) - 1), tuple(numbers[:length])))
