"""Generate examples/clicks.csv: clicks of users on items, some popular, whose popularity drifts.

Nothing in it is of real people. `python examples/clicks.py` writes it again, the same.
"""

from __future__ import annotations

from bisect import bisect
from itertools import accumulate
from pathlib import Path
from random import Random

ROWS, USERS, ITEMS = 12_000, 800, 4_000
_DRIFT_ROWS = 40
"""Rows after which two items exchange their places in the order of popularity."""


def lines() -> list[str]:
    random = Random(1)
    bounds = list(accumulate(1 / (rank + 3) ** 0.9 for rank in range(ITEMS)))
    item_of_rank = list(range(ITEMS))
    random.shuffle(item_of_rank)
    rows, time = ["time,user_id,item_id"], 1_700_000_000
    for row in range(ROWS):
        if row % _DRIFT_ROWS == 0:
            one, other = int(ITEMS * random.random() ** 3), int(ITEMS * random.random())
            item_of_rank[one], item_of_rank[other] = item_of_rank[other], item_of_rank[one]
        time += int(4 * random.random())
        user = int(USERS * random.random() ** 2)
        rank = bisect(bounds, bounds[-1] * random.random())
        rows.append(f"{time},{1000 + user},{10_000 + item_of_rank[rank]}")
    return rows


if __name__ == "__main__":
    Path(__file__).with_suffix(".csv").write_text("\n".join(lines()) + "\n")
