"""What hosts and cables are like: how long agents take, who shares a core; how fast and sound links are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator
from typing_extensions import Self

from foundation.designs.interface import NEVER
from foundation.errors import DataError, reason_of
from foundation.settings import Strict
from nativekit.records import Records, one, records
from simulator.state import QUANTILES, Costs, Link, Outage
from softswitch.queues.shape import MAX_RATE, Rate, Shape, byte_depth

_NS_PER_S = 1_000_000_000
_PS_PER_S = 10**12
_MOST_NS = 60 * _NS_PER_S
_MOST_US = _MOST_NS // 1000
_MOST_MS = 10**9
_MOST_KB = 10**9
_LEAST_MBIT = 0.001
_MOST_MBIT = MAX_RATE // 10**6
_LEAST_MPPS, _MOST_MPPS = 0.000_001, 1_000_000
"""A frame a second; one in a ps, which is what clocks count."""
_MOST_WORKERS = 2**16


class LinkOutage(Strict):
    """For a while a host's cable is down, or slower, in both directions."""

    host: str = Field(pattern=r"^[wp][1-9]\d{0,3}$")
    """Its name: w3 is the third worker, p1 the first PS."""
    from_ms: float = Field(ge=0, le=_MOST_MS)
    duration_ms: float = Field(gt=0, le=_MOST_MS)
    every_ms: float | None = Field(default=None, gt=0, le=_MOST_MS)
    """Again after so long, and so on; None: once."""
    extra_delay_us: float | None = Field(default=None, gt=0, le=_MOST_US)
    """So much longer frames take; None: they are lost."""

    @model_validator(mode="after")
    def _check_pauses(self) -> Self:
        if self.every_ms is not None and self.every_ms <= self.duration_ms:
            raise ValueError(
                f"every_ms ({self.every_ms:g}) must be more than duration_ms ({self.duration_ms:g})"
            )
        return self


class Network(Strict):
    """Every cable between a host and the switch, in both directions."""

    rate_mbit: float = Field(default=10_000.0, ge=0, le=_MOST_MBIT)
    """Bandwidth, Mbit/s; 0 is without a limit."""
    delay_us: float = Field(default=1.0, ge=0, le=_MOST_US)
    """Propagation, and whatever else every frame takes on its way."""
    queue_kb: float = Field(default=1024.0, gt=0, le=_MOST_KB)
    """Bytes that wait before a cable at most, in 1,024; more are dropped."""
    mark_kb: float | None = Field(default=None, ge=0, le=_MOST_KB)
    """Beyond so many, frames whose transport knows ECN are marked."""
    loss: float = Field(default=0.0, ge=0, lt=1)
    duplication: float = Field(default=0.0, ge=0, lt=1)
    reordering: float = Field(default=0.0, ge=0, lt=1)
    extra_delay_us: float = Field(default=1_000.0, ge=0, le=_MOST_US)
    """By up to so much a reordered frame comes later."""
    switch_us: float = Field(default=0.0, ge=0, le=_MOST_US)
    """A frame takes through the switch, from its last bit in to its first bit out."""
    switch_mpps: float = Field(default=0.0, ge=0, le=_MOST_MPPS)
    """Millions of frames that the switch takes in a second; others wait before it. 0 is without a limit."""
    traffic_manager: bool = False
    """Packets wait at the switch's ports between ingress and egress, as in softswitch with --port-rate: the
    program sees their depths, and marks what it wants to. Else they wait behind egress, before the cable."""
    outages: tuple[LinkOutage, ...] = ()
    """Cables that are bad for a while."""
    rack: int | None = Field(default=None, ge=2, le=_MOST_WORKERS)
    """So many workers share a port, behind a switch of their rack that only forwards; None: each has one."""
    uplink_mbit: float | None = Field(default=None, ge=0, le=_MOST_MBIT)
    """Bandwidth of the cable between them; None: what the workers of a rack have together."""

    @field_validator("switch_mpps")
    @classmethod
    def _check_packet_rate(cls, mpps: float) -> float:
        if mpps and mpps < _LEAST_MPPS:
            raise ValueError(f"0, which is without a limit, or {_LEAST_MPPS:f} and more expected")
        return mpps

    @field_validator("rate_mbit", "uplink_mbit")
    @classmethod
    def _check_rate(cls, mbit: float | None) -> float | None:
        # Below, a frame takes longer than a clock in picoseconds can count.
        if mbit and mbit < _LEAST_MBIT:
            raise ValueError(f"0, which is without a limit, or {_LEAST_MBIT} and more expected")
        return mbit


