"""`python -m simulator.answer RUN`: what a switch of its own would do, into the run's `run.json`.

`make run-topo` calls it when the network is gone: a process of its own, as that may be stopped at any time.
"""

from __future__ import annotations

import sys
from pathlib import Path

from analysis.record import read_record
from analysis.summary import summarise
from common.errors import HotlineError
from simulator.answer.twin import STEPS, virtual
from simulator.warm import warm
from topologies.progress import Reporter, RunConsole


def main(arguments: list[str]) -> int:
    """Add to a run's record; 1 after an error that was told."""
    reporter = Reporter(RunConsole())
    try:
        run = Path(arguments[0])
        with reporter.phase("virtual time", STEPS) as phase:
            warm()
            record = read_record(run)
            record.virtual = virtual(run, record, summarise(run, record), phase)
        record.write(run)
    except HotlineError as error:
        reporter.stop()
        print(f"hotline: without an answer from virtual time: {error}", file=sys.stderr)
        return 1
    finally:
        reporter.stop()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
