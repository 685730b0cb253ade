"""Latencies of a run in progress, from the part files that workers write after each block."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from analysis.metrics import METRICS, by_round, complete_rounds
from analysis.record import read_record
from foundation.designs.arms import arms_in_order
from foundation.errors import DataError, reason_of
from foundation.logs.columns import OPERATIONS, RPC, TRANSFERS, rounded_load

_OPERATION_COLUMNS = ("worker", "arm", "round", "load", "op", "scheduled_us", "latency_us", "measured")
_RPC_COLUMNS = ("arm", "round", "load", "op", "t_send_us", "ps_queue_us", "w_queue_us", "measured")
_SCHEMAS = {
    log: pl.Schema({name: schema[name] for name in names})
    for log, schema, names in (("operations", OPERATIONS, _OPERATION_COLUMNS), ("rpc", RPC, _RPC_COLUMNS))
}
_LATENCIES = [METRICS[f"{op}_{quantile}"] for op in TRANSFERS for quantile in ("p50", "p99")]
_MAX_PARTS = 20
"""Maximum number of parts (one per block) of a worker's log to read at once: 2 rounds, 5 arms, 2 loads."""


@dataclass(frozen=True, slots=True)
class BlockLatency:
    """Latencies in the measured part of an arm's newest block, over all workers, in µs; None without RPCs."""

    arm: str
    round: int
    load: float
    pull_p50_us: float | None
    pull_p99_us: float | None
    push_p50_us: float | None
    push_p99_us: float | None
    ps_queue_us: float | None
    """Mean wait of an RPC at its PS, which is 0 if the switch answered."""
    w_queue_us: float | None


def run_folder(run: Path | None, runs: Path) -> Path | None:
    if run is not None:
        read_record(run)
        return run.resolve()
    # Until the active run ends, `latest` is the previous run.
    folders = [record.parent for record in runs.glob("*/run.json") if (record.parent / "parts").is_dir()]
    newest = max(folders, key=lambda folder: folder.stat().st_mtime_ns, default=runs / "latest")
    return newest.resolve() if newest.is_dir() else None


def has_ended(run: Path) -> bool:
    # Without part files the run's logs are complete; until the run ends, its record has an error.
    return not (run / "parts").is_dir() or read_record(run).error is None


class LiveLatencies:
    """Reader of the part files in a run's folder `parts`. It reads a file once, and skips negative rounds."""

    def __init__(self, parts: Path) -> None:
        self._parts = parts
        self._seen_files: set[Path] = set()
        self._operations: dict[str, dict[int, pl.DataFrame]] = defaultdict(dict)
        self._rpcs: dict[str, pl.DataFrame] = defaultdict(lambda: pl.DataFrame(schema=_SCHEMAS["rpc"]))
        """Arm -> RPCs of its newest block, and of a block whose operations have not been read yet."""
        self._newest_latencies: dict[str, BlockLatency] = {}

    def read(self) -> list[BlockLatency]:
        changed: set[str] = set()
        # Read operations first: workers write a block's operations last, so its RPCs are there, too.
        for rows in self._read_new("operations"):
            arm = rows.item(0, "arm")
            self._operations[arm][rows.item(0, "worker")] = rows
            changed.add(arm)
        for rows in self._read_new("rpc"):
            arm = rows.item(0, "arm")
            self._rpcs[arm] = pl.concat([self._rpcs[arm], rows])
            changed.add(arm)
        for arm in changed & set(self._operations):
            self._update_newest(arm)
        return [self._newest_latencies[arm.name] for arm in arms_in_order(self._newest_latencies)]

    def _read_new(self, log: str) -> Iterator[pl.DataFrame]:
        part_files = set(self._parts.glob(f"{log}-worker-*.parquet"))
        files_of_worker = defaultdict(list)
        for file in part_files - self._seen_files:
            files_of_worker[file.name.rpartition("-")[0]].append(file)
        self._seen_files |= part_files
        for files in files_of_worker.values():
            # Part numbers have no leading zeros.
            for file in sorted(files, key=lambda file: (len(file.name), file.name))[-_MAX_PARTS:]:
                rows = _read_part(file, _SCHEMAS[log])
                if not rows.is_empty():
                    yield rows

    def _update_newest(self, arm: str) -> None:
        parts = list(self._operations[arm].values())
        newest = max(parts, key=_start_us)
        operations = pl.concat(rows for rows in parts if _round_and_load(rows) == _round_and_load(newest))
        # A repeated block has the same round and load as the first attempt, whose RPCs were sent earlier.
        self._rpcs[arm] = self._rpcs[arm].filter(pl.col("t_send_us") >= _start_us(operations))
        self._newest_latencies[arm] = _block_latency(arm, operations, self._rpcs[arm])


def _read_part(file: Path, schema: pl.Schema) -> pl.DataFrame:
    try:
        rows = pl.read_parquet(file, columns=list(schema), glob=False)
        return rows.filter(pl.col("round") >= 0)  # rounds before the measured ones are negative
    except FileNotFoundError:
        return pl.DataFrame(schema=schema)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{file}: cannot be read: {reason_of(error)}") from error


def _round_and_load(rows: pl.DataFrame) -> tuple[int, float]:
    return rows.item(0, "round"), rows.item(0, "load")


def _start_us(operations: pl.DataFrame) -> int:
    start_us: int = operations.select(pl.col("scheduled_us").min()).item()
    return start_us


def _block_latency(arm: str, operations: pl.DataFrame, rpcs: pl.DataFrame) -> BlockLatency:
    round_number, load = _round_and_load(operations)
    measured = operations.filter("measured")
    rounds = complete_rounds(measured, [arm])
    estimates = by_round("operations", measured, [arm], rounds, _LATENCIES)[arm] if rounds else {}
    same_block = (pl.col("round") == round_number) & (pl.col("load") == load)
    transfers = rpcs.filter(same_block & pl.col("measured") & pl.col("op").is_in(TRANSFERS))

    def latency(metric: str) -> float | None:
        return estimates[metric].item() if metric in estimates else None

    def mean(column: str) -> float | None:
        value: float | None = transfers.select(pl.col(column).cast(pl.Float64).mean()).item()
        return value

    return BlockLatency(
        arm=arm,
        round=round_number,
        load=rounded_load(load),
        pull_p50_us=latency("pull_p50"),
        pull_p99_us=latency("pull_p99"),
        push_p50_us=latency("push_p50"),
        push_p99_us=latency("push_p99"),
        ps_queue_us=mean("ps_queue_us"),
        w_queue_us=mean("w_queue_us"),
    )
