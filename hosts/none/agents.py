"""What agents are made of where there are servers only."""

from __future__ import annotations

from collections.abc import Callable

from foundation.protocol.codec import Caller
from foundation.protocol.header import WINDOW
from hosts.keys import KeySpace
from hosts.none.ps import make_holder
from hosts.none.worker import make_requests
from hosts.ps.agents import agents_of
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


AGENTS = agents_of(Client, make_holder, "foundation.protocol.scapy_layer")
