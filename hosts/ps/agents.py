"""What agents are made of in designs whose servers keep no journal and are told nothing but their share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from foundation.designs.interface import Agents
from hosts.keys import KeySpace
from hosts.ps.core import Core
from hosts.ps.store import Store


def agents_of(client: Callable[..., Any], make: Callable[..., Any], scapy: str) -> Agents:
    """Of the class of a client, and what makes a server's state: (ps, n_ps, space, jobs)."""

    def core(
        ps: int, n_ps: int, space: KeySpace, epochs: Mapping[int, int], clock: Callable[[], int],
        as_plain: bool = False, *, journal_bytes: int = 0, replayed: bool = False, state: Any = None,
    ) -> Core[tuple[str, int]]:  # fmt: skip
        made = state or make(ps, n_ps, space, list(epochs))
        return Core(made, {job: Store(made, job) for job in epochs}, clock, as_plain)

    return Agents(client, make, _store, core, scapy)


def _store(server: Any, job: int, replayed: bool = False) -> Store:
    return Store(server, job)
