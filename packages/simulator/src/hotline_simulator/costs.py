"""Costs of hosts and cables: durations of agents, cores that they share, speed and faults of links."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator
from typing_extensions import Self

from analysis.disturbance import BlockKey, blocks_without_costs, cost_sources, is_outside
from analysis.disturbed_blocks import CostSources
from analysis.record import read_record
from experiment.defaults import CABLE_QUEUE_KB
from foundation.designs.arms import arm as arm_of
from foundation.errors import DataError, reason_of
from foundation.settings import Strict
from hotline_agents.interface import NEVER
from hotline_simulator import measured_costs
from hotline_simulator.state import QUANTILES, AgentDurations, Outage
from nativekit.records import Records, one_record, records
from softswitch.network.state import LinkState
from softswitch.queues.fifo import WIRE_OVERHEAD
from softswitch.queues.shape import MAX_RATE, UNLIMITED, Shape, byte_depth

_NS_PER_S = 1_000_000_000
_PICOSECONDS_PER_S = 10**12
_MAX_NS = 60 * _NS_PER_S
_MAX_US = _MAX_NS // 1000
_MAX_MS = 10**9
_MAX_KB = 10**9
_MIN_MBIT = 0.001
_MAX_MBIT = MAX_RATE // 10**6
_MIN_MPPS, _MAX_MPPS = 0.000_001, 1_000_000
_MAX_WORKERS = 2**16


class LinkOutage(Strict):
    host: str = Field(pattern=r"^[wp][1-9]\d{0,3}$")
    """w3 is the third worker, p1 the first PS."""
    from_ms: float = Field(ge=0, le=_MAX_MS)
    duration_ms: float = Field(gt=0, le=_MAX_MS)
    every_ms: float | None = Field(default=None, gt=0, le=_MAX_MS)
    """Period after which the outage recurs; None means once."""
    extra_delay_us: float | None = Field(default=None, gt=0, le=_MAX_US)
    """Extra delay of a frame during the outage; None drops it."""

    @model_validator(mode="after")
    def _check_pauses(self) -> Self:
        if self.every_ms is not None and self.every_ms <= self.duration_ms:
            raise ValueError(
                f"every_ms ({self.every_ms:g}) must be more than duration_ms ({self.duration_ms:g})"
            )
        return self


class Network(Strict):
    rate_mbit: float = Field(default=10_000.0, ge=0, le=_MAX_MBIT)
    """Bandwidth of a cable; 0 means unlimited."""
    delay_us: float = Field(default=1.0, ge=0, le=_MAX_US)
    """Propagation delay, and anything else that is constant for every frame."""
    queue_kb: float = Field(default=CABLE_QUEUE_KB, gt=0, le=_MAX_KB)
    """Capacity of the queue before a cable, in 1,024 bytes; frames beyond it are dropped."""
    mark_kb: float | None = Field(default=None, ge=0, le=_MAX_KB)
    """Queue length, in 1,024 bytes, from which ECN-capable frames are marked; None marks none."""
    loss: float = Field(default=0.0, ge=0, lt=1)
    duplication: float = Field(default=0.0, ge=0, lt=1)
    reordering: float = Field(default=0.0, ge=0, lt=1)
    extra_delay_us: float = Field(default=1_000.0, ge=0, le=_MAX_US)
    """Maximum extra delay of a reordered frame."""
    switch_us: float = Field(default=0.0, ge=0, le=_MAX_US)
    """Time of a frame through the switch, from its last bit in to its first bit out."""
    switch_mpps: float = Field(default=0.0, ge=0, le=_MAX_MPPS)
    """Packet rate of the switch, millions of frames a second; 0 means unlimited."""
    switch_lanes: Literal[8, 16, 32] = 32
    """Lanes in which the switch serves keys, and of an RPC in arms whose switch aggregates or is a proxy; in
    other arms RPCs have 32."""
    cold_lanes: Literal[0, 8, 16] = 0
    """Lanes that such an RPC has more, with keys that the switch passes on without reading them: as many as
    `switch_lanes`, or none."""
    traffic_manager: bool = False
    """Whether packets queue between ingress and egress, as in softswitch with --port-rate. Then the program
    sees queue depths and may mark packets. Otherwise they queue behind egress, before the cable."""
    outages: tuple[LinkOutage, ...] = ()
    rack: int | None = Field(default=None, ge=2, le=_MAX_WORKERS)
    """Workers per rack uplink; None gives every worker its own port."""
    uplink_mbit: float | None = Field(default=None, ge=0, le=_MAX_MBIT)
    """Bandwidth of a rack's uplink, Mbit/s; None is the sum of its hosts' cables."""

    @field_validator("switch_mpps")
    @classmethod
    def _check_packet_rate(cls, mpps: float) -> float:
        if mpps and mpps < _MIN_MPPS:
            raise ValueError(f"expected 0 (unlimited) or at least {_MIN_MPPS:f}, got {mpps:g}")
        return mpps

    @field_validator("rate_mbit", "uplink_mbit")
    @classmethod
    def _check_rate(cls, mbit: float | None) -> float | None:
        # Below this rate, the duration of a frame overflows a clock that counts picoseconds.
        if mbit and mbit < _MIN_MBIT:
            raise ValueError(f"expected 0 (unlimited) or at least {_MIN_MBIT}, got {mbit:g}")
        return mbit


class HostCosts(Strict):
    """CPU times of agents in ns, with 3,000 keys a step.

    Those of `hotline_simulator.measured_costs` are fitted to the bench, with its date and machine. The others
    are of runs on two cores of an AMD EPYC and of an Intel Xeon. By default each agent has a core, and the
    switch takes no host's time.
    """

    worker_cores: int | None = Field(default=None, ge=1)
    """Cores that all workers share; None gives each worker a core of its own."""
    server_cores: int | None = Field(default=None, ge=1)
    wake_ns: int = Field(default=5_000, ge=0, le=_MAX_NS)
    """CPU time of an agent for each time that it sleeps or yields its core: context switches there and back,
    and caches that have become cold. The next agent on its core waits for so long."""
    idle_ns: int = Field(default=5_000, ge=0, le=_MAX_NS)
    """Time of waking an idle core, which no agent's CPU time has; about 40 µs in a virtual machine."""
    slice_ns: int = Field(default=1_400_000, ge=1, le=_MAX_NS)
    """Time after which an agent yields its core to one that waits: a slice of Linux 6.12 on two CPUs."""
    encode_ns: int = Field(
        default=measured_costs.ENCODE_NS, ge=0, le=_MAX_NS
    )  # a worker's time to make a datagram
    send_ns: int = Field(default=measured_costs.SEND_NS, ge=0, le=_MAX_NS)
    """Kernel time of each datagram sent."""
    take_ns: int = Field(default=1_000, ge=0, le=_MAX_NS)
    """Kernel time of each burst received."""
    receive_ns: int = Field(default=400, ge=0, le=_MAX_NS)
    """`W_proc`: a worker's time for each answer."""
    begin_ns: int = Field(default=measured_costs.BEGIN_NS, ge=0, le=_MAX_NS)
    """A worker's time to begin an operation: it packs keys into requests."""
    finish_ns: int = Field(default=0, ge=0, le=_MAX_NS)
    """A worker's time from the last answer of an operation to its end."""
    end_ns: int = Field(default=100_000, ge=0, le=_MAX_NS)
    """A worker's time after an operation: half of the computing and ledger entries of a step."""
    cold_ns: int = Field(default=0, ge=0, le=_MAX_NS)
    """Extra time of an operation that wakes an idle core with cold caches."""
    push_ns: int = Field(default=0, ge=0, le=_MAX_NS)
    """A worker's extra time from the last answer of a push to its end: it adds the values to its ledger."""
    operation_value_ns: float = Field(default=0.5, ge=0, le=_MAX_NS)
    """A worker's extra time for each further value of an operation's rows."""
    serve_ns: int = Field(default=measured_costs.SERVE_NS, ge=0, le=_MAX_NS)
    """`PS_proc`: a server's time for each request."""
    lane_ns: int = Field(default=6, ge=0, le=_MAX_NS)
    """Extra time for each lane of a request that the switch has not served: a row with its first value."""
    value_ns: float = Field(default=1.0, ge=0, le=_MAX_NS)
    """Extra time for each further value of such a row."""
    connection_ns: int = Field(default=0, ge=0, le=_MAX_NS)
    """Time for each connection that a PS polls before a burst, if it scans its sockets (Pan et al. Fig. 9).
    With the proxy a PS has one connection, otherwise one for each worker."""
    contention: float = Field(default=0.0, ge=0, le=1_000)
    """Extra time of a request for each other request that a PS processes meanwhile, as a share of the time
    that it takes alone: concurrent reads and writes compete for locks and caches (Pan et al. §3.2)."""
    latency_ns: int = Field(default=0, ge=0, le=_MAX_NS)
    """Further `PS_proc` of each request, in which the PS processes other requests, too. A machine of k cores
    that take t for a request is a PS with `serve_ns` of t / k and `latency_ns` of t - t / k (Seidmann et al.,
    *Computerized closed queueing network models of flexible manufacturing systems*, 1987)."""
    has_request_threads: bool = False
    """Whether each request has a thread from the burst on in which it arrives. Then `PS_proc` has the time
    for which threads share the core, and `PS_queue` only what precedes it: polling and the receive call."""
    program_ns: int | None = Field(default=None, ge=0, le=_MAX_NS)
    """Time of the switch's program for a frame on its sender's core, as in the kernel's datapath. None makes
    the switch a separate device that takes no host's time."""
    lookup_ns: int = Field(default=0, ge=0, le=_MAX_NS)
    """Extra time of a worker's frame in arms whose switch aggregates: the program looks up its keys."""
    hit_ns: int = Field(default=0, ge=0, le=_MAX_NS)
    """Further extra time of a frame that the switch answers."""
    answer_ns: int = Field(default=0, ge=0, le=_MAX_NS)
    """Extra time of a server's frame in arms whose switch aggregates: the program looks up its keys."""
    noise_every_us: float | None = Field(default=None, gt=0, le=_MAX_US)
    """Mean busy time of a core between two interruptions by the kernel or the hypervisor."""
    noise_us: float = Field(default=0.0, ge=0, le=_MAX_US)
    """Mean duration of an interruption; both are exponentially distributed."""
    server_share: float = Field(default=1.0, gt=0, le=1)
    """Share of each server and its cable that the simulated workers get; workers that are not simulated take
    the rest. Both take 1 / `server_share` times as long; the capacities of buffers do not change."""
    measured: Path | None = None
    """Run folder to draw `W_proc` and `PS_proc` from, instead of `receive_ns`, `serve_ns`, `lane_ns` and
    `value_ns`."""
    sources: CostSources = ()
    """Disturbances of the blocks in which the costs were measured; with too many, nothing is claimed."""


