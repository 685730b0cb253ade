"""Configure the simulation of a real run: the same load, cores and workload; cables take no time.

The costs of the real run are measured directly, from its logs and counters, within a second. Blocks that
stayed disturbed are left out (`analysis.disturbance.blocks_without_costs`):

- `W_proc` and `PS_proc` are drawn from its RPCs (`HostCosts.measured`).
- Its RPCs without lanes find the machine idle: their waiting time at an agent is the time to wake a core and
  to receive a burst.
- The kernel counts the program's time for frames of workers and of servers. In the baseline the program only
  forwards (`program_ns`). In the design's lead arm it looks up the keys of workers' frames (`lookup_ns`),
  whether it answers them or not, and of servers' frames (`answer_ns`).
- The time from the start of an operation to its first RPC is for packing (`begin_ns`), and that from its
  last answer to its end for the ledger (`finish_ns`, `push_ns`).
- The CPU time of a sleep (`wake_ns`) is taken as a share of the time to wake a core, since the processor or
  the hypervisor takes both. No measurement of the arms is used for it.
- The remaining CPU time of a step is for sending, at the servers, and for what follows an operation
  (`end_ns`), at the workers: one simulation shows how much remains (`correct_costs`).
- At full load a step takes less CPU time than at half load, since caches are warm. What the baseline's
  capacity shows of this is the extra time of operations that find their core idle (`cold_ns`): a second
  simulation shows how many these are (`fit_cold_time`).

`hotline answer fit` fits more costs, within minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from analysis.disturbance import blocks_without_costs, is_outside
from analysis.metrics import PS_CPU, WORKER_CPU, block_metrics
from analysis.record import AnalysisError, RunRecord, read_record
from analysis.summary import Summary
from experiment.run_config import config_of
from foundation.designs.arms import arms_in_order, baseline_and_lead
from foundation.logs.columns import TRANSFERS, load_name
from hotline_simulator.config import SimulationConfig
from hotline_simulator.costs import HostCosts

_REAL_RUN_SETTINGS = (
    "target", "datapath", "pcap", "cli", "p4runtime_port", "codec", "placement", "server", "faults",
    "cable_mbit",
)  # fmt: skip
_OPERATION = ("arm", "round", "load", "worker", "iteration", "op")
_WAITS = pl.col("w_queue_us", "ps_queue_us")
_MIN_NS = 500  # lower limit of corrected costs
_SLEEP_SHARE = 0.2
"""CPU time of a server's sleep as a share of the time of waking an idle core: the median of what
`python -m tools.sleep_costs` finds in the 16 configurations of `make evidence ARGS=validation` without
`collect`, on two quiet Xeon cores of a virtual machine (7.4 µs of 37)."""
TRIAL_COLD_NS = 100_000
"""`cold_ns` of the simulation that shows how many operations find their core idle."""
_MIN_COLD_SHARE = 0.05
"""Share of cold operations below which their time is not fitted: it would have to be very long."""


def read_real_record(run: Path) -> RunRecord:
    record = read_record(run)
    if record.simulation is not None:
        raise AnalysisError(f"{run}: expected a real run to compare with, got a simulated one")
    return record


def config_like(
    record: RunRecord, hosts: HostCosts, arms: Sequence[str], **changes: object
) -> SimulationConfig:
    """Return a run's settings, with shared cores and no repeats; raise `AnalysisError` for simulated runs."""
    if record.simulation is not None:
        raise AnalysisError("expected a real run to compare with, got a simulated one")
    settings = {name: value for name, value in record.config.items() if name not in _REAL_RUN_SETTINGS}
    values = {
        **settings,
        "arms": tuple(arm.name for arm in arms_in_order(arms) if not arm.is_repetition),
        "network": {"rate_mbit": record.config.get("cable_mbit", 0.0), "delay_us": 0.0},
        "hosts": hosts.model_dump(),
        "offered": record.offered_rate,
        **changes,
    }
    return config_of(SimulationConfig, values)


def shared_cores(record: RunRecord) -> dict[str, int]:
    return {
        "worker_cores": _core_count(record.placement.get("workers")),
        "server_cores": _core_count(record.placement.get("servers")),
    }


def _core_count(placement: object) -> int:
    return len(placement) if isinstance(placement, list) and placement else 1


