"""After quiescing: what workers sent is what parameter servers and switch hold, modulo 2^32, key by key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from analysis.record import Accounting
from controller.controller import Controller
from designs.registry import design
from hosts.keys import KeySpace
from hosts.worker import ledger
from logs.collector import Collector
from topologies.agents import call_all
from topologies.config import EPOCH
from topologies.session import Session

Values = npt.NDArray[np.uint32]
"""By position in the key space: (parameters,)."""


async def account(session: Session, space: KeySpace, collector: Collector) -> Accounting:
    """Compare the books of workers, parameter servers and switch. No RPC may be outstanding.

    Every agent writes its logs before, and every PS sends its statistics to the log collector.
    """
    sent, unknown, mismatched, at_servers = 0, 0, 0, 0
    living = [agent for agent in (*session.workers, *session.servers) if agent.alive]
    dropped = sum(answer["dropped_rows"] for answer in await call_all(living, {"cmd": "flush"}))
    changed: list[str] = []
    name, control = session.config.design, design(session.config.design).control
    with session.reporter.phase("accounting", len(session.config.every_arm)) as phase:
        dumps = [await _dump(session, index) for index in range(len(session.servers))]
        async with Controller(session.network.address, undisturbed=True, design=name) as controller:
            for done, arm in enumerate(session.config.every_arm, start=1):
                if await control.is_changed(controller, arm):
                    changed.append(arm.name)
                at_switch = held_by_switch(await control.held(controller, arm), space)
                held = held_by_servers(dumps, arm.job, space) + at_switch
                sums = [
                    ledger.read(session.parts / f"ledger-worker-{number}-job-{arm.job}-epoch-{EPOCH}.bin")
                    for number in range(1, len(session.workers) + 1)
                ]
                sent += sum(each.lanes_sent + each.lanes_unknown for each in sums)
                unknown += sum(each.lanes_unknown for each in sums)
                mismatched += mismatches([each.sent for each in sums], [each.unknown for each in sums], held)
                at_servers += sum(int(dump[f"job{arm.job}_updates"].sum()) for dump in dumps)
                phase.update(done)
            overflows = await control.overflows(controller)
    lanes = Lanes(sent, unknown, at_servers, served_pushes(session.parts), mismatched)
    restarts = session.restarts()
    is_logged = all(worker.alive for worker in session.workers) and not (dropped or restarts)
    found = settle(lanes, is_logged)
    found.overflows, found.changed_arms, found.dropped_rows = overflows, changed, dropped
    found.restarts = restarts
    found.collected, found.uncollected = collector.updates, at_servers - collector.updates
    return found


class Lanes(NamedTuple):
    """Pushed lanes of all jobs, by who tells of them."""

    sent: int
    """Answered or not, by the workers' ledgers."""
    unknown: int
    at_servers: int
    served: int
    """By the switch, as the logs of RPCs have it."""
    mismatched_keys: int


def settle(lanes: Lanes, is_logged: bool) -> Accounting:
    """Where the lanes are. Unless it `is_logged` what the switch served, as a worker has died or rows were
    dropped, values alone tell what was lost.
    """
    applied = lanes.at_servers + lanes.served
    lost = lanes.mismatched_keys
    if is_logged:
        lost = max(lanes.sent - lanes.unknown - applied, lost)
    return Accounting(
        sent=lanes.sent,
        applied=applied if is_logged else lanes.sent - lanes.unknown - lost,
        lost=lost,
        unknown=lanes.unknown,
        mismatched_keys=lanes.mismatched_keys,
        overflows=0,
    )


def mismatches(sent: Sequence[Values], unknown: Sequence[Values], held: Values) -> int:
    """Keys for which `held` is not the sum of all `sent`, each worker's `unknown` being in it or not."""
    rest = held - np.sum(sent, axis=0, dtype=np.uint32)
    possible = [np.zeros_like(rest)]
    for deltas in unknown:
        if deltas.any():
            possible += [before + deltas for before in possible]
    return int((~np.any([rest == each for each in possible], axis=0)).sum())


def held_by_servers(dumps: Iterable[dict[str, npt.NDArray[np.generic]]], job: int, space: KeySpace) -> Values:
    """Values of a job in the dumps of all parameter servers."""
    held = np.zeros(space.size, dtype=np.uint32)
    for dump in dumps:
        held[space.positions(dump[f"job{job}_keys"].astype(np.uint64))] += dump[f"job{job}_values"].astype(
            np.uint32
        )
    return held


def held_by_switch(values: Mapping[int, int], space: KeySpace) -> Values:
    """Values of the keys that the switch holds, by key."""
    held = np.zeros(space.size, dtype=np.uint32)
    keys = np.array(list(values), dtype=np.uint64)
    held[space.positions(keys)] = np.array(list(values.values()), dtype=np.int64).astype(np.uint32)
    return held


def served_pushes(parts: Path) -> int:
    """Pushed lanes that the switch served, as workers' logs have it."""
    files = sorted(parts.glob("rpc-worker-*.parquet"))
    pushes = pl.scan_parquet(files).filter(pl.col("op").cast(pl.String) == "push")
    return int(pushes.select(pl.col("served").cast(pl.Int64).sum()).collect().item())


async def _dump(session: Session, index: int) -> dict[str, npt.NDArray[np.generic]]:
    file = session.parts / f"dump-ps-{index}.npz"
    await session.servers[index].call({"cmd": "dump", "file": str(file)})
    with np.load(file) as arrays:
        return {name: arrays[name] for name in arrays.files}
