"""The Internet checksum (RFC 1071), verified after the parser and updated before the deparser."""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.packet import Packet
from softswitch.codegen.values import integer, resize
from softswitch.codegen.wire import join

SUM_BITS = 64


def emit_verify(packet: Packet) -> None:
    """Set `checksum_error` if any checksum whose condition holds does not match."""
    b = packet.b
    wrong: llvm.Value = integer(1, 0)
    for checksum in packet.program.verify:
        differs = b.icmp_unsigned(
            "!=", _csum16(packet, checksum), resize(b, packet.load(checksum.target), 16)
        )
        wrong = b.or_(wrong, b.and_(_applies(packet, checksum), differs))
    packet.store_standard("checksum_error", wrong)


def emit_update(packet: Packet) -> None:
    """Store every checksum whose condition holds."""
    for checksum in packet.program.update:
        with packet.b.if_then(_applies(packet, checksum)):
            packet.store(checksum.target, _csum16(packet, checksum))


def _applies(packet: Packet, checksum: ir.Checksum) -> llvm.Value:
    valid = packet.is_valid(checksum.target.header)
    return packet.b.and_(valid, packet.arithmetic.truth(checksum.condition))


def _csum16(packet: Packet, checksum: ir.Checksum) -> llvm.Value:
    b = packet.b
    total: llvm.Value = integer(SUM_BITS, 0)
    pending: list[tuple[llvm.Value, int]] = []
    for part, width in zip(checksum.inputs, checksum.input_widths, strict=True):
        pending.append((packet.arithmetic.modulo(part, width), width))
        if sum(w for _, w in pending) % 16 == 0:
            total = _add_words(b, total, join(b, pending))
            pending = []
    if pending:
        total = _add_words(b, total, join(b, [*pending, (integer(8, 0), 8)]))
    for _ in range(3):
        total = b.add(b.and_(total, integer(SUM_BITS, 0xFFFF)), b.lshr(total, integer(SUM_BITS, 16)))
    return resize(b, b.not_(total), 16)


def _add_words(b: llvm.IRBuilder, total: llvm.Value, value: llvm.Value) -> llvm.Value:
    width = value.type.width
    for shift in range(0, width, 16):
        piece = b.lshr(value, integer(width, shift)) if shift else value
        total = b.add(total, resize(b, resize(b, piece, 16), SUM_BITS))
    return total