def sources_of(hosts: HostCosts) -> CostSources:
    """Return what disturbed the measurement of costs; if it is not said, that of the run `measured`."""
    if hosts.sources or hosts.measured is None or not (hosts.measured / "run.json").exists():
        return hosts.sources
    record = read_record(hosts.measured)
    return cost_sources(record, {block.arm for block in record.blocks})


def costs_of(hosts: HostCosts, arm: str | None = None) -> AgentDurations:
    costs = one_record(AgentDurations)
    costs.wake_ns, costs.idle_ns, costs.slice_ns = hosts.wake_ns, hosts.idle_ns, hosts.slice_ns
    costs.encode_ns, costs.send_ns, costs.take_ns = hosts.encode_ns, hosts.send_ns, hosts.take_ns
    share = hosts.server_share
    # A server polls the connections of all workers, 1 / share as many, and takes 1 / share as long for each.
    costs.connection_ns = round(hosts.connection_ns / share**2)
    costs.lane_ns = round(hosts.lane_ns / share)
    costs.value_ns = hosts.value_ns / share
    costs.contention, costs.has_request_threads = hosts.contention, hosts.has_request_threads
    costs.latency_ns = hosts.latency_ns
    costs.program_runs_at_sender = hosts.program_ns is not None
    costs.noise_every_ns = round((hosts.noise_every_us or 0) * 1e3)
    costs.noise_ns = round(hosts.noise_us * 1e3)
    costs.serve_take_ns, costs.serve_send_ns = round(hosts.take_ns / share), round(hosts.send_ns / share)
    receive, serve = np.array(hosts.receive_ns), np.array(hosts.serve_ns)
    if hosts.measured is not None:
        receive, serve = measured_times(hosts.measured, arm)
        costs.lane_ns, costs.value_ns = 0, 0.0
    costs.receive_ns[:], costs.serve_ns[:] = receive, np.rint(serve / share).astype(np.int64)
    return costs