class ArmCosts(NamedTuple):
    """Costs of an arm's step at the first load, all agents together: CPU times and numbers of frames."""

    worker_us: float
    server_us: float
    rpcs: float
    server_packets: float = 0.0  # packets that servers receive
    program_us: tuple[float, float] | None = None  # for frames of workers, of servers; None if not measured


def costs_of_run(run: Path, record: RunRecord, summary: Summary) -> HostCosts:
    baseline, lead = (
        _arm_costs(run, record, summary, measured_arm.name)
        for measured_arm in baseline_and_lead(record.design)
    )
    # The wait is for waking a core (`idle_ns`) and receiving a burst (`take_ns`).
    idle_ns = max(0, round(1e3 * mean_wait_us(run)) - HostCosts().take_ns)
    return HostCosts.model_validate(
        {
            **shared_cores(record),
            "measured": run.resolve(),
            "idle_ns": idle_ns,
            "wake_ns": round(_SLEEP_SHARE * idle_ns),
            **_operation_costs(run, baseline_and_lead(record.design)[0].name),
            **_program_costs(baseline, lead),
        }
    )


def _arm_costs(run: Path, record: RunRecord, summary: Summary, arm: str) -> ArmCosts:
    name, load = next(iter(summary.loads.items()))
    blocks = [block for block in record.blocks if block.arm == arm and load_name(block.load) == name]
    steps = sum(block.steps for block in blocks)
    if not steps:
        raise AnalysisError(f"{run}: expected measured steps of arm {arm}, got none")
    cpu_us = block_metrics(blocks, (WORKER_CPU, PS_CPU))
    # A program that does not run on its senders' cores costs them nothing, like a dedicated switch.
    program_times = [
        block.program_s for block in blocks if block.program_s and block.program_s.is_on_senders_cpus
    ]
    program_cpu_s = (
        sum(program.of_workers for program in program_times),
        sum(program.of_servers for program in program_times),
    )
    return ArmCosts(
        worker_us=cpu_us[WORKER_CPU.name],
        server_us=cpu_us[PS_CPU.name],
        program_us=(1e6 * program_cpu_s[0] / steps, 1e6 * program_cpu_s[1] / steps)
        if len(program_times) == len(blocks)
        else None,
        rpcs=load.arms[arm].rpcs_per_step,
        server_packets=load.arms[arm].ps_packets_per_step,
    )


def mean_wait_us(run: Path) -> float:
    empty_rpcs = pl.scan_parquet(run / "rpc.parquet").filter(pl.col("op") == "empty")
    medians: tuple[float | None, float | None] = empty_rpcs.select(_WAITS.median()).collect().row(0)
    worker_us, server_us = medians
    if worker_us is None or server_us is None:
        raise AnalysisError(f"{run}: expected empty RPCs (empty_rpcs), which measure idle cores, got none")
    return (worker_us + server_us) / 2


def _operation_costs(run: Path, arm: str) -> dict[str, float]:
    """Return a worker's median times before the first RPC of an operation, and after the last answer, ns."""
    # In the closed loop before the rounds a simulated operation begins with the time after the previous one.
    is_undisturbed = is_outside(blocks_without_costs(read_record(run)))
    is_paced = pl.col("measured") & (pl.col("round") >= 0) & is_undisturbed
    rpcs = pl.scan_parquet(run / "rpc.parquet").filter(is_paced).group_by(*_OPERATION)
    first_us, answered_us = pl.col("t_send_us").min(), (pl.col("t_send_us") + pl.col("latency_us")).max()
    spans = rpcs.agg(first_us.alias("first_us"), answered_us.alias("answered_us"))
    operations = pl.scan_parquet(run / "operations.parquet").filter(is_paced)
    begin_us = pl.col("first_us") - pl.col("start_us")
    finish_us = pl.col("end_us") - pl.col("answered_us")
    joined = _of_arm(operations, arm).join(_of_arm(spans, arm), on=_OPERATION)
    times = joined.select("op", begin=begin_us, finish=finish_us).collect()
    medians = times.group_by("op").agg(pl.col("begin", "finish").median())
    us = {op: (begin, finish) for op, begin, finish in medians.iter_rows()}
    if set(us) != set(TRANSFERS):
        found = ", ".join(sorted(us)) or "none"
        raise AnalysisError(f"{run}: expected measured pulls and pushes of arm {arm}, got {found}")
    (pull_begin_us, pull_finish_us), (push_begin_us, push_finish_us) = (us[op] for op in TRANSFERS)
    times_us = {
        "begin_ns": (pull_begin_us + push_begin_us) / 2, "finish_ns": pull_finish_us,
        "push_ns": push_finish_us - pull_finish_us,
    }  # fmt: skip
    # The time of further values is part of these.
    return {name: max(0, round(1e3 * us)) for name, us in times_us.items()} | {"operation_value_ns": 0.0}


