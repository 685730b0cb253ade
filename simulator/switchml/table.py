"""`python -m simulator.switchml.table`: the table of docs/switchml.md, what came of many schedules."""

from __future__ import annotations

from simulator.dense.tally import table_of
from simulator.switchml.subject import CHECKED, PUBLISHED

main = table_of([PUBLISHED, CHECKED])

if __name__ == "__main__":
    main()
