"""What agents are made of where workers add up dense vectors in a ring."""

from __future__ import annotations

from collections.abc import Callable

from foundation.protocol.codec import Caller
from foundation.protocol.header import WINDOW
from hosts.dense.client import DenseClient
from hosts.keys import KeySpace
from hosts.ps.agents import agents_of
from hosts.ps.bystander import make_bystander
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


AGENTS = agents_of(RingClient, make_bystander, "hosts.dense.scapy_layer")
