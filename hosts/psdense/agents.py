"""What agents are made of where servers add up dense vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from foundation.designs.interface import Agents
from foundation.protocol.codec import Caller
from foundation.protocol.header import WINDOW
from hosts.dense.client import DenseClient
from hosts.keys import KeySpace
from hosts.ps.core import Core
from hosts.ps.store import Store
from hosts.psdense.server import Adder, make_adder
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


def _store(server: Adder, job: int, replayed: bool = False) -> Store:
    return Store(server, job)


def _core(
    ps: int, n_ps: int, space: KeySpace, epochs: Mapping[int, int], clock: Callable[[], int],
    as_plain: bool = False, *, journal_bytes: int = 0, replayed: bool = False, state: Adder | None = None,
) -> Core[tuple[str, int]]:  # fmt: skip
    made = state or make_adder(ps, n_ps, space, list(epochs))
    return Core(made, {job: Store(made, job) for job in epochs}, clock, as_plain)


AGENTS = Agents(PushClient, make_adder, _store, _core, "foundation.protocol.scapy_layer")
