"""Messages between the checker and a child process: JSON with a length before it.

Neither end trusts the other with more than values: a message is no code, and a verdict is never sent.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

# `Any`: values of JSON, which the reader of each message checks.
Message: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = Callable[[Message], Message]
"""Answers a request; an exception becomes an answer with an `error`."""
_LENGTH = struct.Struct("!I")
MAX_MESSAGE_BYTES = 4_000_000


class ChannelError(Exception):
    """The other end has closed the channel, or sent no message of this protocol."""


def send(descriptor: int, message: Message) -> None:
    """Write a message; raise `OSError` if the other end has closed, `ChannelError` if it is no JSON."""
    try:
        text = json.dumps(message).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ChannelError(f"expected values that JSON has: {error}") from None
    if len(text) > MAX_MESSAGE_BYTES:
        raise ChannelError(f"expected at most {MAX_MESSAGE_BYTES:,} bytes, got {len(text):,}")
    data = memoryview(_LENGTH.pack(len(text)) + text)
    while data:
        data = data[os.write(descriptor, data) :]


def receive(descriptor: int, wait: Callable[[], None] = lambda: None) -> Message:
    """Read a message; call `wait` before each read, which may raise."""
    (length,) = _LENGTH.unpack(_read(descriptor, _LENGTH.size, wait))
    if length > MAX_MESSAGE_BYTES:
        raise ChannelError(f"expected a message of at most {MAX_MESSAGE_BYTES:,} bytes, got {length:,}")
    try:
        message = json.loads(_read(descriptor, length, wait))
    except (ValueError, RecursionError):
        raise ChannelError("expected JSON") from None
    if not isinstance(message, dict):
        raise ChannelError(f"expected an object, got a {type(message).__name__}")
    return message


def _read(descriptor: int, length: int, wait: Callable[[], None]) -> bytes:
    data = b""
    while len(data) < length:
        wait()
        part = os.read(descriptor, length - len(data))
        if not part:
            raise ChannelError("closed")
        data += part
    return data
