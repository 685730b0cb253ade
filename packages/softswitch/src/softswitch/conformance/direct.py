"""The kernel datapath's pipeline without interfaces: its input and output are in a mailbox.

    port, length, t_in, now     64-bit words, followed by a word for the result, the number of records
    frame                       `FRAME_BYTES`
    records                     `OUT_BYTES` (`memory.output`)

BPF_PROG_TEST_RUN runs the pipeline, with any frame and any time; tests compare it with the interpreter.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from softswitch import ir
from softswitch.kernel import bpf, control
from softswitch.kernel.arena import MAILBOX
from softswitch.kernel.pipeline import KernelPipeline
from softswitch.kernel.program import Builder, Code, cached_code
from softswitch.llvmir import I64, byte_offset, integer, resize, word
from softswitch.memory.layout import Layout
from softswitch.memory.output import read_records
from softswitch.memory.words import WORD_BYTES
from softswitch.pipeline import Output

_HEAD = struct.Struct("<QQQQQ")
FRAME_OFFSET = 64  # the head, and the rest of its cache line
FRAME_BYTES = 1 << 16
OUT_OFFSET = FRAME_OFFSET + FRAME_BYTES
OUT_BYTES = 1 << 21
MAILBOX_BYTES = OUT_OFFSET + OUT_BYTES
_INPUT_WORDS = 4  # port, length, t_in, now
_COUNT_OFFSET = WORD_BYTES * _INPUT_WORDS
_NO_RECORDS = 0
_XDP_DROP = 1
_IGNORED_FRAME = bytes(64)  # for BPF_PROG_TEST_RUN; the program reads the mailbox's frame


def build_direct(program: ir.Program, layout: Layout, priority_queues: int = 1) -> Code:
    options = {"frame": "mailbox", "priority queues": priority_queues}
    return cached_code(program, options, lambda: _build(program, layout, priority_queues))


def _build(program: ir.Program, layout: Layout, priority_queues: int) -> Code:
    builder = Builder("direct", _XDP_DROP, reads_clock=False)
    builder.add_program(program, layout, priority_queues)
    b, base = builder.b, builder.base
    # This module's mailbox follows the one of `kernel.control` in the arena.
    control_mailbox = byte_offset(b, base, builder.word(MAILBOX))
    mailbox = byte_offset(b, control_mailbox, control.MAILBOX_BYTES)
    port, length, t_in, now = (b.load(word(b, mailbox, n), typ=I64) for n in range(_INPUT_WORDS))
    count = builder.process(
        resize(b, port, 32), byte_offset(b, mailbox, FRAME_OFFSET), resize(b, length, 32), t_in, now,
        byte_offset(b, mailbox, OUT_OFFSET), integer(32, OUT_BYTES),
    )  # fmt: skip
    b.store(b.zext(count, I64), byte_offset(b, mailbox, _COUNT_OFFSET))
    b.ret(builder.drop_code)
    return builder.finish()


class DirectPipeline(KernelPipeline):
    def __init__(self, program: ir.Program) -> None:
        super().__init__(program, build_direct, bpf.XDP, extra_mailbox_bytes=MAILBOX_BYTES)
        start = self.arena.mailbox + control.MAILBOX_BYTES
        self._mailbox = self.arena.view(start, MAILBOX_BYTES).view(np.uint8)
        self._run = bpf.TestRun(self.descriptor, bpf.XDP)

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        _write_input(self._mailbox, port, frame, t_in, now)
        self._run(_IGNORED_FRAME)
        return self._outputs(_read_output(self._mailbox))


def _write_input(mailbox: npt.NDArray[np.uint8], port: int, frame: bytes, t_in: int, now: int) -> None:
    mailbox[: _HEAD.size] = np.frombuffer(_HEAD.pack(port, len(frame), t_in, now, _NO_RECORDS), np.uint8)
    mailbox[FRAME_OFFSET : FRAME_OFFSET + len(frame)] = np.frombuffer(frame, np.uint8)


def _read_output(mailbox: npt.NDArray[np.uint8]) -> Iterator[tuple[int, bytes]]:
    *_, count = _HEAD.unpack(mailbox[: _HEAD.size].tobytes())
    return read_records(mailbox[OUT_OFFSET : OUT_OFFSET + OUT_BYTES].data, count)
