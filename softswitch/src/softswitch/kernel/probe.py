"""Can the kernel be the datapath here? What it needs is tried, not looked up by version."""

from __future__ import annotations

import contextlib
import platform

from softswitch.errors import KernelError
from softswitch.kernel import bpf
from softswitch.kernel.arena import Arena
from softswitch.kernel.control import MAILBOX_BYTES, ArenaMemory
from softswitch.kernel.hooks import Hook

_LOOPBACK = 1
_VALUE = 0x0123_4567_89AB_CDEF


def probe(hook: Hook = Hook.TCX) -> str | None:
    """None if this kernel and this user's rights will do; else the reason why not."""
    try:
        _try_arena()
        _try_link(hook)
    except (KernelError, OSError) as error:
        return f"{error} (Linux {platform.release()}, {platform.machine()})"
    return None


def _try_arena() -> None:
    """An arena, a program with `may_goto` and atomics in it, and test runs: the control plane's own."""
    with (
        contextlib.closing(Arena(8, MAILBOX_BYTES, 0)) as arena,
        contextlib.closing(ArenaMemory(arena, 8)) as memory,
    ):
        with memory.locked():
            memory.store(0, [_VALUE])
        if memory.read(0, 1).tolist() != [_VALUE]:
            raise KernelError("what a BPF program writes to its arena is not seen here")


def _try_link(hook: Hook) -> None:
    """A link to an interface; this one lets everything pass. The loopback's driver has no XDP."""
    program = hook.constant(hook.frame.passed, "probe")
    try:
        bpf.close(hook.of_tap.attach(program, _LOOPBACK))
    finally:
        bpf.close(program)
