"""A server with what Python does for it, as its sockets see it. Designs add what only theirs do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from hosts.errors import AgentConfigError
from hosts.ps.rpcs import JobsState
from hosts.ps.server import RpcServer
from hosts.ps.store import Store

ReplyTo = TypeVar("ReplyTo")


class Core(Generic[ReplyTo]):
    """The server and its parameters, by job; it sends no RPCs of its own, hears no controller, and keeps
    nothing."""

    def __init__(
        self, state: JobsState, stores: Mapping[int, Store], clock: Callable[[], int], as_plain: bool = False
    ) -> None:
        self.ps = int(state.header.ps)
        self.server = RpcServer(state, clock, as_plain)
        self.stores = stores

    def command(self, datagram: bytes | memoryview, source: ReplyTo | None) -> None:
        """A datagram that is the controller's."""
        self.server.count_misdirected()

    def receive_own(self, datagram: bytes | memoryview, read: int) -> None:
        """A datagram at the port of the server's own RPCs."""
        self.server.count_misdirected()

    def transmit(self) -> Iterator[memoryview]:
        """RPCs of its own to be sent at once, to its service address."""
        return iter(())

    def control_answers(self) -> Iterator[tuple[bytes, ReplyTo]]:
        """Answers to the controller to be sent at once, and to whom."""
        return iter(())

    def deadline(self) -> int | None:
        """When `wake` is due next, or None."""
        return None

    def wake(self, now: int) -> None:
        """Send again what is overdue."""

    @property
    def is_idle(self) -> bool:
        """No command is under way, so that a checkpoint can be made."""
        return True

    def checkpoint(self) -> Iterator[tuple[str, bytes]]:
        """All that it is, if it is idle."""
        return iter(())

    def recover(self, parts: Mapping[str, bytes], journal: Iterable[bytes]) -> int:
        """Be what one was that has kept these; returns how many notes there were."""
        raise AgentConfigError("servers of this design keep nothing that one could be restored from")

    @property
    def malformed(self) -> int:
        """Datagrams that were no RPCs."""
        return self.server.malformed
