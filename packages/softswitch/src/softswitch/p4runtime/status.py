"""Refusals of the P4Runtime server: a canonical code and one clear line (P4Runtime 1.4 §10)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TypeVar

from grpc import StatusCode

from softswitch.errors import SwitchError
from softswitch.p4runtime.messages import Context

log = logging.getLogger(__name__)
T = TypeVar("T")
MAX_MESSAGE_BYTES = 1024
"""Size of a status message: clients accept 8 KiB of headers, and any byte may be sent as three."""
_CUT = "..."


class Refusal(SwitchError):
    """The error code and message that answer a request, or one update or query of a batch."""

    def __init__(self, code: StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code

    def without_traceback(self) -> Refusal:
        """Return this refusal as a result that may be stored.

        The frames of its traceback would refer to the pipeline, and to what the refusal is stored in.
        """
        return self.with_traceback(None)

    @property
    def canonical_code(self) -> int:
        return int(self.code.value[0])


def invalid(message: str) -> Refusal:
    return Refusal(StatusCode.INVALID_ARGUMENT, message)


def unimplemented(message: str) -> Refusal:
    return Refusal(StatusCode.UNIMPLEMENTED, message)


def internal_error(error: Exception) -> Refusal:
    """Return the refusal of an update that failed by a fault of the switch; the log gets the traceback."""
    log.error("an update failed and was undone", exc_info=error)
    return Refusal(StatusCode.INTERNAL, f"the switch failed, and undid the update: {error!r}")


def find_by_id(objects: Mapping[int, T], object_id: int, kind: str) -> T:
    if object_id not in objects:
        raise invalid(f"no {kind} has ID {object_id}")
    return objects[object_id]


def denied(message: str) -> Refusal:
    return Refusal(StatusCode.PERMISSION_DENIED, message)


def shorten(text: str, max_bytes: int) -> str:
    """Return a text of at most `max_bytes` bytes in UTF-8; "..." marks what is cut out, before its end."""
    data = text.encode()
    if len(data) <= max_bytes:
        return text
    text_bytes = max(0, max_bytes - len(_CUT))
    head, tail = text_bytes - text_bytes // 4, text_bytes // 4
    parts = data[:head], data[len(data) - tail :]
    begin, end = (part.decode(errors="ignore") for part in parts)
    return f"{begin}{_CUT}{end}" if text_bytes else ""


async def abort(context: Context, code: StatusCode, message: str) -> None:
    """Abort a call; a message that gRPC's clients would not accept is cut."""
    await context.abort(code, shorten(message, MAX_MESSAGE_BYTES))
