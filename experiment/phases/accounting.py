"""After quiescing: what workers sent is what parameter servers and switch hold, modulo 2^32, key by key."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import polars as pl

from analysis.record import Accounting
from experiment.errors import AccountingError
from foundation.words import counted


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


def served_pushes(parts: Path) -> int:
    """Pushed lanes that the switch served, as workers' logs have it."""
    files = sorted(parts.glob("rpc-worker-*.parquet"))
    pushes = pl.scan_parquet(files).filter(pl.col("op").cast(pl.String) == "push")
    return int(pushes.select(pl.col("served").cast(pl.Int64).sum()).collect().item())


def check_accounting(account: Accounting, run: Path) -> None:
    """Raise `AccountingError` when a run's updates do not add up."""
    if account.lost:
        lost = counted(account.lost, "update was lost", "updates were lost")
        raise AccountingError(f"{lost}, at {counted(account.mismatched_keys, 'key')}; see {run}")
    if account.overflows:
        overflowed = counted(
            account.overflows, "addition at the switch overflowed", "additions at the switch overflowed"
        )
        raise AccountingError(f"{overflowed}: set a smaller scale in CONFIG")
