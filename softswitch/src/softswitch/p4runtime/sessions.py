"""The streams of controllers, and the messages to them (P4Runtime 1.4 §5 and §16)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from softswitch.messages import pluralize
from softswitch.p4runtime.arbitration import Arbiter, Notices
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import denied

# Messages that wait for a controller; further packets, digests and notifications are dropped.
MAX_QUEUED_MESSAGES = 4096

log = logging.getLogger(__name__)


class Stream:
    def __init__(self) -> None:
        self.response_queue: asyncio.Queue[p4r.StreamMessageResponse] = asyncio.Queue()
        self.lost_messages = 0

    def send(self, response: p4r.StreamMessageResponse) -> None:
        self.response_queue.put_nowait(response)


class Sessions:
    def __init__(self, device_id: int, on_primaries_changed: Callable[[], None]) -> None:
        self._arbiter: Arbiter[Stream] = Arbiter(device_id)
        self._on_primaries_changed = on_primaries_changed
        self._primaries: list[Stream] = []
        self.lost_messages = 0

    def update(self, stream: Stream, message: p4r.MasterArbitrationUpdate) -> None:
        self._send_notices(self._arbiter.update(stream, message))

    def leave(self, stream: Stream) -> None:
        if stream.lost_messages:
            messages = pluralize(stream.lost_messages, "message")
            log.warning("dropped %s for a controller that reads too slowly", messages)
        self._send_notices(self._arbiter.leave(stream))

    def check_write(self, role: str, election_id: int | None) -> None:
        self._arbiter.check_write(role, election_id)

    def check_primary(self, stream: Stream, operation: str) -> None:
        if not self._arbiter.is_primary(stream):
            raise denied(f"{operation} is for the primary controller only")

    def broadcast(self, response: p4r.StreamMessageResponse) -> None:
        """Send to each primary controller; where its queue is full, drop and count the message."""
        for stream in self._primaries:
            if stream.response_queue.qsize() < MAX_QUEUED_MESSAGES:
                stream.send(response)
            else:
                self._count_lost_message(stream)

    def _count_lost_message(self, stream: Stream) -> None:
        if not stream.lost_messages:
            log.warning(
                "a controller reads too slowly: %d messages wait for it, further messages are dropped",
                MAX_QUEUED_MESSAGES,
            )
        stream.lost_messages += 1
        self.lost_messages += 1

    def _send_notices(self, notices: Notices[Stream]) -> None:
        for stream, response in notices:
            stream.send(response)
        old_primaries, self._primaries = self._primaries, self._arbiter.primaries
        if self._primaries != old_primaries:
            self._on_primaries_changed()
