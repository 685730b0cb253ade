"""The interface of a server to its sockets: a compiled state machine with a part in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from foundation.optimisers import TableOptimiser
from hosts.agent_config import AgentConfigError
from hosts.keys import KeySpace
from hotline_agents.interface import Agents
from hotline_agents.ps.rpc_server import RpcServer
from hotline_agents.ps.rpcs import JobsState
from hotline_agents.ps.store import SharedState, Store
from hotline_agents.worker.client import BaseClient

ReplyTo = TypeVar("ReplyTo")


class ServerCore(Generic[ReplyTo]):
    """A server and its parameters by job, without RPCs of its own, controller commands or persistence."""

    def __init__(
        self, state: JobsState, stores: Mapping[int, Store], clock: Callable[[], int], as_plain: bool = False
    ) -> None:
        self.ps = int(state.header.ps)
        self.server = RpcServer(state, clock, as_plain)
        self.stores = stores

    def command(self, datagram: bytes | memoryview, source: ReplyTo | None) -> None:
        """Handle a CONTROL datagram from `source`; None replays it from the journal, without an answer."""
        self.server.count_misdirected()  # servers with commands override this method

    def receive_rpc_answer(self, datagram: bytes | memoryview, read: int) -> None:
        """Handle a datagram, read at `read` (ns), at the port of the server's own RPCs."""
        self.server.count_misdirected()  # servers with RPCs of their own override this method

    def switch_epoch(self, job: int, home: int = 0) -> int:
        """Return the epoch of this server, for a job, as a caller of the switch."""
        raise AgentConfigError("expected a design with a controller: the servers of this one have no epochs")

    def transmit(self) -> Iterator[memoryview]:
        """Yield the server's own RPCs, to be sent to its service address at once."""
        return iter(())

    def control_answers(self) -> Iterator[tuple[bytes, ReplyTo]]:
        """Yield answers to the controller with their destinations, to be sent at once."""
        return iter(())

    def deadline(self) -> int | None:
        """Return when `wake` is due next, in ns, or None."""
        return None

    def wake(self, now: int) -> None: ...

    @property
    def is_idle(self) -> bool:
        """Whether no command is in progress, so that a checkpoint can be taken."""
        return True

    def checkpoint(self) -> Iterator[tuple[str, bytes]]:
        """Yield the names and contents of a checkpoint; the server must be idle."""
        return iter(())

    def recover(self, parts: Mapping[str, bytes], journal: Iterable[bytes]) -> int:
        """Restore the state from a checkpoint and the notes of a journal; return the number of notes."""
        raise AgentConfigError("expected a durable design: the servers of this design cannot be restored")

    @property
    def malformed(self) -> int:
        """Number of datagrams that were not valid RPCs."""
        return self.server.malformed


C = TypeVar("C", bound=BaseClient)


def make_agents(
    client: Callable[..., C], make_state: Callable[..., SharedState]
) -> Agents[C, SharedState, Store, ServerCore[tuple[str, int]]]:
    """Return the agents of a design whose servers have no journal."""

    def make_core(
        ps: int, n_ps: int, space: KeySpace, epochs: Mapping[int, int], clock: Callable[[], int],
        as_plain: bool = False, *, journal_bytes: int = 0, has_replay_logs: bool = False,
        state: SharedState | None = None, tables: Sequence[TableOptimiser] = (),
    ) -> ServerCore[tuple[str, int]]:  # fmt: skip
        server_state = state or make_state(ps, n_ps, space, list(epochs), journal_bytes, tables)
        return ServerCore(server_state, {job: Store(server_state, job) for job in epochs}, clock, as_plain)

    return Agents(client, make_state, Store, make_core)
