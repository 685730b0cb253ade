"""Inject disturbances into a recorded run: its record and logs become those that a busy machine leaves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from analysis.disturbance import (
    MAX_STEAL_SHARE,
    is_outside,
    key_of,
    reasons_of_machine,
    reasons_to_repeat,
)
from analysis.record import Block, Contention, ProgramUse, RunRecord, ServerUse, read_record
from analysis.unexplained_waits import NORMAL_WAITING

Kind = Literal["steal", "others' CPU", "waits"]
"""Who takes the CPU: the hypervisor, programs that /proc shows, or programs of which only waits are seen."""
KINDS: tuple[Kind, ...] = ("steal", "others' CPU", "waits")
_SPREAD = ("all blocks", "half of the blocks", "a few blocks", "a spell")
_LEAST: Mapping[Kind, float] = {
    "steal": MAX_STEAL_SHARE,
    "others' CPU": MAX_STEAL_SHARE,
    "waits": NORMAL_WAITING,
}
"""Smallest share of the CPUs that is taken, or of a block that agents wait; less is normal."""
_MOST = 0.9
_SLICE_US = 3_000.0  # mean time of others that preempt an agent
_OPERATION = ["worker", "job", "round", "load", "iteration"]
_KEYS = [pl.col(*_OPERATION), pl.col("op").cast(pl.String).alias("kind")]


@dataclass(frozen=True, slots=True)
class Injection:
    """Disturbances of a run's blocks and closed loops: shares of the CPUs that others take in them."""

    kind: Kind
    spread: str
    share: float
    pollution: float
    """Extra CPU time of an agent whose caches others use, as a multiple of the share that they take."""
    seed: int


def draw_injection(seed: int) -> Injection:
    rng = np.random.default_rng(seed)
    kind, spread = KINDS[rng.integers(len(KINDS))], _SPREAD[rng.integers(len(_SPREAD))]
    return Injection(
        kind=kind,
        spread=spread,
        share=float(np.exp(rng.uniform(np.log(_LEAST[kind]), np.log(_MOST)))),
        pollution=float(rng.uniform(0, 1)),
        seed=seed,
    )


def inject(run: Path, folder: Path, injection: Injection) -> Path:
    """Copy a run into a folder, with a disturbance."""
    rng, record = np.random.default_rng([injection.seed, 1]), read_record(run)
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("*.parquet"))
    for file in ("hotset.parquet", "updates.parquet"):
        if (run / file).exists():
            shutil.copy(run / file, folder)
    shares = dict(zip(range(len(record.blocks)), _shares(injection, len(record.blocks), rng), strict=True))
    logs = {name: pl.read_parquet(run / f"{name}.parquet") for name in ("rpc", "operations")}
    rpc, operations = logs["rpc"], logs["operations"]
    starts = operations.select(*_KEYS, start="start_us")
    blocks, earlier = list[Block](), list[Block]()
    for number, block in enumerate(record.blocks):
        if share := shares[number]:
            block = _slow_block(block, record, injection, share, rng)
            rpc, operations = _slow_logs(rpc, operations, starts, block, injection, share, rng)
        same = [each for each in earlier if (each.arm, each.load) == (block.arm, block.load)]
        block.disturbed = reasons_to_repeat(block, same, record.machine["cpus"])
        earlier.append(block)
        blocks.append(block)
    record.blocks = blocks
    rpc = _disturb_closed_loops(record, rpc, injection, rng)
    rpc.write_parquet(folder / "rpc.parquet")
    operations.write_parquet(folder / "operations.parquet")
    record.write(folder)
    return folder


