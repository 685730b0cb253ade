"""Test whether the kernel can be the datapath here, by trying the features that it needs."""

from __future__ import annotations

import contextlib
import platform

from softswitch.errors import KernelError
from softswitch.kernel import bpf
from softswitch.kernel.arena import Arena
from softswitch.kernel.control import MAILBOX_BYTES, ArenaMemory
from softswitch.kernel.hooks import Hook
from softswitch.memory.words import WORD_BYTES

_LOOPBACK = 1  # index of the interface
_TEST_VALUE = 0x0123_4567_89AB_CDEF


def probe(hook: Hook = Hook.TCX) -> str | None:
    """Return None if this kernel and this user's rights suffice, else the reason."""
    try:
        _try_arena()
        _try_link(hook)
    except (KernelError, OSError) as error:
        return f"{error} (Linux {platform.release()}, {platform.machine()})"
    return None


def _try_arena() -> None:
    with (
        contextlib.closing(Arena(WORD_BYTES, MAILBOX_BYTES, cpu_area_bytes=0)) as arena,
        contextlib.closing(ArenaMemory(arena, WORD_BYTES)) as memory,
    ):
        with memory.locked():
            memory.store(0, [_TEST_VALUE])
        if memory.read(0, 1).tolist() != [_TEST_VALUE]:
            raise KernelError("this process does not see what a BPF program writes to its arena")


def _try_link(hook: Hook) -> None:
    program = hook.load_constant_program(hook.frame_type.pass_code, "probe")
    try:
        bpf.close(hook.cpu_port_hook.attach(program, _LOOPBACK))
    finally:
        bpf.close(program)
