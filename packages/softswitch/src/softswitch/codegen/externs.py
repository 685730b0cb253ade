"""Emit v1model's externs with state or a calculation: counters, meters, registers, `hash` and `random`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.calculations import Calculations
from softswitch.codegen.meters import meter_function
from softswitch.codegen.packet import Packet
from softswitch.hashing import GOLDEN_RATIO, SPLITMIX_LAST_SHIFT, SPLITMIX_STEPS
from softswitch.llvmir import I64, byte_offset, integer, resize, word
from softswitch.memory.layout import METER_WORDS, CellArray, Layout
from softswitch.memory.words import WORD, WORD_BYTES
from softswitch.target import target_of


class Externs:
    def __init__(self, packet: Packet, state: llvm.Value, layout: Layout, now: llvm.Value) -> None:
        self.packet, self.b = packet, packet.b
        self.state = state
        self.layout = layout
        self.now = now
        self.calculations = Calculations(packet)

    @contextmanager
    def _if_in_range(self, index: ir.Expression, size: int) -> Iterator[llvm.Value]:
        """Yield the index modulo 2^32 as a word; code emitted inside runs only if it is below `size`."""
        b, arithmetic = self.b, self.packet.arithmetic
        interval = arithmetic.interval(index)
        index_word = resize(b, arithmetic.modulo(index, 32), WORD)
        if interval.low >= 0 and interval.high < size:
            yield index_word
            return
        with b.if_then(b.icmp_unsigned("<", index_word, integer(WORD, size))):
            yield index_word

    # -- counters

    def count(self, counter: int, index: ir.Expression) -> None:
        with self._if_in_range(index, self.packet.program.counters[counter].size) as index_word:
            self.count_at(self._cell_address(self.layout.counters[counter], index_word))

    def count_at(self, counter: llvm.Value) -> None:
        """Add this packet to the (packets, bytes) words at an address; BMv2 counts the length on arrival."""
        b = self.b
        length = resize(b, self.packet.get("ingress_length"), WORD)
        bytes_address = target_of(b.module).set_apart(b, word(b, counter, 1))
        for address, amount in ((counter, integer(WORD, 1)), (bytes_address, length)):
            b.store(b.add(b.load(address, typ=I64), amount), address)

    def _cell_address(self, cells: CellArray, index: llvm.Value) -> llvm.Value:
        offset = self.b.add(self.b.mul(index, integer(WORD, cells.step)), integer(WORD, cells.first))
        # Without the barrier LLVM would keep the constant part, `state + cells.first`, in a register, and
        # spill it to BPF's stack, which is too small.
        return byte_offset(self.b, self.state, target_of(self.b.module).optimization_barrier(self.b, offset))

    # -- registers

    def read_register(self, statement: ir.RegisterRead) -> None:
        declared = self.packet.program.registers[statement.register]
        with self._if_in_range(statement.index, declared.size) as index:
            address, width = self._register_address(statement.register, index)
            value = self.b.load(address, typ=llvm.IntType(width), align=min(width // 8, WORD_BYTES))
            self.packet.store(statement.target, resize(self.b, value, declared.width))

    def write_register(self, statement: ir.RegisterWrite) -> None:
        declared = self.packet.program.registers[statement.register]
        value = self.packet.arithmetic.modulo(statement.value, declared.width)
        with self._if_in_range(statement.index, declared.size) as index:
            address, width = self._register_address(statement.register, index)
            self.b.store(resize(self.b, value, width), address, align=min(width // 8, WORD_BYTES))

    def _register_address(self, register: int, index: llvm.Value) -> tuple[llvm.Value, int]:
        size = self.layout.register_bytes(self.packet.program.registers[register].width)
        return self._cell_address(self.layout.registers[register], index), size * 8

    # -- meters

    def execute_meter(self, statement: ir.ExecuteMeter) -> None:
        declared = self.packet.program.meters[statement.meter]
        with self._if_in_range(statement.index, declared.size) as index:
            meter_offset = self.b.mul(index, integer(WORD, METER_WORDS))
            meter = word(self.b, word(self.b, self.state, self.layout.meters[statement.meter]), meter_offset)
            self.packet.store(statement.target, self.execute_meter_at(meter, declared.counts_bytes))

    def execute_meter_at(self, meter: llvm.Value, counts_bytes: bool) -> llvm.Value:
        length = resize(self.b, self.packet.get("ingress_length"), WORD)
        amount = length if counts_bytes else integer(WORD, 1)
        return self.b.call(meter_function(self.b.module), [meter, self.now, amount])

    # -- hash and random

    def hash(self, statement: ir.Hash) -> None:
        b, arithmetic = self.b, self.packet.arithmetic
        hash_value = self.calculations.emit(statement.calculation)
        size = arithmetic.modulo(statement.size, WORD)
        # A size of 0 counts as 1, for which the result is `base`.
        size = b.select(b.icmp_unsigned("==", size, integer(WORD, 0)), integer(WORD, 1), size)
        value = b.add(b.urem(hash_value, size), arithmetic.modulo(statement.base, WORD))
        self.packet.store(statement.target, value)

    def random(self, statement: ir.Random) -> None:
        """Store a random number from `low` to `high`, by splitmix64 (`hashing`)."""
        b, arithmetic = self.b, self.packet.arithmetic
        low, high = (arithmetic.modulo(bound, WORD) for bound in (statement.low, statement.high))
        with b.if_then(b.icmp_unsigned("<=", low, high)):
            address = word(b, self.state, self.layout.random)
            mixed = b.add(b.load(address, typ=I64), integer(WORD, GOLDEN_RATIO))
            b.store(mixed, address)
            for shift, factor in SPLITMIX_STEPS:
                mixed = b.mul(b.xor(mixed, b.lshr(mixed, integer(WORD, shift))), integer(WORD, factor))
            mixed = b.xor(mixed, b.lshr(mixed, integer(WORD, SPLITMIX_LAST_SHIFT)))
            count = b.add(b.sub(high, low), integer(WORD, 1))
            # Scaling avoids a division. `count` is 0 for the full range, which has 2^64 numbers.
            product = target_of(b.module).multiply(b, resize(b, mixed, 2 * WORD), resize(b, count, 2 * WORD))
            scaled = resize(b, b.lshr(product, integer(2 * WORD, WORD)), WORD)
            is_full_range = b.icmp_unsigned("==", count, integer(WORD, 0))
            value = b.add(low, b.select(is_full_range, mixed, scaled))
            self.packet.store(statement.target, value)
