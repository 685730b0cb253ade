"""Clients that add up vectors over a faulty network, to which subclasses add switch and servers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

from hotline_allreduce.dense.client import VectorClient
from tests.harness.faulty_loop import FaultyLoop, Message


class VectorLoop(FaultyLoop[Message]):
    @abstractmethod
    def cores(self) -> Sequence[VectorClient]: ...

    @abstractmethod
    def emit(self, sender: int, datagram: bytes, peer: int) -> None:
        """Put a datagram of a client on the wire, given by its place in `cores`."""

    def transmit(self) -> None:
        for sender, client in enumerate(self.cores()):
            for datagram, peer in iter(client.transmit, None):
                self.emit(sender, bytes(datagram), peer)

    def is_settled(self) -> bool:
        return all(client.idle for client in self.cores())

    def add_up(self, begun: Iterable[tuple[VectorClient, NDArray[Any], int]]) -> None:
        """Let clients begin, some before others, with a vector and a number of workers each; settle."""
        for client, vector, workers in begun:
            client.all_reduce(vector, workers)
            self.step()
        self.settle()