def _of_arm(rows: pl.LazyFrame, arm: str) -> pl.LazyFrame:
    texts = pl.col("arm", "op").cast(pl.String)
    return rows.with_columns(texts).filter(pl.col("arm") == arm)


def _program_costs(baseline: ArmCosts, lead: ArmCosts) -> dict[str, int]:
    """Return the time of the kernel's program for a frame, and its extra times in the lead arm, ns.

    Counters do not say which frames were answered. A hit takes 1.5 times as long as a frame whose keys all
    miss (`make bench ARGS=hits`), and many frames have both, so all frames of workers get the same time.
    """
    if baseline.program_us is None or lead.program_us is None:
        return {}
    frame_us = sum(baseline.program_us) / (baseline.rpcs + baseline.server_packets)
    worker_frames_us, server_frames_us = lead.program_us
    lookup_us = worker_frames_us / lead.rpcs - frame_us if lead.rpcs > 0 else 0.0
    answer_us = server_frames_us / lead.server_packets - frame_us if lead.server_packets > 0 else 0.0
    times_us = {"program_ns": frame_us, "lookup_ns": max(0.0, lookup_us), "answer_ns": max(0.0, answer_us)}
    return {name: round(1e3 * us) for name, us in times_us.items()}


def baseline_costs(run: Path, record: RunRecord, summary: Summary) -> ArmCosts:
    return _arm_costs(run, record, summary, baseline_and_lead(record.design)[0].name)


def correct_costs(hosts: HostCosts, measured: ArmCosts, simulated: ArmCosts) -> HostCosts:
    """Return costs that change the CPU time of the baseline's step from `simulated` to `measured`."""
    # The servers' difference is the cost of sending an answer to each RPC; sending a request costs a worker
    # the same. The workers' remaining difference is the cost of what follows an operation.
    send_ns = hosts.send_ns + 1e3 * (measured.server_us - simulated.server_us) / simulated.rpcs
    send_ns = max(_MIN_NS, send_ns)
    sending_us = simulated.rpcs * (send_ns - hosts.send_ns) / 1e3
    remaining_us = measured.worker_us - simulated.worker_us - sending_us
    operations_per_step = len(TRANSFERS)
    end_ns = hosts.end_ns + 1e3 * remaining_us / operations_per_step
    changes = {"send_ns": round(send_ns), "end_ns": round(max(_MIN_NS, end_ns))}
    return HostCosts.model_validate({**hosts.model_dump(), **changes})


def fit_cold_time(
    hosts: HostCosts, measured: ArmCosts, measured_capacity: float, trial: ArmCosts, trial_capacity: float
) -> HostCosts:
    """Return costs with which the baseline carries the measured steps/s, with the same CPU time of a step.

    `hosts` are costs with the measured CPU time, and `trial` is a simulation of them with `TRIAL_COLD_NS`.
    CPU time is moved from what follows each operation to the operations that find their core idle. Without a
    lower capacity in the trial than was measured, nothing is moved.
    """
    operations_per_step = len(TRANSFERS)
    extra_us = (trial.worker_us - measured.worker_us) / operations_per_step
    cold_share = 1e3 * extra_us / TRIAL_COLD_NS
    # Workers share cores that are busy at full load.
    step_ns = (hosts.worker_cores or 1) * 1e9 * (1 / trial_capacity - 1 / measured_capacity)
    warm_ns = min(step_ns / operations_per_step, hosts.end_ns - _MIN_NS)
    if cold_share < _MIN_COLD_SHARE or warm_ns <= 0:
        return hosts
    changes = {"cold_ns": round(warm_ns / cold_share), "end_ns": round(hosts.end_ns - warm_ns)}
    return HostCosts.model_validate({**hosts.model_dump(), **changes})
