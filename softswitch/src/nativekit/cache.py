"""Folders in which compiled machine code is cached."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def user_cache() -> Path:
    """Return the user's cache folder, which may not exist yet; without a home, a private temporary one."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hotline"
    except RuntimeError:  # there is neither HOME nor a user of this id
        return _private_folder()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return folder if os.access(existing, os.W_OK | os.X_OK) else _private_folder()


def _private_folder() -> Path:
    """Return this user's temporary folder; if another user owns it or may write to it, return a new one."""
    folder = Path(tempfile.gettempdir()) / f"hotline-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    is_private = status.st_uid == os.getuid() and not status.st_mode & _WRITABLE_BY_OTHERS
    if stat.S_ISDIR(status.st_mode) and is_private:
        return folder
    return Path(tempfile.mkdtemp(prefix="hotline-"))


def cache_of(package: Path) -> Path:
    # Beside the sources if the user may write there.
    return package / "__pycache__" if os.access(package, os.W_OK) else user_cache() / package.name
