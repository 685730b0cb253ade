"""What agents are made of where there are servers only."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from foundation.designs.interface import Agents
from foundation.protocol.codec import Caller
from foundation.protocol.header import WINDOW
from hosts.keys import KeySpace
from hosts.none.ps import Holder, make_holder
from hosts.none.worker import make_requests
from hosts.ps.core import Core
from hosts.ps.store import Store
from hosts.worker.client import BaseClient
from hosts.worker.machine import COMPILED, Machine
from hosts.worker.replay import ReplayLog


class Client(BaseClient):
    """One worker's calls for one job; a replay log has nothing to keep."""

    def __init__(
        self, caller: Caller, n_ps: int, space: KeySpace, clock: Callable[[], int], window: int = WINDOW, *,
        largest: int | None = None, machine: Machine = COMPILED, log: ReplayLog | None = None,
    ) -> None:  # fmt: skip
        most = space.size if largest is None else largest
        state = make_requests(*caller, n_ps=n_ps, sparse=space.sparse, largest=most, window=window)
        super().__init__(state, clock, machine, log)


def _store(server: Holder, job: int, replayed: bool = False) -> Store:
    return Store(server, job)


def _core(
    ps: int, n_ps: int, space: KeySpace, epochs: Mapping[int, int], clock: Callable[[], int],
    as_plain: bool = False, *, journal_bytes: int = 0, replayed: bool = False, state: Holder | None = None,
) -> Core[tuple[str, int]]:  # fmt: skip
    made = state or make_holder(ps, n_ps, space, list(epochs))
    return Core(made, {job: Store(made, job) for job in epochs}, clock, as_plain)


AGENTS = Agents(Client, make_holder, _store, _core, "foundation.protocol.scapy_layer")
