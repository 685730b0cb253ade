"""Digests and log records as the packet function writes them (`codegen.output`)."""

from __future__ import annotations

from softswitch import ir
from softswitch.codegen.output import DIGEST, LOG
from softswitch.messages import format_message
from softswitch.pipeline import DigestMessage, LogRecord, Notice


def is_notice(kind: int) -> bool:
    """Whether a record is not a frame."""
    return kind >= LOG


def decode_notice(program: ir.Program, kind: int, data: bytes) -> Notice:
    """A record that is not a frame."""
    values = _values(data)
    if kind & DIGEST:
        return DigestMessage(kind ^ DIGEST, tuple(values))
    message = kind ^ LOG
    return LogRecord(format_message(program.messages[message], values), message in program.assertions)


def _values(data: bytes) -> list[int]:
    values: list[int] = []
    at = 0
    while at < len(data):
        count = int.from_bytes(data[at : at + 8], "little", signed=True)
        end = at + 8 + 8 * abs(count)
        values.append(int.from_bytes(data[at + 8 : end], "little", signed=count < 0))
        at = end
    return values
