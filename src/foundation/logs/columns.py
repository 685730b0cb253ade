"""The columns of the logs: times and latencies in µs, sizes in bytes."""

from __future__ import annotations

import polars as pl

TRANSFERS = ("pull", "push")
OPS = (*TRANSFERS, "step")  # of the log `operations`: a step is a pull and a push
CALLS = (*TRANSFERS, "empty")  # of the log `rpc`
CLASSES = ("all_hit", "mixed", "cold")  # all lanes of an RPC served by the switch, some, none
METRICS = ("w_proc", "w_queue", "ps_proc", "ps_queue", "n_tx")
"""The five metrics of Pan et al. §2.2; their sum is the latency of an RPC."""

ARM = pl.Categorical()
"""Type of a column with an arm's name. It lists no names, so that logs of removed arms stay readable."""

AFTER_ALL_STEPS = 1 << 32
"""Sentinel larger than any iteration number."""
CLOSED_LOOP = 0.0  # stands for a load where workers take each step as soon as they can
_LOAD_DECIMALS = 6  # logs have loads as 32-bit floats, records as 64-bit floats
_CLOSED_LOOP_NAME = "closed loop"


def load_name(load: float) -> str:
    """Return a load as records and results name it: 0.5 -> "0.5"."""
    return _CLOSED_LOOP_NAME if load == CLOSED_LOOP else f"{load:g}"


def has_load(load: float) -> pl.Expr:
    return pl.col("load").cast(pl.Float64).round(_LOAD_DECIMALS) == rounded_load(load)


def rounded_load(load: float) -> float:
    return round(load, _LOAD_DECIMALS)


def at_load(name: str) -> str:
    return f"in a {_CLOSED_LOOP_NAME}" if name == _CLOSED_LOOP_NAME else f"at load {name}"


def load_title(name: str) -> str:
    return name if name == _CLOSED_LOOP_NAME else f"load {name}"


def _schema(columns: dict[str, pl.DataType | type[pl.DataType]]) -> pl.Schema:
    return pl.Schema(columns)


RPC = _schema(
    {
        "worker": pl.UInt16,
        "ps": pl.UInt16,
        "job": pl.UInt16,
        "arm": ARM,
        "round": pl.Int32,
        "load": pl.Float32,
        "iteration": pl.UInt32,
        "op": pl.Enum(CALLS),
        "class": pl.Enum(CLASSES),
        "t_send_us": pl.Int64,
        "request_bytes": pl.UInt16,
        "response_bytes": pl.UInt16,
        "w_proc_us": pl.Float32,
        "w_queue_us": pl.Float32,
        "ps_proc_us": pl.Float32,
        "ps_queue_us": pl.Float32,
        "n_tx_us": pl.Float32,
        "switch_us": pl.Float32,
        "latency_us": pl.Float32,
        "lanes": pl.UInt8,
        "served": pl.UInt8,
        "attempts": pl.UInt8,
        "measured": pl.Boolean,
    }
)

OPERATIONS = _schema(
    {
        "worker": pl.UInt16,
        "job": pl.UInt16,
        "arm": ARM,
        "round": pl.Int32,
        "load": pl.Float32,
        "iteration": pl.UInt32,
        "op": pl.Enum(OPS),
        "scheduled_us": pl.Int64,
        "start_us": pl.Int64,
        "end_us": pl.Int64,
        "latency_us": pl.Float32,
        "rpcs": pl.UInt16,
        "measured": pl.Boolean,
    }
)

CONNECTIONS = _schema({"time_us": pl.Int64, "ps": pl.UInt16, "worker": pl.UInt16, "job": pl.UInt16})

UPDATES = _schema({"job": pl.UInt16, "ps": pl.UInt16, "key": pl.UInt64, "updates": pl.UInt64})

LOGS = {"rpc": RPC, "operations": OPERATIONS, "connections": CONNECTIONS, "updates": UPDATES}