class Hosts(Strict):
    """What agents take of their cores, ns.

    The defaults are those of `make run-topo` on two cores of an AMD EPYC (Linux 6.18) with 3,000 keys a step,
    but that each agent has a core of its own and the switch takes no host's time.
    """

    worker_cores: int | None = Field(default=None, ge=1)
    """Of all workers together, which take turns; None is one for each."""
    server_cores: int | None = Field(default=None, ge=1)
    wake_ns: int = Field(default=5_000, ge=0, le=_MOST_NS)
    """To be switched to by another agent of the core."""
    idle_ns: int = Field(default=5_000, ge=0, le=_MOST_NS)
    """To wake up a core that does nothing, and be switched to; a virtual machine takes some 50 µs."""
    slice_ns: int = Field(default=3_000_000, ge=1, le=_MOST_NS)
    """After which an agent lets others run."""
    encode_ns: int = Field(default=500, ge=0, le=_MOST_NS)
    send_ns: int = Field(default=5_000, ge=0, le=_MOST_NS)
    """Of each datagram, in the kernel."""
    take_ns: int = Field(default=1_000, ge=0, le=_MOST_NS)
    """Of each burst that is received."""
    receive_ns: int = Field(default=400, ge=0, le=_MOST_NS)
    """`W_proc`: of each answer."""
    begin_ns: int = Field(default=150_000, ge=0, le=_MOST_NS)
    """Of each operation: packing, its half of the model's step and of the books."""
    cold_ns: int = Field(default=0, ge=0, le=_MOST_NS)
    """And of one that wakes a core up, whose caches others have used meanwhile."""
    push_ns: int = Field(default=0, ge=0, le=_MOST_NS)
    """And of a push."""
    serve_ns: int = Field(default=300, ge=0, le=_MOST_NS)
    """`PS_proc`: of each request."""
    lane_ns: int = Field(default=35, ge=0, le=_MOST_NS)
    """And of each of its lanes that the switch has not served."""
    connection_ns: int = Field(default=0, ge=0, le=_MOST_NS)
    """Of each connection that a PS looks at before a burst, as where it scans its sockets ([DDL] Fig. 9);
    with the proxy it has one, and else one for each worker."""
    program_ns: int | None = Field(default=None, ge=0, le=_MOST_NS)
    """Of the switch's program for a frame, which runs on the core of its sender then, as in the kernel; left
    out, the switch is a device of its own, that takes no time."""
    hit_ns: int = Field(default=0, ge=0, le=_MOST_NS)
    """And of a frame that the switch answers."""
    noise_every_us: float | None = Field(default=None, gt=0, le=_MOST_US)
    """Of a core's busy time, after which something else takes it, on average: interrupts, the hypervisor."""
    noise_us: float = Field(default=0.0, ge=0, le=_MOST_US)
    """For so long, on average; both are exponential."""
    measured: Path | None = None
    """A run folder that `W_proc` and `PS_proc` are drawn from, instead of the three above."""


def costs_of(hosts: Hosts) -> Costs:
    """The COSTS record; raises `DataError` where the measured run cannot be read."""
    costs = one(Costs)
    costs.wake, costs.idle, costs.slice = hosts.wake_ns, hosts.idle_ns, hosts.slice_ns
    costs.encode, costs.send, costs.burst = hosts.encode_ns, hosts.send_ns, hosts.take_ns
    costs.connection = hosts.connection_ns
    costs.lane, costs.hit = hosts.lane_ns, hosts.hit_ns
    costs.inline, costs.program = hosts.program_ns is not None, hosts.program_ns or 0
    costs.noise_every, costs.noise = round((hosts.noise_every_us or 0) * 1e3), round(hosts.noise_us * 1e3)
    costs.serve_burst, costs.serve_send = hosts.take_ns, hosts.send_ns
    costs.receive[:], costs.serve[:] = hosts.receive_ns, hosts.serve_ns
    if hosts.measured is not None:
        costs.receive[:], costs.serve[:] = measured_times(hosts.measured)
        costs.lane = 0
    return costs


