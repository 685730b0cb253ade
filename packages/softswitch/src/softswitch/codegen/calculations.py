"""Emit hashes and checksums: gather inputs of valid headers into bytes (BMv2 `BufBuilder`), and hash them."""

from __future__ import annotations

from itertools import groupby

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.hashes import CARRY_FOLDS, hash_function
from softswitch.codegen.packet import Packet
from softswitch.codegen.wire import join, store_bits
from softswitch.errors import UnsupportedConstruct
from softswitch.hashing import InternetChecksum
from softswitch.llvmir import I8, I64, byte_offset, integer, resize
from softswitch.target import target_of
from softswitch.v1model import Standard

_MAX_PAYLOAD_BYTES = 1 << 16  # maximum bytes of payload in a calculation
Part = tuple[ir.FieldRef | ir.SizedConstant, int]  # with its width in bits


class Calculations:
    def __init__(self, packet: Packet) -> None:
        self.packet, self.b = packet, packet.b

    def emit(self, number: int, valid_header: int | None = None) -> llvm.Value:
        """Return the result as an `i64`; `valid_header` is known to be valid here."""
        calculation = self.packet.program.calculations[number]
        runs = [
            _InputRun(self.packet, header, parts, valid_header)
            for header, parts in self._parts_by_header(calculation)
        ]
        is_internet_checksum = isinstance(calculation.function, InternetChecksum) and not calculation.payload
        if is_internet_checksum and all(run.is_whole_words for run in runs):
            return self._sum_words(runs)
        return self._hash_bytes(calculation, runs)

    def _parts_by_header(self, calculation: ir.Calculation) -> list[tuple[int | None, list[Part]]]:
        parts: list[tuple[int | None, Part]] = []
        for item in calculation.inputs:
            match item:
                case ir.SizedConstant(_, width):
                    parts.append((None, (item, width)))
                case ir.FieldRef(header):
                    parts.append((self._header_to_check(header), (item, self.packet.program.width(item))))
                case ir.WholeHeader(header):
                    for field, declared in enumerate(self.packet.program.headers[header].fields):
                        part = (ir.FieldRef(header, field), declared.width)
                        parts.append((self._header_to_check(header), part))
        return [(header, [part for _, part in run]) for header, run in groupby(parts, key=lambda p: p[0])]

    def _header_to_check(self, header: int) -> int | None:
        return None if self.packet.program.headers[header].metadata else header

    # -- the Internet checksum without memory

    def _sum_words(self, runs: list[_InputRun]) -> llvm.Value:
        b = self.b
        total: llvm.Value = integer(64, 0)
        for run in runs:
            total = b.add(total, run.emit_sum())
        for _ in range(CARRY_FOLDS):
            total = b.add(b.and_(total, integer(64, 0xFFFF)), b.lshr(total, integer(64, 16)))
        return b.and_(b.not_(total), integer(64, 0xFFFF))

    # -- any algorithm over bytes

    def _hash_bytes(self, calculation: ir.Calculation, runs: list[_InputRun]) -> llvm.Value:
        b = self.b
        max_bits = sum(run.bits for run in runs)
        target = target_of(b.module)
        with b.goto_entry_block():
            # 8 spare bytes: the last byte may be partial, and an array must not be empty.
            size = max_bits // 8 + 8 + (_MAX_PAYLOAD_BYTES if calculation.payload else 0)
            buffer = target.reserve(b, llvm.ArrayType(I8, size))
        if all(run.is_whole_bytes for run in runs):
            end = buffer
            for run in runs:
                end = target.black_box(b, run.append(end))
        elif any(run.has_varbit for run in runs):
            construct = (
                f"calculation `{calculation.name}` over a varbit field and fields that are not whole bytes"
            )
            raise UnsupportedConstruct(construct, calculation.location)
        else:
            end = self._append_bits(runs, buffer, max_bits)
        if calculation.payload:
            end = self._append_payload(end)
        length = target.black_box(b, b.sub(b.ptrtoint(end, I64), b.ptrtoint(buffer, I64)))
        result = b.call(hash_function(b.module, calculation.function), [buffer, length])
        return resize(b, result, 64)

    def _append_bits(self, runs: list[_InputRun], buffer: llvm.Value, max_bits: int) -> llvm.Value:
        """Concatenate all bits into one integer, first bit most significant, and store it."""
        b, target = self.b, target_of(self.b.module)
        width = -(-max_bits // 8) * 8
        joined: llvm.Value = integer(width, 0)
        free_bits: llvm.Value = integer(width, width)
        for run in runs:
            remaining = b.sub(free_bits, integer(width, run.bits))
            with_run = b.or_(joined, target.shift(b, "shl", resize(b, run.concatenate(), width), remaining))
            present = run.is_present()
            joined = b.select(present, with_run, joined)
            free_bits = target.black_box(b, b.select(present, remaining, free_bits))
        store_bits(b, buffer, joined, width // 8)
        bits = b.sub(integer(64, width), resize(b, free_bits, 64))
        whole_bytes = b.lshr(b.add(bits, integer(64, 7)), integer(64, 3))  # rounded up
        return byte_offset(b, buffer, whole_bytes)

    def _append_payload(self, end: llvm.Value) -> llvm.Value:
        b, packet = self.b, self.packet
        cursor = packet.get("cursor")
        size = b.sub(packet.get("ingress_length"), cursor)
        for limit in (packet.get("truncated_length"), integer(32, _MAX_PAYLOAD_BYTES)):
            size = b.select(b.icmp_unsigned("<", size, limit), size, limit)
        size = resize(b, size, 64)
        packet.copy_bytes(end, byte_offset(b, packet.get("frame"), resize(b, cursor, 64)), size)
        return byte_offset(b, end, size)


class _InputRun:
    def __init__(
        self, packet: Packet, header: int | None, parts: list[Part], valid_header: int | None
    ) -> None:
        self.packet, self.b = packet, packet.b
        self.header = None if header == valid_header else header
        self.parts = parts
        self.bits = sum(width for _, width in parts)
        self.has_varbit = any(self._is_varbit(part) for part, _ in parts)

    def _is_varbit(self, part: ir.FieldRef | ir.SizedConstant) -> bool:
        return isinstance(part, ir.FieldRef) and self.packet.program.type_of(part).varbit

    @property
    def is_whole_bytes(self) -> bool:
        return self.bits % 8 == 0

    @property
    def is_whole_words(self) -> bool:
        return self.bits % 16 == 0 and not self.has_varbit

    def is_present(self) -> llvm.Value:
        return integer(1, 1) if self.header is None else self.packet.is_valid(self.header)

    def _load_values(self, parts: list[Part]) -> list[tuple[llvm.Value, int]]:
        return [
            (
                integer(width, part.value) if isinstance(part, ir.SizedConstant) else self.packet.load(part),
                width,
            )
            for part, width in parts
        ]

    def concatenate(self) -> llvm.Value:
        return join(self.b, self._load_values(self.parts))

    def emit_sum(self) -> llvm.Value:
        """Return the sum of the run's 16-bit words, or 0 if its header is invalid."""
        b = self.b
        total: llvm.Value = integer(64, 0)
        pending: list[tuple[llvm.Value, int]] = []
        for value in self._load_values(self.parts):
            pending.append(value)
            width = sum(w for _, w in pending)
            if width % 16 == 0:
                joined = join(b, pending)
                for shift in range(0, width, 16):
                    piece = b.lshr(joined, integer(width, shift)) if shift else joined
                    total = b.add(total, resize(b, resize(b, piece, 16), 64))
                pending = []
        return total if self.header is None else b.select(self.is_present(), total, integer(64, 0))

    def append(self, end: llvm.Value) -> llvm.Value:
        if self.header is None:
            return self._append_parts(end)
        b = self.b
        block_before = b.block
        with b.if_then(self.is_present()):
            appended = self._append_parts(end)
            block_inside = b.block
        new_end = b.phi(end.type)
        new_end.add_incoming(end, block_before)
        new_end.add_incoming(appended, block_inside)
        return new_end

    def _append_parts(self, end: llvm.Value) -> llvm.Value:
        pending: list[Part] = []
        for part, width in self.parts:
            if self._is_varbit(part):
                assert isinstance(part, ir.FieldRef)
                end = self.packet.append_varbit(part, self._store_parts(pending, end))
                pending = []
            else:
                pending.append((part, width))
        return self._store_parts(pending, end)

    def _store_parts(self, parts: list[Part], end: llvm.Value) -> llvm.Value:
        if not parts:
            return end
        size = sum(width for _, width in parts) // 8
        store_bits(self.b, end, join(self.b, self._load_values(parts)), size)
        return byte_offset(self.b, end, size)


# -- checksums


def emit_verify(packet: Packet, calculations: Calculations) -> None:
    b = packet.b
    packet.store_standard(Standard.CHECKSUM_ERROR, integer(1, 0))
    for checksum in packet.program.verify:
        with b.if_then(_emit_condition(packet, checksum)):
            expected = calculations.emit(checksum.calculation, valid_header=checksum.target.header)
            actual = resize(b, packet.load(checksum.target), 64)
            with b.if_then(b.icmp_unsigned("!=", expected, actual)):
                packet.store_standard(Standard.CHECKSUM_ERROR, integer(1, 1))


def emit_update(packet: Packet, calculations: Calculations) -> None:
    for checksum in packet.program.update:
        with packet.b.if_then(_emit_condition(packet, checksum)):
            value = calculations.emit(checksum.calculation, valid_header=checksum.target.header)
            packet.store(checksum.target, value)


def _emit_condition(packet: Packet, checksum: ir.Checksum) -> llvm.Value:
    valid = packet.is_valid(checksum.target.header)
    return packet.b.and_(valid, packet.arithmetic.truth(checksum.condition))
