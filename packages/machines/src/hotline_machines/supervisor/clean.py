"""`python -m hotline_machines.supervisor.clean COMMAND`: remove what a killed run has left on this machine.

The supervisor of `hotline up` is ended before, if COMMAND is what ends it. Standard output gets one line of
JSON, with the names of what was removed, or with an error.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from contextlib import suppress

from foundation.errors import HotlineError
from foundation.text import pluralize
from hotline_machines.errors import MachinesError
from hotline_machines.launch import UP
from hotline_machines.supervisor.remains import WORK_FOLDERS, remove_namespaces
from topologies import routes
from topologies.lock_record import find_holder, is_alive
from topologies.run_lock import hold_run_lock

_END_TIMEOUT_S, _POLL_S = 60.0, 0.05


def end_up(command: str) -> list[str]:
    """End `hotline up` if a command is what ends it; return the name of what was ended."""
    holder = find_holder()
    if holder is None or holder.ended_by != command:
        return []
    with suppress(ProcessLookupError):
        os.kill(holder.pid, signal.SIGTERM)
    deadline = time.monotonic() + _END_TIMEOUT_S
    while is_alive(holder.pid):
        if time.monotonic() > deadline:
            raise MachinesError(f"`hotline up` does not end (process {holder.pid})")
        time.sleep(_POLL_S)
    return [UP]


def main(command: str) -> int:
    try:
        removed = end_up(command)
        with hold_run_lock([]) as lock:
            removed += lock.removed_run.interfaces
            routes.remove()
            if lock.removed_run.processes:
                removed.append(pluralize(lock.removed_run.processes, "process", "processes"))
            removed += remove_namespaces()
            if WORK_FOLDERS.exists():
                removed += map(str, sorted(WORK_FOLDERS.iterdir()))
                shutil.rmtree(WORK_FOLDERS)
    except (HotlineError, OSError) as error:
        print(json.dumps({"error": str(error)}))
        return 1
    print(json.dumps({"removed": removed}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
