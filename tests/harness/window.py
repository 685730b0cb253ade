"""The caller's half of exactly once: numbered slots, and retransmission on a measured timeout.

A slot is reused only after its RPC has been answered, so the receivers need to remember one turn a slot.
All times are ns of one monotonic clock.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from foundation.protocol.header import WINDOW

MS = 1_000_000
Call = TypeVar("Call")


class RetransmissionTimer:
    """The timeout of RFC 6298, with Karn's rule left to the caller: sample only what was sent once.

    `minimum` rides out a descheduled process; the standard's 1 s is for the Internet.
    """

    def __init__(self, minimum: int = 20 * MS, maximum: int = 1000 * MS) -> None:
        self._minimum = minimum
        self._maximum = maximum
        self._smoothed = 0.0
        self._variation = 0.0
        self._backed_off_at = 0
        self.timeout = 5 * minimum
        """Current timeout, ns; before the first sample a guess on the safe side."""

    def sample(self, round_trip: int) -> None:
        """Take in one round trip, ns (RFC 6298 §2); ends a back-off."""
        if self._smoothed:
            self._variation += (abs(self._smoothed - round_trip) - self._variation) / 4
            self._smoothed += (round_trip - self._smoothed) / 8
        else:
            self._smoothed = float(round_trip)
            self._variation = round_trip / 2
        self.timeout = min(max(int(self._smoothed + 4 * self._variation), self._minimum), self._maximum)

    def expired(self, sent: int, now: int) -> None:
        """An RPC sent at `sent` timed out: double the timeout, once for all that were on the way together."""
        if sent >= self._backed_off_at:
            self._backed_off_at = now
            self.timeout = min(2 * self.timeout, self._maximum)


class Outstanding(Generic[Call]):
    """One RPC that waits for its answer."""

    __slots__ = ("attempts", "call", "deadline", "sent", "t0")

    def __init__(self, call: Call, now: int, deadline: int) -> None:
        self.call = call
        """What the caller knows about it, the datagram included."""
        self.t0 = now
        """First transmission."""
        self.sent = now
        """Last transmission."""
        self.deadline = deadline
        self.attempts = 1


class Window(Generic[Call]):
    """Slots of one caller (job, worker, epoch), at most `size` of them in use at once."""

    def __init__(self, size: int = WINDOW, timer: RetransmissionTimer | None = None) -> None:
        if not 1 <= size <= WINDOW:
            raise ValueError(f"window is {size}, not 1..{WINDOW}")
        self._free = [WINDOW + slot for slot in reversed(range(size))]
        self._outstanding: dict[int, Outstanding[Call]] = {}
        self.timer = timer or RetransmissionTimer()

    def __len__(self) -> int:
        return len(self._outstanding)

    @property
    def is_open(self) -> bool:
        """Another RPC may be issued."""
        return bool(self._free)

    def issue(self, call: Call, now: int) -> int:
        """Take a slot for an RPC that is sent now; returns its sequence number."""
        seq = self._free.pop()
        self._outstanding[seq] = Outstanding(call, now, now + self.timer.timeout)
        return seq

    def find(self, seq: int) -> Outstanding[Call] | None:
        """The RPC that waits under this number, if one does."""
        return self._outstanding.get(seq)

    def close(self, seq: int, now: int) -> None:
        """The RPC was answered: its slot is free for the next turn."""
        rpc = self._outstanding.pop(seq)
        if rpc.attempts == 1:
            self.timer.sample(now - rpc.t0)
        self._free.append(seq + WINDOW)

    def deadline(self) -> int | None:
        """When the next retransmission is due, or None."""
        return min((rpc.deadline for rpc in self._outstanding.values()), default=None)

    def overdue(self, now: int) -> list[Call]:
        """Calls whose datagrams are to be sent again, byte for byte as before, at `now`."""
        late = [rpc for rpc in self._outstanding.values() if rpc.deadline <= now]
        for rpc in late:
            self.timer.expired(rpc.sent, now)
            rpc.sent = now
            rpc.attempts += 1
        for rpc in late:
            rpc.deadline = now + self.timer.timeout
        return [rpc.call for rpc in late]
