"""The loop of the testbeds of lockstep designs, over a network that loses, doubles and reorders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

from hotline_allreduce.dense.client import VectorClient

MS = 1_000_000
Message = TypeVar("Message")


class FaultyLoop(ABC, Generic[Message]):
    """Clients that add up vectors over a network, to which subclasses add switch and servers.

    `loss`, `doubling` and `reordering` are probabilities: that a message is lost, that it comes `extra` more
    times, and that the next one to arrive is any, and not the oldest.
    """

    def __init__(
        self, seed: int, *, loss: float = 0.0, doubling: float = 0.0, extra: int = 1, reordering: float = 0.0
    ) -> None:
        self.random, self.now = Random(seed), 0
        self.wire: list[Message] = []
        self._loss, self._doubling, self._extra, self._reordering = loss, doubling, extra, reordering

    @property
    @abstractmethod
    def all_clients(self) -> Sequence[VectorClient]: ...

    @abstractmethod
    def emit(self, sender: int, datagram: bytes, peer: int) -> None:
        """Put a datagram of a client on the wire, given by its place in `all_clients`."""

    @abstractmethod
    def arrive(self, message: Message) -> None: ...

    def add_up(self, begun: Iterable[tuple[VectorClient, NDArray[Any], int]]) -> None:
        """Let clients begin, some before others, with a vector and a number of workers each; settle."""
        for client, vector, workers in begun:
            client.all_reduce(vector, workers)
            self.step()
        self.settle()

    def settle(self) -> None:
        while not all(client.idle for client in self.all_clients):
            self.step()

    def step(self) -> None:
        """Send all datagrams that are ready; then deliver one message, or let time pass."""
        for sender, client in enumerate(self.all_clients):
            for datagram, peer in iter(client.transmit, None):
                self.emit(sender, bytes(datagram), peer)
        if not self.wire:
            self.now += 5 * MS
            for client in self.all_clients:
                client.wake(self.now)
            return
        at = self.random.randrange(len(self.wire)) if self.random.random() < self._reordering else 0
        self.arrive(self.wire.pop(at))

    def put(self, message: Message) -> None:
        chance = self.random.random()
        if chance >= self._loss:
            self.wire.append(message)
        if chance > 1 - self._doubling:
            self.wire += [message] * self._extra
