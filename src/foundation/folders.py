"""Lock a folder, and change its files in one step.

A changed copy replaces the folder. Beside FOLDER there may be FOLDER.partial, a copy that is being changed;
FOLDER.committed, a copy whose changes are complete, and which counts from the renaming to this name on; and
FOLDER.before, the replaced files. A process can be killed at any point: `finish_replacement` continues.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foundation.errors import DataError, reason_of


@contextmanager
def hold_folder_lock(folder: Path, holder: str) -> Iterator[None]:
    """Hold a lock on an existing folder; raise `DataError` if another process, a `holder`, has it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise DataError(f"{folder}: cannot be opened: {reason_of(error)}") from error
    try:
        if not try_lock(descriptor):
            raise DataError(f"{folder}: {holder} is using this folder; try again when it has ended")
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Lock an open file or folder until it is closed; return False if another process has locked it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def changed_copy(folder: Path) -> Iterator[Path]:
    """Yield a copy of a folder of files, which then replaces the folder; after an error, remove the copy.

    The caller holds a lock, and has called `finish_replacement`. Raises `DataError` if the disk is full.
    """
    partial = _sibling_path(folder, "partial")
    try:
        with _errors_named(folder, "cannot be copied"):
            partial.mkdir()
            for file in sorted(folder.iterdir()):
                shutil.copyfile(file, partial / file.name)
        yield partial
        with _errors_named(folder, "cannot be replaced"):
            partial.rename(_sibling_path(folder, "committed"))
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    finish_replacement(folder)


def finish_replacement(folder: Path) -> None:
    """Finish a replacement of a folder that has been committed, and remove what an earlier one has left."""
    partial, committed, before = (_sibling_path(folder, name) for name in ("partial", "committed", "before"))
    with _errors_named(folder, "cannot be replaced"):
        if committed.is_dir():
            if folder.is_dir():
                folder.rename(before)
            committed.rename(folder)
        for remains in (partial, before):
            if remains.is_dir():
                shutil.rmtree(remains)


def _sibling_path(folder: Path, suffix: str) -> Path:
    return folder.with_name(f"{folder.name}.{suffix}")


@contextmanager
def _errors_named(folder: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"{folder}: {what}: {reason_of(error)}") from error
