"""Folders in which compiled machine code is cached."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


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
    folder = Path(tempfile.gettempdir()) / f"hotline-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    is_private = status.st_uid == os.getuid() and not status.st_mode & _WRITABLE_BY_OTHERS
    if stat.S_ISDIR(status.st_mode) and is_private:
        return folder
    return Path(tempfile.mkdtemp(prefix="hotline-"))


def cache_of(package: Path) -> Path:
    # Beside the sources if the user may write there.
    return package / "__pycache__" if os.access(package, os.W_OK) else user_cache() / package.name
