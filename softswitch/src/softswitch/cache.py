from __future__ import annotations

import contextlib
import fcntl
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from nativekit.cache import user_cache
from softswitch.files import replace_file

_PACKAGE = Path(__file__).parent
_LOCK_TIMEOUT_S = 180.0
_POLL_INTERVAL_S = 0.1


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
    # After three minutes, or if no lock can be created, continue without it.
    folder = user_cache()
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # without a folder there is no lock
            folder.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(open(folder / "compiling.lock", "w"))
            deadline = time.monotonic() + _LOCK_TIMEOUT_S
            while not _try_lock(lock.fileno()) and time.monotonic() < deadline:
                time.sleep(_POLL_INTERVAL_S)
        yield


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def cached_object(key_parts: Sequence[str], make: Callable[[], bytes]) -> bytes:
    digest = hashlib.sha256("\0".join(key_parts).encode()).hexdigest()[:32]
    path = user_cache() / f"{digest}.o"
    with contextlib.suppress(OSError):
        return path.read_bytes()
    code = make()
    _store_object(path, code)
    return code


def _store_object(path: Path, code: bytes) -> None:
    """Store object code atomically; ignore errors, since code that is not cached is compiled again."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, code)
