"""`verify_checksum` behind the parser and `update_checksum` before the deparser. BMv2: checksums.cpp."""

from __future__ import annotations

from softswitch import ir
from softswitch.interpreter.calculations import calculate
from softswitch.interpreter.expressions import UINT64, evaluate
from softswitch.interpreter.packet import Packet


def verify_checksums(packet: Packet) -> bool:
    """All checksums to verify are right, or their header is invalid or their condition does not hold."""
    return all(_matches(packet, checksum) for checksum in packet.program.verify)


def _matches(packet: Packet, checksum: ir.Checksum) -> bool:
    if not _applies(packet, checksum):
        return True
    expected = calculate(packet, packet.program.calculations[checksum.calculation])
    packet.observer.verified(packet, checksum, expected)
    return expected == packet.get(checksum.target) & UINT64


def update_checksums(packet: Packet) -> None:
    """Store the checksums to update, in order."""
    for checksum in packet.program.update:
        if _applies(packet, checksum):
            calculation = packet.program.calculations[checksum.calculation]
            packet.set(checksum.target, calculate(packet, calculation))
            packet.observer.updated(packet, checksum)


def _applies(packet: Packet, checksum: ir.Checksum) -> bool:
    return packet.valid[checksum.target.header] and bool(evaluate(packet, checksum.condition))
