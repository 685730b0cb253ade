"""The control plane: table writes a second over gRPC, and the memory of the entries written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from softswitch.conformance.client import BATCH, P4RuntimeClient, encode_writes
from softswitch.p4runtime.messages import p4r
from switch_bench import plain
from switch_bench.processes import resident_bytes
from switch_bench.results import MEMORY_MB, WRITES, Result
from switch_bench.stage import Stage
from switch_bench.switches import install, seconds_to_write
from switch_bench.workload import Setup

_PORTS = 2
_GOAL_ENTRIES = 1_000_000
_PORTION = 50 * BATCH  # updates that are encoded at once


class Insertions(NamedTuple):
    name: str
    setup: Setup
    updates: Sequence[p4r.Update]


def writes(stage: Stage) -> list[Result]:
    """Measure insertions, modifications and deletions of exact entries."""
    return measure_writes(stage, [])


def measure_writes(stage: Stage, others: Sequence[Insertions]) -> list[Result]:
    changes = _changes(stage.scale.writes)
    encoded = [encode_writes(other.updates) for other in others]
    names = (*changes, *(other.name for other in others))
    rates: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in names}
    with stage.traffic(_PORTS):
        for name in stage.shuffled(stage.switches()):
            with stage.switch(name, _PORTS, Setup(plain.L2, [])) as switch:
                for change, requests in changes.items():
                    stage.announce(f"{name}: {change}")
                    rates[change][name].append(stage.scale.writes / seconds_to_write(switch.client, requests))
                for other, requests in zip(others, encoded, strict=True):
                    install(switch.client, other.setup)
                    seconds = seconds_to_write(switch.client, requests)
                    rates[other.name][name].append(len(other.updates) / seconds)
    what = f"table writes over gRPC, batches of {BATCH:,}"
    return [
        Result("writes", f"{what}: {change}", "writes/s", samples, goals=WRITES)
        for change, samples in rates.items()
    ]


def memory(stage: Stage) -> list[Result]:
    entries = stage.scale.stored_entries
    growth_mb: dict[str, list[float]] = {}
    with stage.traffic(_PORTS):
        for name in stage.switches():
            stage.announce(f"{name}: {entries:,} entries")
            with stage.switch(name, _PORTS, Setup(plain.L2, [])) as switch:
                updates = plain.hosts(entries)
                # The first writes load code, whose memory is not that of the entries.
                _write_some(switch.client, updates, BATCH)
                bytes_before = resident_bytes(switch.pid)
                _write_some(switch.client, updates, entries - BATCH)
                growth_mb[name] = [(resident_bytes(switch.pid) - bytes_before) / 1e6]
    # The goal is defined for this number of entries.
    goals = MEMORY_MB if entries == _GOAL_ENTRIES else ()
    return [Result("memory", f"memory of {entries:,} exact entries", "MB", growth_mb, goals)]


def _changes(count: int) -> dict[str, list[bytes]]:
    inserts = list(plain.hosts(count))
    modifications = []
    for insert in inserts:
        modification = p4r.Update()
        modification.CopyFrom(insert)
        modification.type = p4r.Update.MODIFY
        modifications.append(modification)
    return {
        "insert": encode_writes(inserts),
        "modify": encode_writes(modifications),
        "delete": encode_writes(plain.deletions_of(inserts)),
    }


def _write_some(client: P4RuntimeClient, updates: Iterator[p4r.Update], count: int) -> None:
    """Write in portions, so that the bench itself uses little memory."""
    for start in range(0, count, _PORTION):
        client.send(encode_writes([next(updates) for _ in range(min(_PORTION, count - start))]))
