"""A BPF ring buffer for digests and log records, in the format of `memory.output`.

Helper functions cannot read the arena, so a record is first copied to the per-CPU buffer of a map.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

from llvmlite import ir as llvm

from softswitch.codegen.loops import OpaqueVariable
from softswitch.kernel import bpf
from softswitch.kernel.arena import LOST_NOTICES
from softswitch.kernel.generation import Generation
from softswitch.kernel.program import Builder
from softswitch.kernel.ring import RingBuffer
from softswitch.kernel.target import BUFFER_MAP, KERNEL_POINTER, RING_MAP, call_helper
from softswitch.llvmir import I8, I32, I64, byte_offset, integer, is_null, resize

MAX_RECORD_BYTES = 1 << 12
"""Bytes of the largest record; larger ones are dropped and counted."""
RING_BYTES = 1 << 20
_MAP_LOOKUP, _RINGBUF_OUTPUT = 1, 130
_ALIGNMENT = 8


def emit_notice(builder: Builder, record: llvm.Value, size: llvm.Value) -> None:
    b, target = builder.b, builder.target
    sent, lost, has_buffer, fits_buffer = (
        b.append_basic_block(n) for n in ("sent", "lost", "buffer", "fits")
    )
    with b.goto_block(lost):
        b.atomic_rmw("add", builder.address_at(LOST_NOTICES), integer(64, 1), "monotonic")
        b.branch(sent)
    b.cbranch(b.icmp_unsigned("<=", size, integer(64, MAX_RECORD_BYTES)), fits_buffer, lost)
    b.position_at_end(fits_buffer)
    with b.goto_entry_block():
        key = b.alloca(I32)
        b.store(integer(32, 0), key)
    buffer = call_helper(b, _MAP_LOOKUP, KERNEL_POINTER, target.map(b, BUFFER_MAP), key)
    b.cbranch(is_null(b, buffer), lost, has_buffer)
    b.position_at_end(has_buffer)
    offset = OpaqueVariable(b, I64)
    loop_head, body, copy_end = (b.append_basic_block(n) for n in ("words", "word", "copied"))
    b.branch(loop_head)
    b.position_at_end(loop_head)
    target.loop_guard(b)
    record_offset = offset.get()
    b.cbranch(b.icmp_unsigned("<", record_offset, size), body, copy_end)
    b.position_at_end(body)
    # Unchanged by the mask, but the verifier requires a bound.
    bounded_offset = b.and_(record_offset, integer(64, MAX_RECORD_BYTES - _ALIGNMENT))
    value = b.load(byte_offset(b, record, record_offset), typ=I64, align=8)
    b.store(value, b.gep(buffer, [bounded_offset], source_etype=I8), align=8)
    offset.set(b.add(record_offset, integer(64, _ALIGNMENT)))
    b.branch(loop_head)
    b.position_at_end(copy_end)
    # The verifier requires this bound; `black_box` keeps LLVM from removing it.
    length = b.and_(target.black_box(b, size), integer(64, 2 * MAX_RECORD_BYTES - 1))
    within_limit = b.append_basic_block("short")
    b.cbranch(b.icmp_unsigned("<=", length, integer(64, MAX_RECORD_BYTES)), within_limit, lost)
    b.position_at_end(within_limit)
    ring = target.map(b, RING_MAP)
    code = call_helper(b, _RINGBUF_OUTPUT, I64, ring, buffer, length, integer(64, 0))
    b.cbranch(b.icmp_unsigned("==", resize(b, code, 32), integer(32, 0)), sent, lost)
    b.position_at_end(sent)


class NoticeRing:
    """The consumer's end of the ring buffer; `descriptor` is readable while the buffer has records."""

    def __init__(self, generation: Generation | None = None) -> None:
        buffers = partial(
            bpf.create_map, bpf.PERCPU_ARRAY, key_bytes=4, value_bytes=MAX_RECORD_BYTES, max_entries=1
        )
        ring = partial(bpf.create_map, bpf.RINGBUF, key_bytes=0, value_bytes=0, max_entries=RING_BYTES)
        with contextlib.ExitStack() as resources:
            self.buffers = buffers() if generation is None else generation.open_map("buffers", buffers)
            resources.callback(bpf.close, self.buffers)
            self.descriptor = ring() if generation is None else generation.open_map("notices", ring)
            resources.callback(bpf.close, self.descriptor)
            self._ring = resources.enter_context(contextlib.closing(RingBuffer(self.descriptor, RING_BYTES)))
            self._resources = resources.pop_all()

    def take(self) -> Iterator[bytes]:
        return self._ring.take()

    def close(self) -> None:
        self._resources.close()
