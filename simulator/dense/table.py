"""`python -m simulator.dense.table`: what came of many schedules where hosts add up."""

from __future__ import annotations

from simulator.dense.subject import PSDENSE, RING
from simulator.dense.tally import table_of

main = table_of([PSDENSE, RING])

if __name__ == "__main__":
    main()
