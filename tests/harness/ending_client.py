"""A worker that ends the push of a killed one, in place of a client of its own."""

from __future__ import annotations

from foundation.protocol.header import PS_MASK, unpack
from hosts.succession import PredecessorPush
from tests.harness.faulty_loop import MS


class EndingClient:
    """The client of a worker that ends the push of a killed one, whose rank it takes."""

    malformed = 0
    idle = False
    _INTERVAL_NS = 100 * MS

    def __init__(self, push: PredecessorPush, now: int) -> None:
        self.push, self._due = push, now
        self._unsent: list[bytes] = []

    @property
    def is_done(self) -> bool:
        return not self.push.requests

    def transmit(self) -> tuple[memoryview, int] | None:
        if not self._unsent:
            return None
        datagram = self._unsent.pop()
        return memoryview(datagram), unpack(datagram).ps & PS_MASK

    def receive(self, datagram: bytes, arrival: int, read: int) -> None:
        self.push.receive(datagram)

    def deadline(self) -> int | None:
        return self._due

    def wake(self, now: int) -> None:
        if now >= self._due:
            self._due = now + self._INTERVAL_NS
            self._unsent = list(self.push.requests.values())
