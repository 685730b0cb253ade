"""Emit output records of the packet function (`memory.output`)."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.loops import OpaqueVariable
from softswitch.codegen.packet import Packet
from softswitch.codegen.wire import split
from softswitch.llvmir import I32, I64, byte_offset, integer, resize, sign_extend
from softswitch.memory.output import ALIGNMENT, DIGEST, HEAD_BYTES, HEAD_FIELD_BYTES, HEAD_FIELDS, LOG
from softswitch.memory.words import WORD_BYTES, words_of


class OutputWriter:
    def __init__(self, packet: Packet, memory: llvm.Value, capacity: llvm.Value) -> None:
        self.packet, self.b = packet, packet.b
        self.memory = memory
        self.capacity = resize(self.b, capacity, 64)
        # The kernel's verifier does not track an `OpaqueVariable`.
        self._count = OpaqueVariable(self.b, I32, name="records")
        self._used_bytes = OpaqueVariable(self.b, I64, name="used")

    def count(self) -> llvm.Value:
        return self._count.get()

    def reserve(self, size: llvm.Value) -> tuple[llvm.Value, llvm.Value]:
        """Return the address for a record's data, and an `i1`: whether `size` bytes fit."""
        used_bytes = self._used_bytes.get()
        needed_bytes = self.b.add(used_bytes, self.b.add(size, integer(64, HEAD_BYTES)))
        fits = self.b.icmp_unsigned("<=", needed_bytes, self.capacity)
        return byte_offset(self.b, self.memory, self.b.add(used_bytes, integer(64, HEAD_BYTES))), fits

    def write_payload(self, start: llvm.Value, end: llvm.Value, size: llvm.Value) -> None:
        """Write the payload of `size` bytes to `end`, where the record's headers end.

        `start`, where they begin, is for subclasses (`kernel.front.FrontOutput`).
        """
        packet, b = self.packet, self.b
        source = byte_offset(b, packet.get("frame"), resize(b, packet.get("cursor"), 64))
        packet.copy_bytes(end, source, size)

    def finish_record(self, kind: llvm.Value, length: llvm.Value) -> None:
        b = self.b
        used_bytes = self._used_bytes.get()
        head = {"kind": kind, "length": resize(b, length, 32)}
        for position, name in enumerate(HEAD_FIELDS):
            field_offset = b.add(used_bytes, integer(64, HEAD_FIELD_BYTES * position))
            address = byte_offset(b, self.memory, field_offset)
            b.store(head[name], address, align=HEAD_FIELD_BYTES)
        padded = b.and_(b.add(length, integer(64, ALIGNMENT - 1)), integer(64, -ALIGNMENT))
        self._used_bytes.set(b.add(used_bytes, b.add(padded, integer(64, HEAD_BYTES))))
        self._count.set(b.add(self.count(), integer(32, 1)))

    def write_digest(self, number: int) -> None:
        values = [_to_expression(value) for value in self.packet.program.digests[number].values]
        self._write_record(DIGEST + number, values)

    def write_log(self, message: int, values: Sequence[ir.Expression]) -> None:
        self._write_record(LOG + message, values)

    def _write_record(self, kind: int, values: Sequence[ir.Expression]) -> None:
        b, arithmetic = self.b, self.packet.arithmetic
        words: list[llvm.Value] = []
        for value in values:
            result, interval = arithmetic.exact(value)
            count = words_of(result.type.width)
            signed = interval.low < 0
            # The value's number of words comes first, negated if the value is signed.
            words.append(integer(64, -count if signed else count))
            words += split(b, (sign_extend if signed else resize)(b, result, 64 * count))
        size = integer(64, WORD_BYTES * len(words))
        address, fits = self.reserve(size)
        with b.if_then(fits):
            for position, part in enumerate(words):
                b.store(part, byte_offset(b, address, WORD_BYTES * position), align=WORD_BYTES)
            self.finish_record(integer(32, kind), size)


def _to_expression(value: ir.FieldRef | ir.SizedConstant) -> ir.Expression:
    return ir.Constant(value.value) if isinstance(value, ir.SizedConstant) else value
