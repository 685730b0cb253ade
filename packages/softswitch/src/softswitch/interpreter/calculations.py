"""Hashes and checksums over fields and payload. BMv2: calculations.cpp, checksums.cpp."""

from __future__ import annotations

from softswitch import ir
from softswitch.interpreter.expressions import UINT64, evaluate
from softswitch.interpreter.packet import Packet


def calculate(packet: Packet, calculation: ir.Calculation) -> int:
    """Hash the inputs with valid headers, concatenated and zero-padded to whole bytes, and the payload."""
    joined_bits, width = 0, 0
    for part in calculation.inputs:
        bits, part_width = _input_bits(packet, part)
        joined_bits, width = joined_bits << part_width | bits, width + part_width
    padding = -width % 8
    data = (joined_bits << padding).to_bytes((width + padding) // 8, "big")
    data += packet.payload if calculation.payload else b""
    value = calculation.function(data)
    packet.observer.calculated(packet, calculation, data, value)
    return value


def _input_bits(packet: Packet, part: ir.CalculationInput) -> tuple[int, int]:
    match part:
        case ir.SizedConstant(value, width):
            return value & ((1 << width) - 1), width
        case ir.FieldRef(header, _) if packet.valid[header]:
            return packet.bits(part), packet.width(part)
        case ir.WholeHeader(header) if packet.valid[header]:
            return packet.header_value(header), packet.header_bits(header)
    return 0, 0


# -- checksums


def verify_checksums(packet: Packet) -> bool:
    return all(_checksum_matches(packet, checksum) for checksum in packet.program.verify)


def _checksum_matches(packet: Packet, checksum: ir.Checksum) -> bool:
    if not _is_enabled(packet, checksum):
        return True
    expected = calculate(packet, packet.program.calculations[checksum.calculation])
    packet.observer.verified(packet, checksum, expected)
    return expected == packet.get(checksum.target) & UINT64  # BMv2 compares 64-bit numbers


def update_checksums(packet: Packet) -> None:
    for checksum in packet.program.update:
        if _is_enabled(packet, checksum):
            calculation = packet.program.calculations[checksum.calculation]
            packet.set(checksum.target, calculate(packet, calculation))
            packet.observer.updated(packet, checksum)


def _is_enabled(packet: Packet, checksum: ir.Checksum) -> bool:
    return packet.valid[checksum.target.header] and bool(evaluate(packet, checksum.condition))
