"""Check after a run, key by key, that servers and switch hold what its design makes of all pushes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import polars as pl

from analysis.record import Accounting
from analysis.wording import losses
from experiment.errors import AccountingError
from foundation.designs.combination import Combination
from foundation.text import pluralize


class Lanes(NamedTuple):
    sent: int
    unknown: int  # pushed without an answer, so that the outcome is unknown
    at_servers: int  # applied by servers
    at_switch: int  # applied by the switch
    mismatched_keys: int


def reconcile(lanes: Lanes, is_logged: bool, combination: Combination) -> Accounting:
    """Return the accounting of all lanes; `is_logged`: whether logs have all lanes that the switch served."""
    if combination is Combination.NONE:
        return Accounting(
            sent=lanes.sent, applied=0, lost=0, unknown=lanes.unknown, mismatched_keys=0, overflows=0,
            combination=combination,
        )  # fmt: skip
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
        combination=combination,
    )


def count_lanes_served_by_switch(parts: Path) -> int:
    files = sorted(parts.glob("rpc-worker-*.parquet"))
    pushes = pl.scan_parquet(files).filter(pl.col("op").cast(pl.String) == "push")
    return int(pushes.select(pl.col("served").cast(pl.Int64).sum()).collect().item())


def check_accounting(account: Accounting, run: Path, is_script: bool = False) -> None:
    if account.lost:
        raise AccountingError(
            f"{losses(account.lost, account.mismatched_keys, account.combination)}; see {run}"
        )
    if account.overflows:
        overflowed = pluralize(
            account.overflows, "addition at the switch overflowed", "additions at the switch overflowed"
        )
        where = "hotline.Worker(scale=...)" if is_script else "CONFIG"
        raise AccountingError(f"{overflowed}: set a smaller scale in {where}")
