"""A run of which every number is known: what is sent when, and from there all columns and all metrics.

Worker 3 trains in every arm on PS 1 (of 2), whose 72 keys are its whole mini-batch. A block is 30 steps, one
every 10 ms, of which the first 5 are discarded (they take 2,000 µs longer). The 25 measured steps take longer
by an `EXTRA` of 0 µs (12 of them), 10 (11), 60 (1) or 310 (1); 19.2 on average. All 10 rounds are alike, but
for arm *offload* in round 7: its RPCs and operations take another 60 µs, and the last RPC of each push
reaches the PS twice.

An operation of an arm without offload is 3 RPCs (32, 32 and 8 lanes), all cold. With offload it is 6: one of
32 lanes of which the switch serves 13 (mixed), two cold ones (32 and 3 lanes), and in hash lanes three that
the switch answers (2, 2 and 1 lanes: of the 5 keys, 3 share a lane and 2 another).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analysis.record import Accounting, Block, CapacityCheck, ProgramUse, RunRecord, ServerUse
from analysis.summary import Summary, summarise
from foundation.logs.merge import merge_logs
from foundation.protocol.hashing import lane_of, ps_of
from foundation.protocol.header import Header, Op
from hotline_agents.ps.logs import PsLogs
from hotline_agents.worker.logs import Origin, WorkerLogs
from hotline_agents.worker.trainer import StepSchedule
from tests.harness.arms import MEASURED as ARMS
from tests.harness.records import a_block, a_record
from tests.harness.timed import US, ByClass, Timed, Times

WORKER, PS, SERVERS = 3, 1, 2
JOBS = {"profile": 1, "baseline": 2, "repeat": 6, "proxy": 3, "offload": 4, "offload-proxy": 5}
LOAD = 0.5
ROUNDS, STEPS, DISCARDED = 10, 30, 5
SPECIAL_ROUND = 7
MS = 1_000 * US
PERIOD = 10 * MS
UNIX_MINUS_MONOTONIC = 1_700_000_000_000_000_000
START = 5_000_000_000
"""Start of the first block on the monotonic clock, in ns; a block begins every second."""
LATE_US = 2
"""An operation begins as much after it was due."""
EXTRA = [2000] * DISCARDED + [0] * 12 + [10] * 11 + [60, 310]
FIRST_STEP = 1000
EMPTY_RPCS = 101

COLD = Times(w_proc=3, w_queue=6, ps_proc=40, ps_queue=20, n_tx=131, switch=8)  # 200 µs
WITHOUT = ByClass(COLD, COLD, COLD)
BY_PROXY = ByClass(*[COLD._replace(ps_queue=12)] * 3)  # 192 µs
OFFLOADED = ByClass(
    all_hit=Times(w_proc=2, w_queue=3, ps_proc=0, ps_queue=0, n_tx=65, switch=4),  # 70 µs
    mixed=Times(w_proc=6, w_queue=9, ps_proc=70, ps_queue=26, n_tx=179, switch=14),  # 290 µs
    cold=COLD,
)


@dataclass(frozen=True, slots=True)
class Arm:
    """Costs of an arm's block: operations in µs from their scheduled start, all else per block."""

    times: ByClass
    pull: int
    push: int
    cpu_ns: int
    cpu_s: float
    worker_cpu_s: float
    loss: float
    offloaded: bool = False


BASELINE = Arm(WITHOUT, pull=500, push=700, cpu_ns=2_700_000, cpu_s=0.012, worker_cpu_s=0.015, loss=0.5)
PLANS = {
    "baseline": BASELINE,
    "repeat": BASELINE,
    "proxy": Arm(BY_PROXY, pull=490, push=700, cpu_ns=2_640_000, cpu_s=0.0117, worker_cpu_s=0.0153, loss=0.5),
    "offload": Arm(OFFLOADED, 400, 450, 2_100_000, 0.009, 0.018, 0.52, offloaded=True),
    "offload-proxy": Arm(OFFLOADED, 390, 440, 1_800_000, 0.0084, 0.0186, 0.51, offloaded=True),
}
SPECIAL = Arm(OFFLOADED.longer(60), 460, 510, 3_300_000, 0.0105, 0.021, 0.62, offloaded=True)


