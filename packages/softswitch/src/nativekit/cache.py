"""Folders in which compiled machine code is cached, and its files, which are checked when they are read."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nativekit.files import replace_file
from nativekit.own_folder import own_folder

_LOG = logging.getLogger(__name__)
_DIGEST_BYTES = 32
MAX_BYTES = 512 << 20
"""Size up to which a folder keeps entries; beyond it those go first that were read longest ago."""
_BYTES_BETWEEN_LOOKS = 32 << 20  # that a process writes into a folder before it looks at the size again
_COMPILED = "compiled-"
_written: dict[Path, int] = {}
"""Bytes that this process has written into each folder since it looked at its size."""


def user_cache() -> Path:
    """Return the user's cache folder, which is made if necessary; if that fails, a private temporary one."""
    variable = os.environ.get("XDG_CACHE_HOME", "")
    try:
        folder = Path(variable if os.path.isabs(variable) else Path.home() / ".cache") / "hotline"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: there is neither HOME nor a user of this id
        return _private_folder()
    return folder if os.access(folder, os.W_OK | os.X_OK) else _private_folder()


def _private_folder() -> Path:
    """Return this user's temporary folder; if another user owns it or may write to it, return a new one."""
    return Path(own_folder(tempfile.gettempdir()) or tempfile.mkdtemp(prefix="hotline-"))


def cache_of(package: Path) -> Path:
    # Beside the sources if the user may write there.
    return package / "__pycache__" if os.access(package, os.W_OK) else user_cache() / package.name


def code_folder(package: Path, version: str) -> Path:
    """Return the folder for the machine code of a version of a package's sources."""
    return cache_of(package) / f"{_COMPILED}{version}"


def read_entry(path: Path) -> bytes | None:
    """Return what `write_entry` stored at a path, or None: after a power failure a file may be cut off."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    content = data[_DIGEST_BYTES:]
    if data[:_DIGEST_BYTES] == _digest(path, content):
        with contextlib.suppress(OSError):  # that of another user, which set-up has made
            os.utime(path)
        return content
    _LOG.info("%s is damaged or of an older version, and is replaced", path)
    return None


def write_entry(path: Path, content: bytes) -> None:
    """Store an entry atomically; ignore errors, since what is not cached is made again."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        replace_file(path, _digest(path, content) + content)
        _bound(path, _DIGEST_BYTES + len(content))


def _bound(path: Path, size: int) -> None:
    """Remove the oldest entries beside a new one, also of other versions, if they are too large together."""
    folder = next((each.parent for each in path.parents if each.name.startswith(_COMPILED)), path.parent)
    written = _written.get(folder, _BYTES_BETWEEN_LOOKS) + size
    _written[folder] = 0 if written >= _BYTES_BETWEEN_LOOKS else written
    if written < _BYTES_BETWEEN_LOOKS:
        return
    entries = sorted(_entries_in(folder), key=lambda each: each[1].st_mtime_ns, reverse=True)
    total = 0
    for entry, status in entries:
        total += status.st_size
        if total > MAX_BYTES:
            with contextlib.suppress(OSError):  # another process has removed it
                entry.unlink()
                entry.parent.rmdir()  # if it is empty


def _entries_in(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for kind in ("*.o", "p4-*", f"{_COMPILED}*/**/*.nbc"):
        for entry in folder.glob(kind):
            with contextlib.suppress(OSError):
                yield entry, entry.stat()


def _digest(path: Path, content: bytes) -> bytes:
    """Return a digest of content and name: the content of another entry is not that of this one."""
    name = f"{path.parent.name}/{path.name}\0".encode()
    return hashlib.blake2b(name + content, digest_size=_DIGEST_BYTES).digest()
