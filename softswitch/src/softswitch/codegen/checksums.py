"""`verify_checksum` after the parser and `update_checksum` before the deparser."""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.calculations import Calculations
from softswitch.codegen.packet import Packet
from softswitch.llvmir import integer, resize
from softswitch.v1model import Standard


def emit_verify(packet: Packet, calculations: Calculations) -> None:
    """Set `checksum_error` if any checksum that applies does not match."""
    b = packet.b
    packet.store_standard(Standard.CHECKSUM_ERROR, integer(1, 0))
    for checksum in packet.program.verify:
        with b.if_then(_applies(packet, checksum)):
            expected = calculations.emit(checksum.calculation, valid=checksum.target.header)
            found = resize(b, packet.load(checksum.target), 64)
            with b.if_then(b.icmp_unsigned("!=", expected, found)):
                packet.store_standard(Standard.CHECKSUM_ERROR, integer(1, 1))


def emit_update(packet: Packet, calculations: Calculations) -> None:
    """Store every checksum that applies."""
    for checksum in packet.program.update:
        with packet.b.if_then(_applies(packet, checksum)):
            value = calculations.emit(checksum.calculation, valid=checksum.target.header)
            packet.store(checksum.target, value)


def _applies(packet: Packet, checksum: ir.Checksum) -> llvm.Value:
    """An `i1`: is the target there, and does the condition hold?"""
    valid = packet.is_valid(checksum.target.header)
    return packet.b.and_(valid, packet.arithmetic.truth(checksum.condition))
