"""Calls of forked processes: end with the parent, enter namespaces, and show other arguments."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

NETWORK, MOUNT = 0x40000000, 0x00020000
"""Kinds of namespaces: CLONE_NEWNET and CLONE_NEWNS (Linux, <linux/sched.h>)."""
_PR_SET_PDEATHSIG = 1  # Linux, <linux/prctl.h>
_libc = ctypes.CDLL(None, use_errno=True)


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; end at once if that has happened."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def enter_namespace(fd: int, kind: int) -> None:
    """Enter a namespace, given as a file of /proc/PID/ns; raises OSError."""
    if _libc.setns(fd, kind):
        error = ctypes.get_errno()
        raise OSError(error, f"the namespace cannot be entered: {os.strerror(error)}")


def thread_names() -> list[str]:
    names = []
    for task in sorted(Path("/proc/self/task").iterdir(), key=lambda task: int(task.name)):
        with suppress(OSError):  # it has just ended
            names.append((task / "comm").read_text().strip())
    return names


def show_arguments(arguments: Sequence[str]) -> None:
    """Have the kernel show other arguments as this process's, cut to the length of its own."""
    # Fields 48 and 49, arg_start and arg_end (proc(5)); the name in parentheses may contain anything.
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    text = b"".join(argument.encode() + b"\0" for argument in arguments)[: end - start - 1]
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)
