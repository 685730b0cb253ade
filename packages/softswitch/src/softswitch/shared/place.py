"""The place of the socket of a user's shared process, which depends on all that a fork cannot change."""

from __future__ import annotations

import errno
import os
import resource
import sys
import zlib
from collections.abc import Iterator

from nativekit.own_folder import own_folder

_SOURCES = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
_TEMPORARY = "/tmp"  # of all users, whatever TMPDIR is
_PACKAGES = ("nativekit", "softswitch")
_READ_AT_IMPORT = ("GRPC_", "HOME", "LD_", "NUMBA_", "OPENBLAS_", "PROTOCOL_", "PYTHON", "TMPDIR", "XDG_")
"""Beginnings of the names of environment variables that libraries read when they are imported."""
_LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_AS)


def socket_path() -> str:
    """Return the path of the shared process's socket for a switch that this process would be.

    Raises OSError if the user has no folder that is private.
    """
    if (folder := own_folder(_TEMPORARY)) is None:
        raise OSError(errno.EPERM, f"other users may write to this user's folder in {_TEMPORARY}")
    conditions = "\0".join(_conditions()).encode()
    # Not of hashlib, whose library would be half of a command's memory.
    return os.path.join(folder, f"{zlib.crc32(conditions):08x}{zlib.adler32(conditions):08x}.socket")


def _conditions() -> Iterator[str]:
    yield sys.executable
    yield from _states_of_sources()
    yield from (_link(f"/proc/self/ns/{name}") for name in ("pid", "user", "cgroup"))
    yield _text("/proc/self/cgroup")
    yield repr((os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups(), os.nice(0)))
    yield repr([resource.getrlimit(limit) for limit in _LIMITS])
    yield from sorted(f"{name}={value}" for name, value in os.environ.items() if _is_read_at_import(name))


def _states_of_sources() -> Iterator[str]:
    """Yield the paths of the sources with their times of change: the process has those of its start."""
    for package in _PACKAGES:
        for folder, _, files in os.walk(os.path.join(_SOURCES, package)):
            for name in sorted(files):
                if name.endswith(".py"):
                    yield f"{folder}/{name} {os.stat(f'{folder}/{name}').st_mtime_ns}"


def _is_read_at_import(name: str) -> bool:
    return name.startswith(_READ_AT_IMPORT)


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:  # of another kernel
        return ""


def _text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
