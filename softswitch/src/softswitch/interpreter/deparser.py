"""The deparser: valid headers in order, then what the parser did not take. BMv2: deparser.cpp."""

from __future__ import annotations

from collections.abc import Callable

from softswitch import ir
from softswitch.interpreter.checksums import update_checksums
from softswitch.interpreter.packet import Packet


def deparse(packet: Packet, execute: Callable[[Packet, ir.Statement], None]) -> bytes:
    """The frame, of which nothing is truncated yet; `execute` runs a statement."""
    update_checksums(packet)
    packet.observer.deparses(packet)
    for statement in packet.program.deparser_body:
        execute(packet, statement)
        packet.observer.executed(packet, statement)
    headers = (packet.header_bytes(header) for header in packet.program.deparser if packet.valid[header])
    frame = b"".join(headers) + packet.frame[packet.position :]
    packet.observer.deparsed(packet, frame)
    return frame


def largest_frame(packet: Packet) -> int:
    """Bytes of the frame if all headers were valid and at their longest."""
    headers = sum(packet.program.headers[header].most_bytes for header in packet.program.deparser)
    return headers + len(packet.frame) - packet.position