class PassTimes(NamedTuple):
    """Times in ns of a pass on the core of a frame's sender; all are 0 if the switch is a device."""

    of_worker: int
    of_server: int
    answered: int  # further time if the switch answers


def pass_times_of(hosts: HostCosts, arm: str) -> PassTimes:
    if hosts.program_ns is None:
        return PassTimes(0, 0, 0)
    looks_up = arm_of(arm).settings.aggregates
    of_worker, of_server = (hosts.lookup_ns, hosts.answer_ns) if looks_up else (0, 0)
    return PassTimes(hosts.program_ns + of_worker, hosts.program_ns + of_server, hosts.hit_ns)


def measured_times(run: Path, arm: str | None = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return quantiles in ns of `W_proc` and `PS_proc` (where a PS answered) of a run's measured RPCs.

    Only RPCs of `arm` count, as servers with fewer requests take longer for each. If `arm` is None or was not
    measured, all RPCs count. Those of disturbed blocks do not count.
    """
    # Logs of other programs have no record, and no blocks.
    without = blocks_without_costs(read_record(run)) if (run / "run.json").exists() else ()
    try:
        return _measured_times(run, arm, without, (run / "rpc.parquet").stat().st_mtime_ns)
    except OSError as error:
        raise DataError(f"{run}: cannot be read as a run: {reason_of(error)}") from error


@lru_cache(maxsize=8)
def _measured_times(
    run: Path, arm: str | None, without: tuple[BlockKey, ...], _modified_ns: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    # Cached, because each simulation of a run reads these times; `_modified_ns` detects a changed file.
    try:
        all_rows = pl.scan_parquet(run / "rpc.parquet").filter(pl.col("measured")).filter(is_outside(without))
        is_of_arm = (pl.col("arm") == (arm or "")).alias("is_of_arm")
        times_us = all_rows.select("w_proc_us", "ps_proc_us", is_of_arm).collect()
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{run}: cannot be read as a run: {str(error).splitlines()[0]}") from error
    times_of_arm = times_us.filter("is_of_arm")
    times_us = times_of_arm if (times_of_arm["ps_proc_us"] > 0).any() else times_us
    probabilities = (np.arange(QUANTILES) + 0.5) / QUANTILES
    serve = times_us["ps_proc_us"].filter(times_us["ps_proc_us"] > 0).to_numpy()
    if not len(serve):
        raise DataError(f"{run}: expected a measured RPC that a PS answered")
    receive_ns, serve_ns = (
        np.rint(np.quantile(each, probabilities) * 1e3).astype(np.int64)
        for each in (times_us["w_proc_us"].to_numpy(), serve)
    )
    return receive_ns, serve_ns


def shapes_of(network: Network, interfaces: int) -> list[Shape]:
    """Return the shape of the queues of each interface; without a traffic manager there are none."""
    if not network.traffic_manager:
        return []
    return [Shape(UNLIMITED, byte_depth(round(network.queue_kb * 1024)))] * interfaces


def uplink_mbit(network: Network, hosts: int) -> float:
    """Return the bandwidth in Mbit/s of the uplink of a rack with `hosts` hosts."""
    return hosts * network.rate_mbit if network.uplink_mbit is None else network.uplink_mbit


def uplinks_of(network: Network, uplinks: int, mbit: float) -> Records[LinkState]:
    """Return the uplinks, which have no faults, of racks or leaves, with a bandwidth in Mbit/s each."""
    without_faults = {"rate_mbit": mbit, "loss": 0.0, "duplication": 0.0, "reordering": 0.0}
    return links_of(network.model_copy(update=without_faults), uplinks)


def switch_times_of(network: Network) -> tuple[int, int]:
    """Return a frame's time through the switch, ns, and the minimum time between two frames, ps."""
    gap_ps = round(_PICOSECONDS_PER_S / (network.switch_mpps * 1e6)) if network.switch_mpps else 0
    return round(network.switch_us * 1e3), gap_ps


def outages_of(network: Network, workers: int) -> Records[Outage]:
    outages = records(len(network.outages), Outage)
    for outage, setting in zip(outages, network.outages, strict=True):
        outage.host = host_of(setting.host, workers)
        outage.begin_ns, outage.duration_ns = round(setting.from_ms * 1e6), round(setting.duration_ms * 1e6)
        outage.period_ns = round((setting.every_ms or 0) * 1e6)
        outage.extra_delay_ns = round((setting.extra_delay_us or 0) * 1e3)
        outage.drops_frames = setting.extra_delay_us is None
    return outages


def host_of(name: str, workers: int) -> int:
    """Return the number of a host, from 0, by its name: w1... or p1..."""
    return int(name[1:]) - 1 + (0 if name[0] == "w" else workers)


def links_of(network: Network, hosts: int) -> Records[LinkState]:
    links = records(hosts, LinkState)
    links.delay = round(network.delay_us * 1e3)
    links.picoseconds_per_byte = (
        0 if network.rate_mbit == 0 else round(8 * _PICOSECONDS_PER_S / (network.rate_mbit * 1e6))
    )
    links.limit = max(1, round(network.queue_kb * 1024))
    links.ecn_threshold = NEVER if network.mark_kb is None else round(network.mark_kb * 1024)
    links.overhead = WIRE_OVERHEAD
    links.max_extra_delay = round(network.extra_delay_us * 1e3)
    set_frame_faults(links, network.loss, network.duplication, network.reordering)
    return links


def cables_of(network: Network, hosts: HostCosts, workers: int, servers: int) -> Records[LinkState]:
    cables = links_of(network, workers + servers)
    cables.picoseconds_per_byte[workers:] = np.rint(
        cables.picoseconds_per_byte[workers:] / hosts.server_share
    )
    return cables


def set_frame_faults(links: Records[LinkState], loss: float, duplication: float, reordering: float) -> None:
    links.loss, links.duplication, links.reordering = loss, duplication, reordering
    links.is_impaired = max(loss, duplication, reordering) > 0
