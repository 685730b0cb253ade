"""The streams of controllers, and the messages to them (P4Runtime 1.4 §5 and §16)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from grpc import StatusCode

from softswitch.messages import pluralize
from softswitch.p4runtime.arbitration import Arbiter, Notices
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import Refusal, denied

# What may wait for a controller that does not read, in messages and bytes: for packets, digests and
# notifications, which are dropped beyond, and again for answers to its own messages.
MAX_QUEUED_MESSAGES = 4096
MAX_QUEUED_BYTES = 32 << 20

log = logging.getLogger(__name__)


class Stream:
    """The messages that wait for one controller, until the stream is closed."""

    def __init__(self) -> None:
        self.lost_messages = 0
        self.is_closed = False
        self.refusal: Refusal | None = None
        """Why the switch has closed the stream; None if the controller has ended it."""
        self._responses: deque[tuple[_Backlog, p4r.StreamMessageResponse]] = deque()
        self._answers, self._messages = _Backlog(), _Backlog()
        self._has_response, self._has_room = asyncio.Event(), asyncio.Event()

    def send(self, response: p4r.StreamMessageResponse) -> None:
        """Add an answer, or an arbitration update, which must not be lost."""
        self._append(self._answers, response)

    def offer(self, response: p4r.StreamMessageResponse) -> bool:
        """Add a message unless too many wait; return whether it was added."""
        if self._messages.is_full():
            return False
        self._append(self._messages, response)
        return True

    def _append(self, backlog: _Backlog, response: p4r.StreamMessageResponse) -> None:
        if self.is_closed:
            return
        backlog.add(response)
        self._responses.append((backlog, response))
        self._has_response.set()

    def __len__(self) -> int:
        return len(self._responses)

    @property
    def has_unread_updates(self) -> bool:
        """Whether twice as many answers wait as the controller's own messages can cause."""
        return self._answers.is_full(times=2)

    async def wait_for_room(self) -> None:
        """Wait until the controller has read enough answers, so that its next message may cause another."""
        while self._answers.is_full() and not self.is_closed:
            self._has_room.clear()
            await self._has_room.wait()

    async def next_response(self) -> p4r.StreamMessageResponse | None:
        """Wait for the next message; None if the stream is closed, and all have been returned."""
        while (response := self.take()) is None and not self.is_closed:
            self._has_response.clear()
            await self._has_response.wait()
        return response

    def take(self) -> p4r.StreamMessageResponse | None:
        """Return the next message, or None if none waits."""
        if not self._responses:
            return None
        backlog, response = self._responses.popleft()
        backlog.remove(response)
        self._has_room.set()
        return response

    def close(self, refusal: Refusal | None = None) -> None:
        """Take no more messages; with a refusal, drop those that wait."""
        self.is_closed, self.refusal = True, self.refusal or refusal
        if refusal is not None:
            self._responses.clear()
        self._has_response.set()
        self._has_room.set()


class _Backlog:
    """The number and the bytes of messages of one kind that wait."""

    def __init__(self) -> None:
        self._count = self._bytes = 0

    def is_full(self, times: int = 1) -> bool:
        """Return whether `times` the maximum number or bytes of messages wait."""
        return self._count >= times * MAX_QUEUED_MESSAGES or self._bytes >= times * MAX_QUEUED_BYTES

    def add(self, response: p4r.StreamMessageResponse) -> None:
        self._count += 1
        self._bytes += response.ByteSize()

    def remove(self, response: p4r.StreamMessageResponse) -> None:
        self._count -= 1
        self._bytes -= response.ByteSize()


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
            if not stream.offer(response):
                self._count_lost_message(stream)

    def _count_lost_message(self, stream: Stream) -> None:
        if not stream.lost_messages:
            log.warning(
                "a controller reads too slowly: %d messages wait for it, further messages are dropped",
                len(stream),
            )
        stream.lost_messages += 1
        self.lost_messages += 1

    def _send_notices(self, notices: Notices[Stream]) -> None:
        for stream, response in notices:
            stream.send(response)
        for stream in {stream for stream, _ in notices if stream.has_unread_updates}:
            self._close_unread(stream)
        old_primaries, self._primaries = self._primaries, self._arbiter.primaries
        if self._primaries != old_primaries:
            self._on_primaries_changed()

    def _close_unread(self, stream: Stream) -> None:
        """Close the stream of a controller that does not read what the bids of others cause."""
        text = "the stream is closed: its arbitration updates are not read"
        log.warning("a controller does not read its arbitration updates; its stream is closed")
        stream.close(Refusal(StatusCode.RESOURCE_EXHAUSTED, text))
        self.leave(stream)
