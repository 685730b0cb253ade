"""What agents are made of in SwitchML."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from foundation.designs.interface import Agents
from hosts.keys import KeySpace
from hosts.ps.core import Core
from hosts.ps.store import Store
from hosts.switchml.client import Client
from hosts.switchml.server import Bystander, make_bystander


def _store(server: Bystander, job: int, replayed: bool = False) -> Store:
    return Store(server, job)


def _core(
    ps: int, n_ps: int, space: KeySpace, epochs: Mapping[int, int], clock: Callable[[], int],
    as_plain: bool = False, *, journal_bytes: int = 0, replayed: bool = False, state: Bystander | None = None,
) -> Core[tuple[str, int]]:  # fmt: skip
    made = state or make_bystander(ps, n_ps, space, list(epochs))
    return Core(made, {job: Store(made, job) for job in epochs}, clock, as_plain)


AGENTS = Agents(Client, make_bystander, _store, _core, "hosts.switchml.scapy_layer")
