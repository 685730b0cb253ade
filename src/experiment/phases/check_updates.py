"""Check after a run, key by key, that servers and switch hold the sum of all updates, modulo 2^32."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import polars as pl

from analysis.record import Accounting
from experiment.errors import AccountingError
from foundation.text import pluralize


class Lanes(NamedTuple):
    sent: int
    unknown: int  # pushed without an answer, so that the outcome is unknown
    at_servers: int  # added by servers
    at_switch: int  # added by the switch
    mismatched_keys: int


def reconcile(lanes: Lanes, is_logged: bool) -> Accounting:
    """Return the accounting of all lanes; `is_logged`: whether logs have all lanes that the switch served."""
    # After a worker's death or dropped rows, logs are incomplete: only wrong values reveal lost lanes.
    applied_lanes = lanes.at_servers + lanes.at_switch
    lost_lanes = lanes.mismatched_keys
    if is_logged:
        lost_lanes = max(lanes.sent - lanes.unknown - applied_lanes, lost_lanes)
    return Accounting(
        sent=lanes.sent,
        applied=applied_lanes if is_logged else lanes.sent - lanes.unknown - lost_lanes,
        lost=lost_lanes,
        unknown=lanes.unknown,
        mismatched_keys=lanes.mismatched_keys,
        overflows=0,  # the caller sets it
    )


def count_lanes_served_by_switch(parts: Path) -> int:
    files = sorted(parts.glob("rpc-worker-*.parquet"))
    pushes = pl.scan_parquet(files).filter(pl.col("op").cast(pl.String) == "push")
    return int(pushes.select(pl.col("served").cast(pl.Int64).sum()).collect().item())


def check_accounting(account: Accounting, run: Path, is_script: bool = False) -> None:
    if account.lost:
        lost = pluralize(account.lost, "update was lost", "updates were lost")
        raise AccountingError(f"{lost}, at {pluralize(account.mismatched_keys, 'key')}; see {run}")
    if account.overflows:
        overflowed = pluralize(
            account.overflows, "addition at the switch overflowed", "additions at the switch overflowed"
        )
        where = "hotline.Worker(scale=...)" if is_script else "CONFIG"
        raise AccountingError(f"{overflowed}: set a smaller scale in {where}")
