"""Kinds of faults that run.toml, schedules of faults and kills of real processes share."""

from __future__ import annotations

from typing import NamedTuple


class FrameFault(NamedTuple):
    name: str
    option: str  # key in the softswitch's `--impair`
    row: str  # label in the table of docs/reliability.md
    counter: str  # field of a simulated link that counts such frames


class ProcessKill(NamedTuple):
    name: str
    process: str  # name of the process without its number
    first_number: int  # number of the first such process
    row: str  # as in `FrameFault`


FRAME_FAULTS = (
    FrameFault("loss", "loss", "frames are lost, 1 to 30 %", "lost"),
    FrameFault("duplication", "dup", "frames come twice, 1 to 30 %", "doubled"),
    FrameFault("reordering", "reorder", "frames come up to 5 ms later, 1 to 30 %", "delayed"),
)
WORKER_KILLED = ProcessKill("worker killed", "worker-", first_number=1, row="a worker dies")
SERVER_KILLED = ProcessKill(
    "server restarted", "ps-", first_number=0, row="a parameter server dies and recovers from its journal"
)
SWITCH_KILLED = ProcessKill(
    "switch restarted", "s", first_number=1, row="the switch comes back with empty tables and registers"
)
PROCESS_KILLS = (WORKER_KILLED, SERVER_KILLED, SWITCH_KILLED)
