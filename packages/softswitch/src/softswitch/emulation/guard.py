"""A process that removes what a network has left when this process ends, even by SIGKILL."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from softswitch.emulation.ending_signals import ignore_ending_signals

_PROGRAM = Path(__file__).with_name("guard_process.py")


@contextmanager
def guard(interfaces: Iterable[str]) -> Iterator[Callable[[int], None]]:
    """Remove interfaces at the end of the block, or of this process; those that do not exist do not matter.

    Yield a function that takes the id of a host's shell. All processes in its network namespace are killed
    at the end, too, after which the namespace vanishes with its interfaces. Those of switches are in this
    process's namespace.
    """
    with subprocess.Popen(
        [sys.executable, "-I", _PROGRAM, *interfaces], stdin=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdin is not None

        def add_namespace(pid: int) -> None:
            assert process.stdin is not None
            process.stdin.write(os.readlink(f"/proc/{pid}/ns/net").encode() + b"\n")
            process.stdin.flush()

        try:
            yield add_namespace
        finally:
            ignore_ending_signals()
            process.stdin.close()
            process.wait()
