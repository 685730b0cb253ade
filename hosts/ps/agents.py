"""The agents of designs whose servers keep no journal and need only their share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from foundation.designs.interface import Agents
from hosts.keys import KeySpace
from hosts.ps.core import Core
from hosts.ps.rpcs import JobsState
from hosts.ps.store import SharedState, Store
from hosts.worker.client import BaseClient


class AgentState(JobsState, SharedState, Protocol):
    """A server's state that has parameters and cost counters."""


def agents_of(client: Callable[..., BaseClient], make: Callable[..., AgentState], scapy: str) -> Agents:
    """Return the agents with a client class, and with `make` for the state of a server."""

    def core(
        ps: int, n_ps: int, space: KeySpace, epochs: Mapping[int, int], clock: Callable[[], int],
        as_plain: bool = False, *, journal_bytes: int = 0, replayed: bool = False,
        state: AgentState | None = None,
    ) -> Core[tuple[str, int]]:  # fmt: skip
        made = state or make(ps, n_ps, space, list(epochs))
        return Core(made, {job: Store(made, job) for job in epochs}, clock, as_plain)

    return Agents(client, make, _store, core, scapy)


def _store(server: AgentState, job: int, replayed: bool = False) -> Store:
    return Store(server, job)
