"""`python -m topologies.cleanup`: remove what a killed run left; a run that is going on is not touched."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from common.errors import HotlineError
from topologies.leftovers import only_run


def main(arguments: Sequence[str] | None = None) -> int:
    """Remove leftovers and say what they were."""
    argparse.ArgumentParser(
        prog="python -m topologies.cleanup",
        description="Remove what a killed run left; a run that is going on is not touched.",
    ).parse_args(arguments)
    try:
        with only_run([]) as found:
            if found:
                names = f" and the interfaces {', '.join(found.interfaces)}" if found.interfaces else ""
                print(f"removed {found.processes} processes{names} of a killed run")
    except (HotlineError, PermissionError) as error:
        print(f"hotline: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
