"""The logs of a real cluster: rpc.csv, connections.csv and updates.csv, separated by marks."""

from __future__ import annotations

from collections.abc import Hashable

from foundation.logs.cluster import RPC, open_cluster
from tools.fuzz.target import MARK, Target, parts, scratch

FILES = ("rpc.csv", "connections.csv", "updates.csv")


def run(data: bytes) -> Hashable:
    folder, target = scratch() / "cluster", scratch() / "converted"
    target.mkdir(exist_ok=True)
    folder.mkdir(exist_ok=True)
    contents = dict(zip(FILES, parts(data), strict=False))
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
        if name in contents:
            (folder / name).write_bytes(contents[name])
    logs = open_cluster(folder, target)
    rows = logs.rpc.collect()
    assert rows.height and not any(rows.null_count().row(0)), "a row has a null"
    assert rows["latency_us"].is_not_nan().all() and rows["op"].is_in(["pull", "push"]).all()
    connections = None if logs.connections is None else logs.connections.collect().height
    # The outcome: counts up to a maximum, so that there are few outcomes.
    return min(rows.height, 3), connections and min(connections, 2), len(logs.updates)


HEAD = ",".join(RPC).encode()
ROW = b"w1,p1,3,pull,1000,120,376,1.5,2,3,4,5.25"


def seeds() -> list[bytes]:
    rpc = HEAD + b"\n" + ROW + b"\n7,1,4,push,0,1,1,0,0,0,0,1e3\n"
    connections = b"time_us,ps,worker\n5,p1,w1\n"
    return [
        rpc,
        HEAD + b",arm\r\n" + ROW + b",both\r\n",
        MARK.join([rpc, connections, b"key,updates\n4,2\n"]),
    ]


TOKENS = (
    *(name.encode() for name in RPC), HEAD + b"\n", ROW + b"\n", b",arm", b"pull", b"push", b",", b"\n", b'"',
    b"nan", b"inf", b"-1", b"1e400", b"9223372036854775808", b"\xff", b"\r", b"time_us,ps,worker\n",
    b"key,updates\n",
)  # fmt: skip
TARGET = Target("cluster", run, ("src/foundation/logs",), seeds, TOKENS)