def measured_times(run: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Quantiles of `W_proc`, and of `PS_proc` where a PS answered, ns, of a run's measured RPCs."""
    try:
        rows = pl.scan_parquet(run / "rpc.parquet").filter(pl.col("measured"))
        found = rows.select("w_proc_us", "ps_proc_us").collect()
    except (OSError, pl.exceptions.PolarsError) as error:
        why = reason_of(error) if isinstance(error, OSError) else str(error).splitlines()[0]
        raise DataError(f"{run}: cannot be read as a run: {why}") from error
    at = (np.arange(QUANTILES) + 0.5) / QUANTILES
    serve = found["ps_proc_us"].filter(found["ps_proc_us"] > 0).to_numpy()
    if not len(serve):
        raise DataError(f"{run}: no measured RPC in it that a PS answered")
    times = (np.quantile(each, at) * 1e3 for each in (found["w_proc_us"].to_numpy(), serve))
    receive, serve_ns = (np.rint(each).astype(np.int64) for each in times)
    return receive, serve_ns


def shapes_of(network: Network, workers: int, servers: int) -> list[Shape]:
    """Of the switch's ports, by the hosts; those of a rack's go by its first worker."""
    if not network.traffic_manager:
        return []
    depth = byte_depth(round(network.queue_kb * 1024))
    one, rack = _bits(network.rate_mbit), _bits(_uplink_mbit(network))
    of_workers = [one if network.rack is None else rack] * workers
    return [Shape(Rate(bits=bits), depth) for bits in (*of_workers, *[one] * servers)]


def _bits(mbit: float) -> int:
    return round(mbit * 1e6)


def _uplink_mbit(network: Network) -> float:
    whole = (network.rack or 1) * network.rate_mbit
    return whole if network.uplink_mbit is None else network.uplink_mbit


def uplinks_of(network: Network, workers: int) -> Records[Link]:
    """LINK[racks], all alike and without faults; none where each worker has a port."""
    if network.rack is None:
        return records(0, Link)
    sound = {"rate_mbit": _uplink_mbit(network), "loss": 0.0, "duplication": 0.0, "reordering": 0.0}
    return links_of(network.model_copy(update=sound), -(-workers // network.rack))


def switch_times_of(network: Network) -> tuple[int, int]:
    """A frame's time through the switch, ns, and from the beginning of one to the next, ps."""
    between = round(_PS_PER_S / (network.switch_mpps * 1e6)) if network.switch_mpps else 0
    return round(network.switch_us * 1e3), between


def outages_of(network: Network, workers: int) -> Records[Outage]:
    """Return OUTAGE[n], the outages of cables."""
    outages = records(len(network.outages), Outage)
    for outage, given in zip(outages, network.outages, strict=True):
        outage.host = host_of(given.host, workers)
        outage.begins, outage.lasts = round(given.from_ms * 1e6), round(given.duration_ms * 1e6)
        outage.every = round((given.every_ms or 0) * 1e6)
        outage.late, outage.down = round((given.extra_delay_us or 0) * 1e3), given.extra_delay_us is None
    return outages


def host_of(name: str, workers: int) -> int:
    """Number of a host from 0 on, by its name, w1... or p1..."""
    return int(name[1:]) - 1 + (0 if name[0] == "w" else workers)


def links_of(network: Network, hosts: int) -> Records[Link]:
    """LINK[hosts], all alike."""
    links = records(hosts, Link)
    links.delay = round(network.delay_us * 1e3)
    links.ps_per_byte = 0 if network.rate_mbit == 0 else round(8 * _PS_PER_S / (network.rate_mbit * 1e6))
    links.limit = round(network.queue_kb * 1024)
    links.mark = NEVER if network.mark_kb is None else round(network.mark_kb * 1024)
    links.late_ns = round(network.extra_delay_us * 1e3)
    links.loss, links.duplication, links.reordering = network.loss, network.duplication, network.reordering
    links.impaired = max(network.loss, network.duplication, network.reordering) > 0
    return links
