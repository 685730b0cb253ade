"""Options that several commands have, and the models that they fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller.address import SwitchAddress
from controller.dask_cluster import Parallelism
from foundation.settings import JobId
from hotline.cli.common import F, json_option
from hotline.cli.fields import fills

ADDRESS: dict[str, Any] = {"names": ("--switch",), "metavar": "HOST:PORT"}
CLUSTER: dict[str, Any] = {"metavar": "ADDRESS"}
LOG: dict[str, Any] = {
    "columns": {"metavar": "ROLE=NAME,..."},
    "text": {"metavar": "COLUMN"},
    "ignore": {"metavar": "COLUMN"},
    "weight": {"metavar": "COLUMN"},
    "batch": {"names": ("--batch", "--samples-per-step")},
}
ROWS: dict[str, Any] = {"dims": {"metavar": "TABLE=DIM,..."}}
RULE: dict[str, Any] = {"metavar": "NAME"}

switch_options = fills(SwitchAddress, "switch", address=ADDRESS)


class JobAtSwitch(SwitchAddress):
    job: JobId
    """Id of the job."""


class ChangeSettings(JobAtSwitch):
    dry_run: bool = False
    """Print what would be done, and change nothing."""


def simulation_options(function: F) -> Callable[..., None]:
    return fills(Parallelism, "parallelism", scheduler=CLUSTER)(json_option(function))