def _shares(injection: Injection, number: int, rng: np.random.Generator) -> Iterator[float]:
    """Yield the share that others take in each block; 0 for none."""
    chosen = np.ones(number, bool)
    if injection.spread == "half of the blocks":
        chosen = rng.random(number) < 0.5
    elif injection.spread == "a few blocks":
        chosen = rng.random(number) < 0.1
    elif injection.spread == "a spell":
        begin = rng.integers(number)
        chosen = (np.arange(number) >= begin) & (np.arange(number) < begin + number // 3)
    for is_chosen in chosen:
        yield _share(injection, rng) if is_chosen else 0.0


def _share(injection: Injection, rng: np.random.Generator) -> float:
    return float(min(0.95, injection.share * rng.lognormal(0, 0.3)))


def _cpu_factor(injection: Injection, share: float) -> float:
    # Stolen time counts as CPU time of the process that ran.
    return 1 / (1 - share) if injection.kind == "steal" else 1 + injection.pollution * share


def _noise(share: float, rng: np.random.Generator) -> float:
    return float(rng.lognormal(0, 0.5 * share))


def _slow_block(
    block: Block, record: RunRecord, injection: Injection, share: float, rng: np.random.Generator
) -> Block:
    cpu, taken_ms = _cpu_factor(injection, share) * _noise(share, rng), share * block.duration_ms
    servers, program = block.servers, block.program_s
    contention = _contention(block, record, injection, share)
    waits_ms = 0.0 if injection.kind == "steal" else taken_ms
    return block.model_copy(
        update={
            **dict(contention),
            "worker_cpu_s": block.worker_cpu_s * cpu,
            "servers": servers.model_copy(
                update={
                    name: _scaled(servers, name, cpu) for name in ("cpu_s", "proc_wall_ns", "proc_cpu_ns")
                }
            ),
            "program_s": program and ProgramUse(**{name: cpu * s for name, s in program}),
            "run_queue_ms": {
                name: ms + waits_ms * _noise(share, rng) for name, ms in block.run_queue_ms.items()
            },
            "pressure_ms": min(block.duration_ms, block.pressure_ms + taken_ms),
            "max_lateness_ns": block.max_lateness_ns
            + round(rng.exponential(share * 1e6 * block.duration_ms / 10)),
            "retransmissions": block.retransmissions + int(rng.poisson(5 * share)),
        }
    )


def _scaled(servers: ServerUse, name: str, factor: float) -> float:
    value: float = getattr(servers, name)
    return round(value * factor) if isinstance(value, int) else value * factor


def _contention(measured: Contention, record: RunRecord, injection: Injection, share: float) -> Contention:
    taken_ms = share * measured.duration_ms * record.machine["cpus"]
    seen = {"steal": "steal_ms", "others' CPU": "others_cpu_ms"}.get(injection.kind)
    return Contention(duration_ms=measured.duration_ms, **({seen: taken_ms} if seen else {}))


def _slow_logs(
    rpc: pl.DataFrame, operations: pl.DataFrame, starts: pl.DataFrame, block: Block, injection: Injection,
    share: float, rng: np.random.Generator,
) -> tuple[pl.DataFrame, pl.DataFrame]:  # fmt: skip
    """Stretch the operations of a block, and add the time of others that preempt an agent."""
    is_here = ~is_outside([key_of(block)])
    stretch, cpu = _noise(share, rng) / (1 - share), _cpu_factor(injection, share)
    slow_operations = operations.filter(is_here).with_columns(
        end_us=(pl.col("start_us") + (pl.col("end_us") - pl.col("start_us")) * stretch).cast(pl.Int64),
        latency_us=pl.col("latency_us") * stretch,
    )
    here = (
        rpc.filter(is_here)
        .with_columns(_KEYS[1])
        .join(starts, on=[*_OPERATION, "kind"], how="left", maintain_order="left")
    )
    preempted = [
        pl.Series(np.where(rng.random(len(here)) < 0.05 * share, rng.exponential(_SLICE_US, len(here)), 0.0))
        for _ in range(2)
    ]
    proc = {
        name: pl.when(pl.col(name) > 0).then(pl.col(name) * cpu + extra).otherwise(0.0)
        for name, extra in zip(("w_proc_us", "ps_proc_us"), preempted, strict=True)
    }
    begun = pl.col("start").fill_null(pl.col("t_send_us"))
    slow_rpc = here.with_columns(
        t_send_us=(begun + (pl.col("t_send_us") - begun) * stretch).cast(pl.Int64),
        latency_us=pl.col("latency_us") * stretch,
        **proc,
    ).drop("start", "kind")
    return _replaced(rpc, is_here, slow_rpc), _replaced(operations, is_here, slow_operations)


def _replaced(rows: pl.DataFrame, is_here: pl.Expr, changed: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([rows.filter(~is_here), changed.cast(dict(rows.schema))])  # type: ignore[arg-type]  # a schema


def _disturb_closed_loops(
    record: RunRecord, rpc: pl.DataFrame, injection: Injection, rng: np.random.Generator
) -> pl.DataFrame:
    """Lower the capacities, and return the logs with empty RPCs that took longer."""
    number = len(record.capacity) * (1 + len(record.capacity_checks)) + 1
    shares = _shares(injection, number, rng)
    of_record = [(record.capacity, record.capacity_contention)]
    for capacity, contention in [
        *of_record, *((check.capacity, check.contention) for check in record.capacity_checks)
    ]:  # fmt: skip
        for arm in capacity:
            share = next(shares)
            capacity[arm] *= (1 - share) * _noise(2 * share, rng)
            contention[arm] = _judged(record, injection, share)
    share = next(shares)
    record.empty_rpcs_contention = _judged(record, injection, share)
    is_empty = pl.col("op").cast(pl.String) == "empty"
    stretch = 1 / (1 - share)
    return rpc.with_columns(
        pl.when(is_empty).then(pl.col(name) * stretch).otherwise(pl.col(name)).alias(name)
        for name in ("w_queue_us", "ps_queue_us")
    )


def _judged(record: RunRecord, injection: Injection, share: float) -> Contention:
    contention = _contention(Contention(duration_ms=1_500.0), record, injection, share)
    contention.disturbed = reasons_of_machine(contention, record.machine["cpus"])
    return contention
