"""The caller's half of exactly once: numbered slots, and retransmission on a measured timeout.

A slot is reused only after its RPC has been answered. All times are ns of one monotonic clock.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from foundation.protocol.header import WINDOW

MS = 1_000_000
Call = TypeVar("Call")


class RetransmissionTimer:
    """The timeout of RFC 6298. The caller obeys Karn's rule: it samples only RPCs that were sent once."""

    MIN, MAX = 20 * MS, 1000 * MS

    def __init__(self) -> None:
        self._smoothed = 0.0
        self._variation = 0.0
        self._backed_off_at = 0
        self.timeout = 5 * self.MIN
        """Current timeout in ns; a safe guess before the first sample."""

    def sample(self, round_trip: int) -> None:
        """Take one round trip (ns, RFC 6298 §2); this ends a back-off."""
        if self._smoothed:
            self._variation += (abs(self._smoothed - round_trip) - self._variation) / 4
            self._smoothed += (round_trip - self._smoothed) / 8
        else:
            self._smoothed = float(round_trip)
            self._variation = round_trip / 2
        self.timeout = min(max(int(self._smoothed + 4 * self._variation), self.MIN), self.MAX)

    def expired(self, sent: int, now: int) -> None:
        """Double the timeout, once for all RPCs that were under way together."""
        if sent >= self._backed_off_at:
            self._backed_off_at = now
            self.timeout = min(2 * self.timeout, self.MAX)


class Outstanding(Generic[Call]):
    __slots__ = ("attempts", "call", "deadline", "sent", "t0")

    def __init__(self, call: Call, now: int, deadline: int) -> None:
        self.call = call
        self.t0 = now
        """First transmission."""
        self.sent = now
        """Last transmission."""
        self.deadline = deadline
        self.attempts = 1


class Window(Generic[Call]):
    def __init__(self, size: int = WINDOW) -> None:
        self._free = [WINDOW + slot for slot in reversed(range(size))]
        self._outstanding: dict[int, Outstanding[Call]] = {}
        self.timer = RetransmissionTimer()

    def __len__(self) -> int:
        return len(self._outstanding)

    @property
    def is_open(self) -> bool:
        return bool(self._free)

    def issue(self, call: Call, now: int) -> int:
        """Take a slot for an RPC that is sent now; return its sequence number."""
        seq = self._free.pop()
        self._outstanding[seq] = Outstanding(call, now, now + self.timer.timeout)
        return seq

    def waits_for(self, call: Call) -> bool:
        return any(rpc.call is call for rpc in self._outstanding.values())

    def find(self, seq: int) -> Outstanding[Call] | None:
        return self._outstanding.get(seq)

    def close(self, seq: int, now: int) -> None:
        """Free the slot of an answered RPC for its next turn."""
        rpc = self._outstanding.pop(seq)
        if rpc.attempts == 1:
            self.timer.sample(now - rpc.t0)
        self._free.append(seq + WINDOW)

    def deadline(self) -> int | None:
        return min((rpc.deadline for rpc in self._outstanding.values()), default=None)

    def overdue(self, now: int) -> list[Call]:
        """Return the calls to send again, byte for byte as before."""
        late = [rpc for rpc in self._outstanding.values() if rpc.deadline <= now]
        for rpc in late:
            self.timer.expired(rpc.sent, now)
            rpc.sent = now
            rpc.attempts += 1
        for rpc in late:
            rpc.deadline = now + self.timer.timeout
        return [rpc.call for rpc in late]
