"""`python -m simulator.answer RUN`: what a switch of its own would do, into the run's `run.json`.

`make run-topo` has it done when the network is gone (`topologies.simulation`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from analysis.record import read_record
from analysis.summary import summarise
from foundation.errors import HotlineError
from simulator.answer.twin import virtual
from simulator.warm import warm


def main(run: Path) -> int:
    """Add to a run's record; 1 after an error that was told."""
    try:
        record = read_record(run)
        summary = summarise(run, record)
        warm()
        record.virtual = virtual(run, record, summary)
        record.write(run)
    except HotlineError as error:
        print(f"hotline: without an answer from virtual time: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1])))
    except KeyboardInterrupt:
        sys.exit(130)
