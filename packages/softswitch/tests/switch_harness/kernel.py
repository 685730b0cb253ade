"""The front end on interfaces driven by test runs, without interfaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from softswitch.ir import Program
from softswitch.kernel import bpf
from softswitch.kernel.arena import CLOCK, COUNTER_BYTES, COUNTERS, INTERFACE_OF, SENT
from softswitch.kernel.generation import Generation
from softswitch.kernel.hooks import Hook
from softswitch.kernel.instructions import EXIT, WIDE_LOAD, encode, make_instruction
from softswitch.kernel.pipeline import AttachedPipeline
from softswitch.kernel.program import Code
from softswitch.kernel.target import ARENA_MAP, MAP_VALUE
from softswitch.pipeline import Output
from softswitch.v1model import PORT_NUMBERS

LOOPBACK, ELSEWHERE = 1, 9
LEAST = 14  # bytes of a frame that the kernel takes
_REDIRECTED = {bpf.SCHED_CLS: 7, bpf.XDP: 4}
_CLEAR = 0xB7  # opcode: move a constant to a register
_IDLE = encode(
    [
        [make_instruction(WIDE_LOAD, 1, MAP_VALUE, immediate=ARENA_MAP)],
        [make_instruction(0)],  # the second half of the load
        [make_instruction(_CLEAR, 0)],
        [make_instruction(EXIT)],
    ]
)
"""A program that refers to the arena and returns 0."""


def without_packets(build: Callable[..., Code]) -> Callable[..., Code]:
    """Return a `Build` of the same memory whose program ignores packets.

    The kernel verifies a real program for 0.1 s, which is lost on tests that send no packets.
    """

    def build_idle(*args: Any, **options: Any) -> Code:
        return replace(build(*args, **options), instructions=_IDLE)

    return build_idle


class OnLoopback(AttachedPipeline):
    """Frames come in by the loopback interface, whatever port that is just now."""

    def __init__(self, program: Program, hook: Hook = Hook.TCX, generation: Generation | None = None) -> None:
        kind = hook.frame_type.program_type
        super().__init__(program, hook=hook, reads_clock=False, generation=generation)
        self.run = bpf.TestRun(self.descriptor, kind)
        self.redirected = _REDIRECTED[kind]
        self._sent = self._counter(SENT)

    def _counter(self, which: int) -> npt.NDArray[np.uint64]:
        counters = self.arena.view(COUNTERS, COUNTER_BYTES * PORT_NUMBERS)
        return counters[which // 8 :: COUNTER_BYTES // 8]

    def counted(self, which: int) -> int:
        """Return one of the counters (`softswitch.kernel.arena`), summed over all ports."""
        return int(self._counter(which).sum())

    def connect(self, port: int) -> None:
        """Let frames come in by a port, and leave by any."""
        self.arena.connect({port: LOOPBACK})
        self.arena.view(INTERFACE_OF, 8 * PORT_NUMBERS)[:] = ELSEWHERE

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        """Run one frame (`Pipeline.process`), for programs that send one at most."""
        self.connect(port)
        self.arena.view(CLOCK, 16)[:] = t_in, now
        self._sent[:] = 0
        ran = self.run(frame, LOOPBACK)
        if ran.code != self.redirected:
            return []
        [left] = np.flatnonzero(self._sent).tolist()
        return [Output(left, ran.frame)]


def is_taken(frame: bytes) -> bool:
    """Return whether a test run takes a frame: none that claims to be IP and is shorter than its header."""
    least = {b"\x08\x00": LEAST + 20, b"\x86\xdd": LEAST + 40}.get(frame[12:14], LEAST)
    return len(frame) >= least
