"""CONTROL messages: `foundation.protocol.control` and Scapy must agree on each."""

from __future__ import annotations

from collections.abc import Hashable

from foundation.protocol import control
from foundation.protocol.control import Command, Status, build
from foundation.protocol.header import HEADER_BYTES
from hosts.scapy.packets import Hotline, HotlineControl
from tools.fuzz.datagrams import command
from tools.fuzz.target import Target


def run(data: bytes) -> Hashable:
    """Parse a datagram, and check that the one built from the result has the same content, also for Scapy."""
    found = control.parse(data)
    rebuilt = build(found)
    reparsed = control.parse(rebuilt)
    has_keys = not found.is_answer or found.values is not None or found.status is Status.STALE
    # The header has fields that a CONTROL does not use, and an answer without keys may have a key count,
    # which is not parsed.
    assert build(reparsed) == rebuilt and (rebuilt[HEADER_BYTES:] == data[HEADER_BYTES:] or not has_keys)
    assert (reparsed.identity, reparsed.command, reparsed.status) == (
        found.identity,
        found.command,
        found.status,
    )
    dissected = Hotline(rebuilt)
    body = dissected[HotlineControl]
    fields = body.code, body.status
    assert bytes(dissected) == rebuilt and fields == (found.command, found.status)
    if has_keys:
        assert body.keys == found.keys.tolist()
    if found.values is not None:
        assert body.values == found.values.tolist()
    return found.command, found.status, found.is_answer, min(len(found.keys), 2)


def seeds() -> list[bytes]:
    keys = {code: [1, 2**64 - 2] for code in Command} | {Command.HELLO: [], Command.RENEW: [8]}
    requests = [command(code, keys[code], 4) for code in Command]
    answers = [command(code, keys[code], 5, status) for code in Command for status in Status]
    return [*requests, *answers, command(Command.VALUES, list(range(control.MAX_VALUES_KEYS)), 6)]


TARGET = Target(
    "control", run, ("src/foundation/protocol/control.py", "src/foundation/protocol/header.py"), seeds
)
