"""`python -m simulator.dedicated_switch RUN`, for `make run-topo`: add a dedicated switch to `run.json`."""

from __future__ import annotations

import sys
from pathlib import Path

from analysis.record import read_record
from foundation.errors import HotlineError
from hotline_simulator.dedicated_switch.simulate import simulate_dedicated_switch
from hotline_simulator.warm import warm


def main(run: Path) -> int:
    try:
        record = read_record(run)
        warm()
        record.virtual = simulate_dedicated_switch(run, record)
        record.write(run)
    except HotlineError as error:
        print(f"hotline: a dedicated switch was not simulated: {error}", file=sys.stderr)
        return 1
    return 0


_INTERRUPTED = 130  # exit code of a program that Ctrl-C ends, as in a shell

if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1])))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
