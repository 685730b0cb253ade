"""What agents are made of where servers add up dense vectors."""

from __future__ import annotations

from collections.abc import Callable

from foundation.protocol.codec import Caller
from foundation.protocol.header import WINDOW
from hosts.dense.client import DenseClient
from hosts.keys import KeySpace
from hosts.ps.agents import agents_of
from hosts.psdense.server import make_adder
from hosts.psdense.worker import make_pusher
from hosts.worker.machine import COMPILED, Machine
from hosts.worker.replay import ReplayLog


class PushClient(DenseClient):
    """One worker's calls for one job, to servers that add up."""

    def __init__(
        self, caller: Caller, n_ps: int, space: KeySpace, clock: Callable[[], int], window: int = WINDOW, *,
        largest: int | None = None, machine: Machine = COMPILED, log: ReplayLog | None = None,
    ) -> None:  # fmt: skip
        most = space.size if largest is None else largest
        state = make_pusher(*caller, n_ps=n_ps, size=space.size, largest=most, window=window)
        super().__init__(state, clock, machine, log)


AGENTS = agents_of(PushClient, make_adder, "hosts.dense.scapy_layer")
