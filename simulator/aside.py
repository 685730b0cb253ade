"""A simulated run for its numbers alone: its folder goes when they have been taken."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rich.console import Console

from analysis.record import RunRecord
from analysis.summary import Summary, summarise
from experiment.progress import Reporter
from hosts.workload.trace import Trace
from simulator.config import SimulationConfig
from simulator.experiment import simulate


class Made(NamedTuple):
    """A run that has ended."""

    run: Path
    """Its folder, with the merged logs."""
    record: RunRecord
    summary: Summary


def silent() -> Reporter:
    """Shows nothing."""
    return Reporter(Console(quiet=True))


@contextmanager
def simulated(
    config: SimulationConfig, data: Trace | None, reporter: Reporter, scratch: str | None = None
) -> Iterator[Made]:
    """The run, until the block ends; its folder is in `scratch`, or where the machine has such things."""
    with TemporaryDirectory(prefix="hotline-", dir=scratch) as folder:
        run = Path(folder)
        (run / "parts").mkdir()
        record = asyncio.run(simulate(config, data, run, reporter))
        yield Made(run, record, summarise(run, record))
