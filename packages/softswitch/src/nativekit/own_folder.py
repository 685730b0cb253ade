"""A folder for temporary files that no other user can write to."""

from __future__ import annotations

import contextlib
import os
import stat

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def own_folder(parent: str) -> str | None:
    """Return this user's folder in another one, which is made if necessary; None if it is not private."""
    folder = os.path.join(parent, f"hotline-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, mode=0o700)
    status = os.lstat(folder)
    is_private = status.st_uid == os.getuid() and not status.st_mode & _WRITABLE_BY_OTHERS
    return folder if stat.S_ISDIR(status.st_mode) and is_private else None
