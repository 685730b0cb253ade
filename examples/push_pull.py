"""Workers add to the rows of one table, and pull each other's sums."""

import numpy as np

import hotline

with hotline.Worker(tables={"users": (1_000, 16)}) as kv:
    kv.init(np.zeros((1_000, 16), np.float32))
    kv.barrier()
    keys = np.random.default_rng(kv.rank).choice(1_000, 500, replace=False)
    rows = np.empty((500, 16), np.float32)
    kv.wait(kv.push_pull(keys, np.ones_like(rows), rows))
    kv.barrier()
    kv.wait(kv.pull(keys, rows))
    print(f"worker {kv.rank} of {kv.size}: each of its rows was pushed {rows.mean():.2f} times on average")
    kv.barrier()
