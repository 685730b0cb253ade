"""`python -m hotline_machines.supervisor.clean`: remove what a killed run has left on this machine.

Standard output gets one line of JSON, with the names of what was removed, or with an error.
"""

from __future__ import annotations

import json
import shutil
import sys

from foundation.errors import HotlineError
from foundation.text import pluralize
from hotline_machines.supervisor.remains import WORK_FOLDERS, remove_namespaces
from topologies.run_lock import hold_run_lock


def main() -> int:
    try:
        with hold_run_lock([]) as lock:
            removed = list(lock.removed_run.interfaces)
            if lock.removed_run.processes:
                removed.append(pluralize(lock.removed_run.processes, "process", "processes"))
            removed += remove_namespaces()
            if WORK_FOLDERS.exists():
                removed.append(str(WORK_FOLDERS))
                shutil.rmtree(WORK_FOLDERS)
    except (HotlineError, OSError) as error:
        print(json.dumps({"error": str(error)}))
        return 1
    print(json.dumps({"removed": removed}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
