"""`python -m topologies.cleanup`: remove the remains of a killed run, unless a run is in progress."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from topologies.signals import STOP


def main(arguments: Sequence[str] | None = None) -> int:
    # These imports take seconds, in which signals are handled already.
    from experiment.folder import point_to_latest
    from experiment.run_config import Config
    from foundation.errors import HotlineError
    from foundation.text import pluralize
    from topologies.run_lock import hold_run_lock

    argparse.ArgumentParser(
        prog="python -m topologies.cleanup",
        description="Remove the remains of a killed run; a run in progress is not changed.",
    ).parse_args(arguments)
    try:
        with hold_run_lock([]) as run_lock:
            removed_run = run_lock.removed_run
            if removed_run:
                names = f" and {', '.join(removed_run.interfaces)}" if removed_run.interfaces else ""
                print(
                    f"removed {pluralize(removed_run.processes, 'process', 'processes')}{names} "
                    "of a killed run"
                )
            if removed_run.is_tidied:
                print(f"merged the logs of the killed run in {removed_run.run}")
            # The folder that the link `latest` pointed to may have been removed.
            point_to_latest(Config().runs)
    except (HotlineError, OSError) as error:
        print(f"hotline: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    STOP.listen()
    STOP.exit(main())
