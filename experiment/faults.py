"""What may go wrong: each kind of fault is one object, for run.toml, schedules and kills of real processes.

How it strikes in virtual time, how it is undone and what must have happened is in `simulator.faults.strikes`.
"""

from __future__ import annotations

from typing import NamedTuple


class OnTheWay(NamedTuple):
    """What happens to frames of the whole network, with a probability, all the time."""

    name: str
    """As run.toml and schedules have it."""
    option: str
    """Of the softswitch's `--impair`."""
    row: str
    """In the table of docs/reliability.md."""
    counted: str
    """By the links of virtual time."""


class Killed(NamedTuple):
    """What happens to a process, with SIGKILL."""

    name: str
    process: str
    """Its name, before its number."""
    first: int
    """Number of the first of its kind."""
    row: str


ON_THE_WAY = (
    OnTheWay("loss", "loss", "frames are lost, 1 to 30 %", "lost"),
    OnTheWay("duplication", "dup", "frames come twice, 1 to 30 %", "doubled"),
    OnTheWay("reordering", "reorder", "frames come up to 5 ms later, 1 to 30 %", "late"),
)
WORKER_KILLED = Killed("worker killed", "worker-", 1, "a worker dies")
SERVER_KILLED = Killed("server restarted", "ps-", 0, "a parameter server dies and comes back, by its journal")
SWITCH_KILLED = Killed("switch restarted", "s", 1, "the switch comes back with empty tables and registers")
KILLED = (WORKER_KILLED, SERVER_KILLED, SWITCH_KILLED)
