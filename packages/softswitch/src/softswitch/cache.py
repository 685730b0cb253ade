from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import IO

from nativekit.cache import read_entry, user_cache, write_entry
from softswitch.progress import IdleLimit, read_activity

_PACKAGE = Path(__file__).parent
SET_UP_FOLDER = _PACKAGE / "__pycache__" / "programs"
"""Folder of what set-up has compiled, for all users of a checkout: root runs what another user has set up."""
_LOCK_TIMEOUT_S = 60.0
_POLL_INTERVAL_S = 0.1
_NOTICE_INTERVAL_S = 10.0
_store_folder: Path | None = None  # None for that of the user


@cache
def source_digest() -> str:
    sources = sorted(_PACKAGE.rglob("*.py"))
    return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:16]


def source_key_parts(*parts: object) -> tuple[str, ...]:
    """Return `key_parts` of `cached_object` for code that softswitch's sources generate from the parts."""
    return (source_digest(), *map(repr, parts))


@contextlib.contextmanager
def compile_lock() -> Iterator[None]:
    """Hold a lock, so that one of a user's processes compiles and the others load from disk."""
    # If no lock can be created, or its holder does nothing for a minute, continue without it.
    folder = user_cache()
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # without a folder there is no lock
            folder.mkdir(parents=True, exist_ok=True)
            # The file has the process id of who holds the lock, or has held it last.
            lock = stack.enter_context(open(folder / "compiling.lock", "a+"))
            if _wait_for_lock(lock):
                lock.truncate(0)
                lock.write(str(os.getpid()))
                lock.flush()
        yield


def _wait_for_lock(lock: IO[str]) -> bool:
    limit, next_notice_s = IdleLimit(_LOCK_TIMEOUT_S), time.monotonic()
    while not _try_lock(lock.fileno()):
        holder = _holder_of(lock)
        if limit.look_s == 0:
            limit.look([] if holder is None else [read_activity(holder)])
        if limit.is_exceeded:
            return False
        if time.monotonic() >= next_notice_s:  # who waits for this process sees by this that it is not stuck
            print(f"softswitch: waiting while process {holder} compiles", file=sys.stderr, flush=True)
            next_notice_s += _NOTICE_INTERVAL_S
        time.sleep(_POLL_INTERVAL_S)
    return True


def _holder_of(lock: IO[str]) -> int | None:
    lock.seek(0)
    text = lock.read()
    return int(text) if text.isdecimal() else None


def _try_lock(descriptor: int) -> bool:
    try:
        import fcntl
    except ImportError:  # a system without file locks, where processes may compile the same at once
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def store_folder() -> Path:
    """Return the folder in which what is compiled now is stored."""
    return _store_folder or user_cache()


def cached_object(key_parts: Sequence[str], make: Callable[[], bytes]) -> bytes:
    digest = hashlib.sha256("\0".join(key_parts).encode()).hexdigest()[:32]
    name = f"{digest}.o"
    for folder in (store_folder(), SET_UP_FOLDER):
        if (code := read_entry(folder / name)) is not None:
            return code
    code = make()
    write_entry(store_folder() / name, code)
    return code


@contextlib.contextmanager
def stored_by_set_up() -> Iterator[None]:
    """Have all that is compiled in the block stored in `SET_UP_FOLDER`, instead of what is there."""
    global _store_folder
    shutil.rmtree(SET_UP_FOLDER, ignore_errors=True)
    _store_folder = SET_UP_FOLDER
    try:
        yield
    finally:
        _store_folder = None
