"""Stop a command at each call by which it changes files, or let the call fail, and judge what is on the disk.

The layer sees the calls of Python's `os`, of `open` and of Polars' writers, and the statements of SQLite. A
write counts as two calls, one for each half, so some files are written in part. A process that is killed
before call k leaves what is on the disk at that moment: the layer copies it, and the command continues.
"""

from __future__ import annotations

import _pyio  # type: ignore[import-not-found]  # typeshed has no stub of it
import builtins
import errno
import hashlib
import io
import os
import pathlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

Action = Callable[[Path], object]
ALLOCATING = frozenset({"open", "write", "pwrite", "sendfile", "mkdir", "symlink", "posix_fallocate"})
"""Calls that fail on a full disk; others still succeed."""
_BY_PATH = ("rename", "replace", "unlink", "remove", "mkdir", "rmdir", "truncate", "symlink", "link")
_BY_DESCRIPTOR = ("ftruncate", "fsync", "posix_fallocate")
_COPIED_BYTES = 1 << 16  # that one call of `sendfile` copies


class FileLayer:
    """Calls `before_call` with name and path before each call that changes files in a folder."""

    def __init__(self, folder: Path, before_call: Callable[[str, Path], None]) -> None:
        self._folder = str(folder.resolve())
        self._before_call = before_call
        self._is_paused = False
        self._real = {name: getattr(os, name) for name in (*_BY_PATH, *_BY_DESCRIPTOR, "write", "pwrite")}

    @contextmanager
    def active(self) -> Iterator[None]:
        replaced: dict[str, Callable[..., Any]] = {name: self._by_path(name) for name in _BY_PATH}
        replaced |= {name: self._by_descriptor(name) for name in _BY_DESCRIPTOR}
        replaced |= {"write": self._write, "pwrite": self._pwrite, "open": self._os_open(os.open)}
        replaced["sendfile"] = self._sendfile(os.sendfile)
        opened = self._open(io.open)
        with ExitStack() as stack:
            for name, function in replaced.items():
                stack.enter_context(patch.object(os, name, function))
            for module in (io, builtins):
                stack.enter_context(patch.object(module, "open", opened))
            if (accessor := getattr(pathlib, "_NormalAccessor", None)) is not None:  # Python 3.10
                for name in (*_BY_PATH, "open"):
                    if hasattr(accessor, name):
                        function = opened if name == "open" else replaced[name]
                        stack.enter_context(patch.object(accessor, name, staticmethod(function)))
            stack.enter_context(patch.object(sqlite3, "connect", self._connect(sqlite3.connect)))
            for owner, name in _polars_writers():
                stack.enter_context(patch.object(owner, name, self._polars(getattr(owner, name))))
            yield

    def _call(self, name: str, path: str) -> None:
        if self._is_paused or not (path == self._folder or path.startswith(f"{self._folder}/")):
            return
        self._is_paused = True
        try:
            self._before_call(name, Path(path))
        finally:
            self._is_paused = False

    def _by_path(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def call(path: Any, *arguments: Any, **named: Any) -> Any:
            target = arguments[0] if name == "symlink" else path
            self._call(name, _absolute(target, named.get("dir_fd")))
            return real(path, *arguments, **named)

        return call

    def _by_descriptor(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def call(descriptor: int, *arguments: Any) -> Any:
            self._call(name, _path_of(descriptor))
            return real(descriptor, *arguments)

        return call

    def _write(self, descriptor: int, data: Any) -> int:
        content = bytes(data)
        half, path, write = len(content) // 2, _path_of(descriptor), self._real["write"]
        self._call("write", path)
        written: int = write(descriptor, content[:half]) if half else 0
        if half:
            self._call("write", path)
        return written + int(write(descriptor, content[half:]))

    def _pwrite(self, descriptor: int, data: Any, offset: int) -> int:
        self._call("pwrite", _path_of(descriptor))
        return int(self._real["pwrite"](descriptor, data, offset))

    def _sendfile(self, real: Callable[..., int]) -> Callable[..., int]:
        def call(out_fd: int, in_fd: int, offset: int, count: int) -> int:
            self._call("sendfile", _path_of(out_fd))
            return real(out_fd, in_fd, offset, min(count, _COPIED_BYTES))

        return call

    def _os_open(self, real: Callable[..., int]) -> Callable[..., int]:
        def call(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            target = _absolute(path, dir_fd)
            if (flags & os.O_CREAT and not os.path.exists(target)) or flags & os.O_TRUNC:
                self._call("open", target)
            return real(path, flags, mode, dir_fd=dir_fd)

        return call

    def _open(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            is_changed = set(mode) & set("wax+") and not isinstance(file, int)
            if is_changed and _absolute(file).startswith(self._folder):
                return _pyio.open(file, mode, *arguments, **named)  # in Python, by calls of `os`
            return real(file, mode, *arguments, **named)

        return call

    def _connect(self, real: Callable[..., sqlite3.Connection]) -> Callable[..., sqlite3.Connection]:
        def call(database: Any, *arguments: Any, **named: Any) -> sqlite3.Connection:
            connection = real(database, *arguments, **named)
            path = _absolute(database)
            connection.set_trace_callback(lambda _statement: self._call("sql", path))
            return connection

        return call

    def _polars(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(frame: Any, file: Any, *arguments: Any, **named: Any) -> Any:
            if not isinstance(file, (str, Path)) or not _absolute(file).startswith(self._folder):
                return real(frame, file, *arguments, **named)
            content = io.BytesIO()
            result = real(frame, content, *arguments, **named)
            Path(file).write_bytes(content.getvalue())
            return result

        return call


def _polars_writers() -> list[tuple[Any, str]]:
    try:
        import polars as pl  # softswitch is tested without it, too
    except ImportError:
        return []
    return [(pl.DataFrame, "write_parquet"), (pl.DataFrame, "write_csv"), (pl.LazyFrame, "sink_parquet")]


def _absolute(path: Any, dir_fd: int | None = None) -> str:
    folder = os.getcwd() if dir_fd is None else _path_of(dir_fd)
    return os.path.normpath(os.path.join(folder, os.fsdecode(path)))


def _path_of(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")


@dataclass
class CallLog:
    """The calls of a command; call number `failing` raises an error, and, on a full disk, later ones, too."""

    failing: int | None = None
    error: int = errno.EIO
    names: list[str] = field(default_factory=list)

    def __call__(self, name: str, path: Path) -> None:
        number = len(self.names)
        self.names.append(name)
        if self.failing is None or number < self.failing:
            return
        is_full = self.error == errno.ENOSPC
        if name != "sql" and (name in ALLOCATING if is_full else number == self.failing):
            raise OSError(self.error, os.strerror(self.error), str(path))


@dataclass
class CrashStates:
    """Copies of a folder before each call, without those that differ from an earlier one in nothing."""

    folder: Path
    copies: Path
    is_same: Callable[[Path], bool]
    """Whether a file makes no difference, since it is in a folder that the next command removes."""
    states: list[tuple[str, Path]] = field(default_factory=list)
    """Name of the call that was about to be made, and the copy."""
    _seen: set[bytes] = field(default_factory=set)

    def __call__(self, name: str, path: Path) -> None:
        fingerprint = _fingerprint(self.folder, self.is_same)
        if fingerprint in self._seen:
            return
        self._seen.add(fingerprint)
        copy = self.copies / f"{len(self.states):03}"
        shutil.copytree(self.folder, copy, symlinks=True)
        self.states.append((f"{name} {path.name}", copy))


def _fingerprint(folder: Path, is_same: Callable[[Path], bool]) -> bytes:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if is_same(relative):
            continue
        digest.update(f"{relative}\0{path.is_dir()}\0".encode())
        if path.is_symlink():
            digest.update(os.readlink(path).encode())
        elif path.is_file():
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


def _is_partial(path: Path) -> bool:
    return any(part.endswith(".partial") for part in path.parts[:-1])


@dataclass(frozen=True)
class WritingCommand:
    """A command that changes files in a folder, and what a reader finds there."""

    prepare: Action
    command: Action
    read: Callable[[Path], Mapping[str, object]]
    """Each value is found as it was before the command or as it is after it, and never otherwise."""
    errors: tuple[type[Exception], ...]
    """What the command may raise if the disk is full or broken; the text has one line."""
    leaves_files: bool = True
    """Whether the same files are there after a repeated command as after an undisturbed one."""


@dataclass(frozen=True)
class Judged:
    """How many cases were judged."""

    kills: int
    failures: int


def judge(writing: WritingCommand, folder: Path, stride: int = 1) -> Judged:
    """Try all kills of a command, and every `stride`-th failure of a call by a full and by a broken disk."""
    first = folder / "undisturbed"
    writing.prepare(_made(first))
    old = dict(writing.read(first))
    crash_states = CrashStates(first, _made(folder / "killed"), _is_partial)
    calls = CallLog()

    def both(name: str, path: Path) -> None:
        calls(name, path)
        crash_states(name, path)

    with FileLayer(first, both).active():
        writing.command(first)
    new, files = dict(writing.read(first)), _files(first)
    assert calls.names, "expected a command that changes files, got no call"
    assert old != new, "expected a command that changes what is read"
    for name, state in crash_states.states:
        _check(writing, state, old, new, files, f"killed before {name}")
    failures = 0
    for error in (errno.ENOSPC, errno.EIO):
        for number in range(failures % stride, len(calls.names), stride):
            failed = folder / f"{errno.errorcode[error]}-{number}"
            writing.prepare(_made(failed))
            at = f"{errno.errorcode[error]} at call {number}, {calls.names[number]}"
            with FileLayer(failed, CallLog(number, error)).active():
                try:
                    writing.command(failed)
                except writing.errors as raised:
                    assert "\n" not in str(raised) and len(str(raised)) < 400, (at, raised)
            _check(writing, failed, old, new, files, at)
            shutil.rmtree(failed)
            failures += 1
    return Judged(len(crash_states.states), failures)


def _check(
    writing: WritingCommand,
    folder: Path,
    old: Mapping[str, object],
    new: Mapping[str, object],
    files: list[str],
    at: str,
) -> None:
    found = writing.read(folder)
    assert found.keys() == new.keys(), (at, found)
    for name, value in found.items():
        assert value in (old[name], new[name]), f"{at}: {name} is neither old nor new: {value}"
    writing.command(folder)
    repeated = dict(writing.read(folder))
    assert repeated == new, f"{at}: the repeated command leaves {repeated}"
    if writing.leaves_files:
        assert _files(folder) == files, f"{at}: the repeated command leaves other files"


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
