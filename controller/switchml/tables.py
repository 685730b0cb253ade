"""SwitchML's tables as typed rows."""

from __future__ import annotations

from dataclasses import dataclass

from controller.tables import Ipv4, Mac, Row


@dataclass(frozen=True, slots=True)
class Member(Row):
    """Table `workers`: a worker of a job, by whom its packets are from and to."""

    TABLES = ("identify.workers",)
    ACTION = "identify.set_worker"
    MATCHED = 3
    src_addr: Ipv4
    dst_addr: Ipv4
    src_port: int
    receiver: int
    """Its number among the workers of all jobs, from 1 on."""
    group: int
    """Of all workers of its job."""
    worker: int
    """Its bit."""
    worker_count: int
    """Of its job."""
    filter_stale: bool
    """Whether the switch drops packets of older chunks."""
    slot_timeout: int
    """µs; 0 is never."""


@dataclass(frozen=True, slots=True)
class Receiver(Row):
    """Table `receivers`: where the results of a worker go."""

    TABLES = ("receivers",)
    ACTION = "set_receiver"
    CONTROL = "HotlineEgress."
    receiver: int
    mac: Mac
    addr: Ipv4
