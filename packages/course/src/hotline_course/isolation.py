"""Isolation of a child process on Linux: namespaces without network, read-only files, limits, no rights.

The functions are called by trusted code of the child before it runs anything of a submission, in the one
thread that a fork leaves: the system lets no process with several threads into a user namespace.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from hotline_course.limits import Limits

UNPRIVILEGED_ID = 65534
"""User and group of a submission's process where root runs the checker."""
_NEW_NAMESPACES = (
    0x00020000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000
)  # mount, UTS, IPC, PID, network
_NEW_USER_NAMESPACE = 0x10000000
_BIND_FLAGS = 0x4000 | 0x40000  # MS_REC | MS_PRIVATE
_NOSUID, _NODEV = 2, 4
_SYS_MOUNT_SETATTR = 442  # on every architecture that has been added to Linux's common table
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_ATTR_READ_ONLY_NOSUID = 1 | 2
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVILEGES = 1, 38
_CAPABILITY_VERSION_3: Final = 0x20080522


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns_fd")]


def enter_namespaces() -> str:
    """Move this process and its children into namespaces of their own; return why not, or "".

    Children are in the PID namespace, and this process is not: the first child is its init, whose end ends
    all processes in it.
    """
    if sys.platform != "linux":
        return f"{sys.platform} has no namespaces"
    user, group, is_root = os.getuid(), os.getgid(), os.geteuid() == 0
    flags = _NEW_NAMESPACES | (0 if is_root else _NEW_USER_NAMESPACE)
    if reason := _call("unshare", flags):
        return f"the system allows no namespaces ({reason})"
    if not is_root:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    return ""


def restrict_files(folder: str, hidden: Sequence[str], size_kb: int) -> str:
    """Make all files read-only but those in `folder`, which becomes empty; return why not, or "".

    The `hidden` folders and /proc become empty, too.
    """
    attributes = _MountAttributes(_ATTR_READ_ONLY_NOSUID, 0, 0, 0)
    call = (
        _SYS_MOUNT_SETATTR,
        _AT_FDCWD,
        b"/",
        _AT_RECURSIVE,
        ctypes.byref(attributes),
        ctypes.sizeof(attributes),
    )
    return (
        _mount(None, "/", None, _BIND_FLAGS)
        or _call("syscall", *call)
        or next(filter(None, (_mount_empty(each, 4) for each in ("/proc", *hidden))), "")
        or _mount_empty(folder, size_kb)
    )


def drop_rights() -> None:
    """Give up the user root, all capabilities, and the right to gain any by executing a file."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(UNPRIVILEGED_ID, UNPRIVILEGED_ID, UNPRIVILEGED_ID)
        os.setresuid(UNPRIVILEGED_ID, UNPRIVILEGED_ID, UNPRIVILEGED_ID)
    if sys.platform == "linux":
        header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
        _call("capset", header, (ctypes.c_uint32 * 6)())
        _call("prctl", _PR_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        _call("prctl", _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def set_limits(limits: Limits) -> None:
    """Set the limits of this process, after which it can start neither processes nor threads."""
    values = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: limits.cpu_s,
        resource.RLIMIT_FSIZE: limits.file_kb * 1000,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_NPROC: 0,
    }
    for kind, limit in values.items():
        resource.setrlimit(kind, (limit, limit))
    memory_bytes = limits.memory_mb * 1_000_000
    with suppress(ValueError, OSError):  # macOS refuses it
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def _mount_empty(folder: str, size_kb: int) -> str:
    return _mount("tmpfs", folder, f"size={size_kb}k,mode=0777", _NOSUID | _NODEV)


def _mount(kind: str | None, folder: str, options: str | None, flags: int) -> str:
    texts = [None if each is None else os.fsencode(each) for each in (kind, folder, kind, options)]
    reason = _call("mount", texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])
    return f"{folder} cannot be mounted ({reason})" if reason else ""


# `object`: the arguments of a C function.
def _call(name: str, *arguments: object) -> str:
    """Call a function of libc; return its error, or ""."""
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    if function(*arguments) >= 0:
        return ""
    return os.strerror(ctypes.get_errno() or errno.EIO)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
