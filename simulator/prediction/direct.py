"""Costs of a real run, measured directly: in a second, from its own logs and counters, without a search.

- `W_proc` and `PS_proc` are drawn from its RPCs, as `measured` says.
- Its RPCs without lanes have the machine to themselves: how long they wait at an agent is what it takes to
  wake a core up and to take a burst.
- The kernel counts the program's time. In the baseline it only forwards; what it takes more in the arm
  that the design is judged by is for the frames that it answers.
- What is left of the CPU time of a step is for sending, at the servers, and for beginning operations, at the
  workers: one simulation says how much is left (`corrected`).

`simulator.prediction.fit` looks for more costs, for minutes.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import polars as pl

from analysis.metrics import PS_CPU, WORKER_CPU, of_blocks
from analysis.record import AnalysisError, RunRecord
from analysis.summary import Summary
from foundation.designs.arms import judged
from foundation.logs.columns import TRANSFERS, load_name
from simulator.costs import Hosts
from simulator.prediction.likeness import shared_cores

_WAITS = pl.col("w_queue_us", "ps_queue_us")
_LEAST_NS = 500
"""Of a cost that is what others leave."""


class Took(NamedTuple):
    """What the baseline takes a step, all agents together, at the first of the loads."""

    worker_us: float
    """CPU time."""
    server_us: float
    rpcs: float


class _Arm(NamedTuple):
    """One arm at the first of the loads, by step."""

    worker_us: float
    server_us: float
    program_us: float | None
    """Part of both; None where the switch is not in the kernel."""
    rpcs: float
    packets: float
    """That servers got, and answered."""


def costs_in(run: Path, record: RunRecord, summary: Summary) -> Hosts:
    """The costs of a run; raises `AnalysisError` where it lacks one of these arms, and `DataError`."""
    baseline, lead = (_arm(run, record, summary, arm.name) for arm in judged(record.design))
    return Hosts.model_validate(
        {
            **shared_cores(record),
            "measured": run.resolve(),
            "idle_ns": max(0, round(1e3 * _waits_us(run)) - Hosts().take_ns),
            **_program(baseline, lead),
        }
    )


def _arm(run: Path, record: RunRecord, summary: Summary, arm: str) -> _Arm:
    name, load = next(iter(summary.loads.items()))
    blocks = [block for block in record.blocks if block.arm == arm and load_name(block.load) == name]
    steps = sum(block.steps for block in blocks)
    if not steps:
        raise AnalysisError(f"{run}: has measured no step of arm {arm}")
    of_step = of_blocks(blocks, (WORKER_CPU, PS_CPU))
    # Apart from its senders it is, to them, a switch of its own.
    programs = [block.program_s for block in blocks if block.program_s and block.program_s.is_its_senders]
    program_s = sum(program.total for program in programs)
    return _Arm(
        worker_us=of_step[WORKER_CPU.name],
        server_us=of_step[PS_CPU.name],
        program_us=1e6 * program_s / steps if len(programs) == len(blocks) else None,
        rpcs=load.arms[arm].rpcs_per_step,
        packets=load.arms[arm].ps_packets_per_step,
    )


def _waits_us(run: Path) -> float:
    """How long an RPC that has the machine to itself waits at an agent: medians of workers and servers."""
    alone = pl.scan_parquet(run / "rpc.parquet").filter(pl.col("op") == "empty")
    found: tuple[float | None, float | None] = alone.select(_WAITS.median()).collect().row(0)
    worker_us, server_us = found
    if worker_us is None or server_us is None:
        raise AnalysisError(f"{run}: has no RPC without lanes (empty_rpcs), by which idle cores are known")
    return (worker_us + server_us) / 2


def _program(baseline: _Arm, lead: _Arm) -> dict[str, int]:
    """Where it is the kernel's: what it takes of a frame, and more of one that it answers, ns."""
    if baseline.program_us is None or lead.program_us is None:
        return {}
    frame_us = baseline.program_us / (baseline.rpcs + baseline.packets)
    answered = lead.rpcs - lead.packets
    more_us = lead.program_us - frame_us * (lead.rpcs + lead.packets)
    hit_us = more_us / answered if answered > 0 else 0.0
    return {"program_ns": round(1e3 * frame_us), "hit_ns": max(0, round(1e3 * hit_us))}


def took(run: Path, record: RunRecord, summary: Summary) -> Took:
    """What a run took, whether it was real or in virtual time."""
    found = _arm(run, record, summary, judged(record.design)[0].name)
    return Took(found.worker_us, found.server_us, found.rpcs)


def corrected(hosts: Hosts, measured: Took, simulated: Took) -> Hosts:
    """The costs with which a simulation takes as much CPU time as was measured, by one with these costs.

    What servers took more or less is for sending answers, and as much of it for a worker's requests; what
    workers took beyond that is for beginning operations.
    """
    send_ns = hosts.send_ns + 1e3 * (measured.server_us - simulated.server_us) / simulated.rpcs
    send_ns = max(_LEAST_NS, send_ns)
    sending_us = simulated.rpcs * (send_ns - hosts.send_ns) / 1e3
    left_us = measured.worker_us - simulated.worker_us - sending_us
    begin_ns = hosts.begin_ns + 1e3 * left_us / len(TRANSFERS)
    changes = {"send_ns": round(send_ns), "begin_ns": round(max(_LEAST_NS, begin_ns))}
    return Hosts.model_validate({**hosts.model_dump(), **changes})
