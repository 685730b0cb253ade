"""`python -m topologies.cleanup`: remove what a killed run left; a run that is going on is not touched."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from topologies.signals import STOP


def main(arguments: Sequence[str] | None = None) -> int:
    """Remove leftovers and say what they were."""
    # Takes seconds: a signal is heard before.
    from experiment.config import Config
    from experiment.folder import point_to_latest, tidy
    from foundation.errors import HotlineError
    from foundation.words import counted
    from topologies.run_lock import hold_run_lock

    argparse.ArgumentParser(
        prog="python -m topologies.cleanup",
        description="Remove what a killed run left; a run that is going on is not touched.",
    ).parse_args(arguments)
    try:
        with hold_run_lock([]) as claimed:
            found = claimed.found
            if found:
                names = f" and {', '.join(found.interfaces)}" if found.interfaces else ""
                print(f"removed {counted(found.processes, 'process', 'processes')}{names} of a killed run")
            if found.run is not None and tidy(found.run):
                print(f"merged the logs of the killed run in {found.run}")
            # Of these somebody may have removed the one that it points to.
            point_to_latest(Config().runs)
    except (HotlineError, OSError) as error:
        print(f"hotline: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    STOP.listen()
    STOP.exit(main())
