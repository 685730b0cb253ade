"""Namespaces for the processes of pytest-xdist: each has a machine of its own as far as a run can tell.

A run of the main job is one at a time on a machine: names of its interfaces, the lock in /run, what it finds of a
killed run's processes. Two processes of tests that have these for themselves make runs beside each other.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OWN_NAMESPACES = Path(__file__).with_name("own-namespaces")
_NETWORK = Path("/run/netns/hotline-tests")
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def python_in_its_own() -> str | None:
    """The command of a Python in namespaces of its own; None where there can be none."""
    if os.geteuid() != 0 or subprocess.run([OWN_NAMESPACES, "true"], capture_output=True).returncode != 0:
        return None
    return shlex.join([str(OWN_NAMESPACES), sys.executable])


@contextmanager
def own_network() -> Iterator[None]:
    """Have this thread in the network of its process's namespaces; where it is, if there are none."""
    if not _NETWORK.exists():
        yield
        return
    with open("/proc/thread-self/ns/net") as home, _NETWORK.open() as own:
        _enter(own.fileno())
        try:
            yield
        finally:
            _enter(home.fileno())


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