def _keys(number: int, lane: int | None = None) -> list[int]:
    """Return the first keys above 2^63 that belong to the PS, optionally of one hash lane."""
    found: list[int] = []
    key = 2**63
    while len(found) < number:
        key += 1
        if ps_of(key, SERVERS) == PS and (lane is None or lane_of(key) == lane):
            found.append(key)
    return found


HINTED = [*_keys(3, lane=9), *_keys(2, lane=20)]
DENSE = [key for key in _keys(100) if key not in HINTED][:67]
SERVED_IN_MIXED = DENSE[:13]
HOT = frozenset([*HINTED, *SERVED_IN_MIXED])
BATCH = np.array([*DENSE, *HINTED], dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class GoldenRun:
    folder: Path
    record: RunRecord
    summary: Summary


def make_run(folder: Path) -> GoldenRun:
    """Play the run; the real writers write its logs."""
    parts = folder / "parts"
    parts.mkdir(parents=True)
    world = Timed(WORKER, PS, SERVERS, JOBS.values(), BATCH)
    worker_logs = WorkerLogs(parts, WORKER, UNIX_MINUS_MONOTONIC)
    ps_logs = PsLogs(parts, PS, UNIX_MINUS_MONOTONIC)
    _empty_rpcs(world, worker_logs)
    blocks = [
        _block(world, worker_logs, number, arm, START + (number * len(ARMS) + position) * 1_000 * MS)
        for number in range(ROUNDS)
        for position, arm in enumerate(ARMS)
    ]
    for connection_records in world.server.server.collect_connection_records():
        ps_logs.write_connections(connection_records)
    ps_logs.send_updates(world.server.stores)
    merge_logs(parts, folder)
    record = a_record(
        config={"workers": WORKER, "servers": SERVERS, "top_k": len(HOT), "budget_s": 100.0},
        machine={"kernel": "6.1", "cpus": 2},
        placement={"p1": 0},
        jobs=JOBS,
        workload={"name": "R1", "parameters": 144, "lanes_per_step": len(BATCH), "chance_loss": 0.69},
        capacity=dict(zip(ARMS, (200.0, 196.0, 201.0, 202.0, 203.0), strict=True)),
        offered_rate={"0.5": 1234.5},
        blocks=blocks,
        repeated_blocks=_repeated(blocks),
        ended_by="precision",
        capacity_checks=[
            CapacityCheck(when="middle", capacity={"baseline": 190.0, "repeat": 200.0, "offload": 192.0}),
            CapacityCheck(when="end", capacity={"baseline": 160.0, "repeat": 190.0, "offload": 180.0}),
        ],
        accounting=Accounting(
            sent=86_400, applied=86_393, lost=4, unknown=3, mismatched_keys=2, overflows=5,
            collected=80_000, uncollected=12, dropped_rows=9,
        ),
    )  # fmt: skip
    record.write(folder)
    return GoldenRun(folder, record, summarise(folder, record))


PROGRAM_S = {
    "baseline": ProgramUse(workers=0.003, servers=0.0015),
    "repeat": ProgramUse(workers=0.003, servers=0.0015),
    "proxy": ProgramUse(workers=0.003, servers=0.0012),
    "offload": ProgramUse(workers=0.0048, servers=0.0018),
    "offload-proxy": ProgramUse(workers=0.006, servers=0.0009),
}
SPECIAL_PROGRAM_S = ProgramUse(workers=0.0066, servers=0.0015)
PORTS = {
    "1": {"rx": 1000, "rx_dropped": 0, "program_ns": 1_400_000},
    "2": {"rx": 600, "rx_dropped": 100, "program_ns": 400_000},
}


def in_the_kernel(golden: GoldenRun) -> GoldenRun:
    blocks = [
        block.model_copy(update={"program_s": program, "duration_ms": 12.0})
        for block in golden.record.blocks
        for program in [
            SPECIAL_PROGRAM_S
            if (block.arm, block.round) == ("offload", SPECIAL_ROUND)
            else PROGRAM_S[block.arm]
        ]
    ]
    changes = {"blocks": blocks, "datapath": "kernel", "switch": {"ports": PORTS}}
    record = golden.record.model_copy(update=changes)
    return GoldenRun(golden.folder, record, summarise(golden.folder, record))


def _repeated(blocks: list[Block]) -> list[Block]:
    """Return the repeated blocks: two of arm *offload*, and one of *proxy*, which stayed disturbed."""
    hot, proxy = (next(block for block in blocks if block.arm == arm) for arm in ("offload", "proxy"))
    proxy.disturbed = ["steal"]
    return [
        hot.model_copy(update={"disturbed": ["steal", "lateness"]}),
        hot.model_copy(update={"disturbed": ["steal"]}),
        proxy.model_copy(),
    ]


def _empty_rpcs(world: Timed, logs: WorkerLogs) -> None:
    """Log empty RPCs of 100, 101, ... 199 µs, and one of 1,210 µs, in round 0 at load 0."""
    job = JOBS["baseline"]
    for number in range(EMPTY_RPCS):
        latency = 100 + number if number < EMPTY_RPCS - 1 else 1210
        times = Times(w_proc=1, w_queue=2, ps_proc=3, ps_queue=4, n_tx=latency - 10, switch=5)
        world.empty(job, PS, START - (EMPTY_RPCS - number) * MS, times)
    logs.write_rpcs(world.clients[job].take_records(), Origin(WORKER, job, "baseline", 0, 0.0, 0))


def _block(world: Timed, logs: WorkerLogs, number: int, arm: str, start: int) -> Block:
    job, is_special = JOBS[arm], (arm, number) == ("offload", SPECIAL_ROUND)
    plan = SPECIAL if is_special else PLANS[arm]
    client, counters = world.clients[job], world.server.server.counters[job]
    before = counters.packets, counters.bytes, counters.proc_wall_ns
    first = FIRST_STEP + number * STEPS
    trainer = world.trainer(job, StepSchedule(first, STEPS, start, PERIOD))
    for step, extra in enumerate(EXTRA):
        for due, latency in ((0, plan.pull), (PERIOD // 2, plan.push)):
            # What an answer teaches is forgotten, so that every operation is packed alike.
            client.hint(np.array(HINTED, dtype=np.uint64) if plan.offloaded else None)
            scheduled = start + step * PERIOD + due
            world.operation(
                trainer, job, start=scheduled + LATE_US * US, end=scheduled + (latency + extra) * US,
                times=plan.times.longer(extra), hot=HOT if plan.offloaded else (),
                doubled=_last_of_push if is_special else lambda header: False,
            )  # fmt: skip
    assert trainer.finished
    origin = Origin(WORKER, job, arm, number, LOAD, start + DISCARDED * PERIOD)
    logs.write_rpcs(client.take_records(), origin)
    logs.write_operations(trainer.operations, origin)
    use = ServerUse(
        packets=counters.packets - before[0], bytes=counters.bytes - before[1],
        proc_wall_ns=counters.proc_wall_ns - before[2], proc_cpu_ns=plan.cpu_ns, cpu_s=plan.cpu_s,
    )  # fmt: skip
    return a_block(
        number, arm, LOAD, first_step=first, steps=STEPS, period_ns=PERIOD, loss=plan.loss, servers=use,
        max_lateness_ns=trainer.max_lateness_ns, fell_behind=arm == "proxy" and number in (3, 4),
        worker_cpu_s=plan.worker_cpu_s, run_queue_ms={"worker-3": 1.5},
    )  # fmt: skip


def _last_of_push(header: Header) -> bool:
    return header.op == Op.PUSH and header.count == 3
