"""Pause a run while its disk is full: its agents wait for room, so that they do not answer is no failure."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path

from experiment.liveness import Liveness

log = logging.getLogger(__name__)

_MIN_FREE_BYTES = 1 << 20  # with less the disk counts as full
_POLL_S = 0.2
_DISK = "disk"  # name in the list of what is down


def is_full(folder: Path) -> bool:
    return shutil.disk_usage(folder).free < _MIN_FREE_BYTES


async def watch_disk(folder: Path, liveness: Liveness) -> None:
    """Mark the disk as down while it is full; never return."""
    was_full = False
    while True:
        if is_full(folder) != was_full:
            was_full = not was_full
            if was_full:
                liveness.mark_down(_DISK)
                log.warning(
                    "the disk of %s is full: the run waits until there is room; Ctrl-C ends it", folder
                )
            else:
                liveness.mark_up(_DISK)
                log.warning("there is room again on the disk of %s", folder)
        await asyncio.sleep(_POLL_S)
