"""Digests and log records as the packet function writes them (`memory.output`)."""

from __future__ import annotations

from softswitch import ir
from softswitch.memory.output import DIGEST, LOG, read_values
from softswitch.messages import format_message
from softswitch.pipeline import DigestMessage, LogRecord, Notice


def is_notice(kind: int) -> bool:
    """Whether a record is not a frame."""
    return kind >= LOG


def decode_notice(program: ir.Program, kind: int, data: bytes) -> Notice:
    """A record that is not a frame."""
    values = read_values(data)
    if kind & DIGEST:
        return DigestMessage(kind ^ DIGEST, tuple(values))
    message = kind ^ LOG
    return LogRecord(format_message(program.messages[message], values), message in program.assertions)
