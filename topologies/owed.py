"""What is kept of a run whose worker has died and owes the servers something (`hosts.home`)."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from analysis.record import RunRecord
from foundation.words import counted
from hosts.home import FOLDER, KEYS

log = logging.getLogger(__name__)

_FILES = ("ps-*.db*", "replay-worker-*.bin", "ledger-worker-*.bin")


def keep_owed(run: Path, record: RunRecord) -> None:
    """Keep the agents' files where something is owed, and servers have kept theirs."""
    owed = {} if record.accounting is None else record.accounting.owed
    parts, into = run / "parts", run / FOLDER
    for worker, keys in owed.items():
        log.warning("%s owes the servers what it had pushed to %s", worker, counted(keys, "key"))
    if not owed or not any(parts.glob(_FILES[0])):
        return
    into.mkdir()
    for pattern in _FILES:
        for file in parts.glob(pattern):
            file.rename(into / file.name)
    sparse = run / "trace" / KEYS
    if sparse.exists():
        shutil.copyfile(sparse, into / KEYS)
    log.warning("`./hotline owed %s --bring-home` gives it to the servers' files", run)
