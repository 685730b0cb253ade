"""JSON lines over a Unix socket, between scripts' workers and the rendezvous."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from foundation.errors import HotlineError

Message = dict[str, Any]  # JSON

MAX_LINE_BYTES = 1 << 24
"""Largest line that the rendezvous reads, more than a declaration of 100,000 tables."""
_READ_BYTES = 1 << 16


class MessageTooLong(HotlineError):
    """A message that does not fit into a line; it has not been sent."""


def encode_line(message: Message) -> bytes:
    """Return a client's message as a line; raise `MessageTooLong` for one that is not read."""
    line = json.dumps(message).encode()
    if len(line) > MAX_LINE_BYTES:
        raise MessageTooLong(
            f"{message.get('cmd')}: expected a message of at most {MAX_LINE_BYTES:,} bytes, got {len(line):,}"
        )
    return line + b"\n"


async def read_lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes | None]:
    """Yield each line without its end, or None for one that is too long, whose bytes are dropped."""
    line, length = bytearray(), 0
    while chunk := await reader.read(_READ_BYTES):
        for number, piece in enumerate(chunk.split(b"\n")):
            if number:  # an end of a line precedes it
                yield bytes(line) if length <= MAX_LINE_BYTES else None
                line.clear()
                length = 0
            length += len(piece)
            if length <= MAX_LINE_BYTES:
                line += piece
            else:
                line.clear()


def send_line(writer: asyncio.StreamWriter, message: Message) -> None:
    if not writer.is_closing():
        writer.write(json.dumps(message).encode() + b"\n")
