"""What agents are made of where workers add up dense vectors in a ring."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from foundation.designs.interface import Agents
from foundation.protocol.codec import Caller
from foundation.protocol.header import WINDOW
from hosts.dense.client import DenseClient
from hosts.keys import KeySpace
from hosts.ps.core import Core
from hosts.ps.store import Store
from hosts.ring.onlooker import Onlooker, make_onlooker
from hosts.ring.state import make_member
from hosts.worker.machine import COMPILED, Machine
from hosts.worker.replay import ReplayLog


class RingClient(DenseClient):
    """One worker's calls for one job, between the worker before it and the next."""

    least_workers = 2

    def __init__(
        self, caller: Caller, n_ps: int, space: KeySpace, clock: Callable[[], int], window: int = WINDOW, *,
        largest: int | None = None, machine: Machine = COMPILED, log: ReplayLog | None = None,
    ) -> None:  # fmt: skip
        most = space.size if largest is None else largest
        state = make_member(*caller, n_ps=n_ps, size=space.size, largest=most, window=window)
        super().__init__(state, clock, machine, log)


def _store(server: Onlooker, job: int, replayed: bool = False) -> Store:
    return Store(server, job)


def _core(
    ps: int, n_ps: int, space: KeySpace, epochs: Mapping[int, int], clock: Callable[[], int],
    as_plain: bool = False, *, journal_bytes: int = 0, replayed: bool = False, state: Onlooker | None = None,
) -> Core[tuple[str, int]]:  # fmt: skip
    made = state or make_onlooker(ps, n_ps, space, list(epochs))
    return Core(made, {job: Store(made, job) for job in epochs}, clock, as_plain)


AGENTS = Agents(RingClient, make_onlooker, _store, _core, "foundation.protocol.scapy_layer")
