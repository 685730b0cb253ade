"""The CPU port and the notices of a switch in virtual time, with the methods of sockets that are called."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

MAX_DATAGRAMS = 4096
"""Datagrams that may wait to be read; more are refused."""


class Datagrams:
    """A queue of datagrams to read (`recv`); what is sent goes to `take`."""

    def __init__(self, number: int, take: Callable[[bytes], object]) -> None:
        self._number, self._take = number, take
        self._waiting: deque[bytes] = deque()

    def fileno(self) -> int:
        return self._number

    def put(self, data: bytes) -> bool:
        """Add a datagram; return False if too many wait."""
        if len(self._waiting) == MAX_DATAGRAMS:
            return False
        self._waiting.append(data)
        return True

    def recv(self, size: int, flags: int = 0) -> bytes:
        if not self._waiting:
            raise BlockingIOError
        return self._waiting.popleft()[:size]

    def send(self, data: bytes, flags: int = 0) -> int:
        self._take(data)
        return len(data)
