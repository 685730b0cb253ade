"""Report what was seen of a server, and write its files: the costs of hosts, and a log of connections."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.disturbed_blocks import CostSources, withheld_by
from analysis.figures.connections import WINDOW_US
from analysis.sentences.answers import costs_withheld
from analysis.sentences.differences import disturbances
from foundation.logs.columns import CONNECTIONS
from foundation.logs.parts import atomic_path, make_folder, write_text
from foundation.protocol.header import HEADER_BYTES, KEY_BYTES, LANES, VALUE_BYTES
from foundation.settings import Strict
from foundation.text import pluralize
from hotline_answers.hosts_file import hosts_text
from hotline_answers.probe.contention import WatchedSecond, sources_of_probe
from hotline_answers.probe.processes import ProbeError, ServedPort
from hotline_answers.probe.requests import (
    UNKNOWN,
    SocketEvents,
    SocketRequests,
    concurrent_flows,
    requests_of,
)
from hotline_answers.probe.watch import WatchedServer
from hotline_simulator.costs import HostCosts

HOSTS_FILE, LOG_FILE = "hosts.toml", "connections.parquet"
FULL_RPC_BYTES = 2 * HEADER_BYTES + LANES * (KEY_BYTES + VALUE_BYTES)
"""Bytes of a pull or push of our agents and of its answer, with a row of one value in each lane."""
OUT_OF_SIGHT = "RDMA and shared memory are out of its sight"
_MAX_LOST_SHARE = 0.01
"""Share of lost events from which the results are in doubt."""
_MAX_WORKER = 0xFFFF  # of the log's column


class ProbeDistribution(Strict):
    count: int
    mean: float
    p50: float
    p99: float
    max: float


class ProbeReport(Strict):
    """Times in µs, sizes in bytes."""

    seconds: float
    processes: int
    ports: tuple[str, ...]
    requests: int
    answered: int
    connections: int
    """Connections of TCP with a request, and peers of UDP sockets."""
    bytes_in: int
    bytes_out: int
    cpu_us: float
    """CPU time of all processes."""
    concurrent: ProbeDistribution
    """Connections with a request in a window of 1,000 µs, over windows with a request."""
    wait_us: ProbeDistribution | None
    """From the arrival of a request's last part to its read."""
    service_us: ProbeDistribution | None
    """From the last read of a request to the first write that follows."""
    lost_events: int
    steal_share: float = 0.0
    """Share of all CPUs' time that the hypervisor took."""
    others_cpu_share: float = 0.0
    """Share of all CPUs' time that other programs used."""
    longest_wait_share: float = 0.0
    """Share of time in which the thread of the server that waited most in each second waited for a CPU."""
    sources: CostSources = ()
    """Disturbances of the seconds of the watch."""
    notes: tuple[str, ...]

    @property
    def cpu_us_per_request(self) -> float:
        return self.cpu_us / self.requests

    @property
    def rpcs_per_request(self) -> float:
        """Full RPCs of our agents that move as many bytes as a request and its answer; at least 1."""
        return max(1.0, (self.bytes_in + self.bytes_out) / self.requests / FULL_RPC_BYTES)


def evaluate(
    server: WatchedServer, notes: Sequence[str] = (), by_address: bool = False
) -> tuple[ProbeReport, pl.DataFrame]:
    """Return the report, and the log of connections, whose `ps` is 1; raises ProbeError without requests.

    `by_address` takes all flows of a peer's address to one port as one.
    """
    events = _merge_by_address(server) if by_address else server.events
    requests = requests_of(events)
    if not requests.total:
        raise ProbeError(
            f"no request in {server.seconds:.0f} s: expected traffic at a port of the server. {OUT_OF_SIGHT}"
        )
    log = _connection_log(requests, server.clock_offset_ns)
    sources = sources_of_probe(server.contention)
    served_ports = {str(server.flows[flow].served) for flow in np.unique(events.flow)}
    report = ProbeReport(
        seconds=server.seconds,
        processes=server.processes,
        ports=tuple(sorted(served_ports)),
        requests=requests.total,
        answered=int(np.count_nonzero(requests.service_ns != UNKNOWN)),
        connections=len(np.unique(requests.flow)),
        bytes_in=int(events.size[~events.is_write].sum()),
        bytes_out=int(events.size[events.is_write].sum()),
        cpu_us=server.cpu_ns / 1e3,
        concurrent=_distribution(
            concurrent_flows(log["time_us"].to_numpy(), log["worker"].to_numpy(), WINDOW_US).astype(
                np.float64
            )
        ),
        wait_us=_known_times(requests.wait_ns),
        service_us=_known_times(requests.service_ns),
        lost_events=server.lost_events,
        **_shares(server.contention),
        sources=sources,
        notes=(*notes, *_doubts(server), *_disturbances(sources)),
    )
    return report, log


def _shares(seconds: Sequence[WatchedSecond]) -> dict[str, float]:
    total_ms = sum(second.contention.duration_ms for second in seconds)
    if not total_ms:
        return {}
    cpu_ms = total_ms * (os.cpu_count() or 1)
    return {
        "steal_share": sum(second.contention.steal_ms for second in seconds) / cpu_ms,
        "others_cpu_share": sum(second.contention.others_cpu_ms for second in seconds) / cpu_ms,
        "longest_wait_share": sum(second.longest_wait_ms for second in seconds) / total_ms,
    }


def _disturbances(sources: CostSources) -> list[str]:
    if (withheld := withheld_by(sources)) is not None:
        return [f"nothing can be claimed from these costs: {costs_withheld(withheld)}"]
    return [f"while it was watched, {disturbances(blocks)}" for blocks in sources if blocks.disturbed]


def _merge_by_address(server: WatchedServer) -> SocketEvents:
    first = dict[tuple[ServedPort, str | None], int]()
    merged = [first.setdefault((flow.served, flow.address), n) for n, flow in enumerate(server.flows)]
    return server.events._replace(flow=np.array(merged, np.int64)[server.events.flow])


def _doubts(server: WatchedServer) -> list[str]:
    events = len(server.events.flow) + server.lost_events
    if server.lost_events <= _MAX_LOST_SHARE * events:
        return []
    return [
        f"{server.lost_events:,} of {events:,} reads and writes were lost, since this process was too slow: "
        "requests, bytes and connections are too few, and CPU time for a request is too large"
    ]


def _known_times(times_ns: NDArray[np.int64]) -> ProbeDistribution | None:
    known = times_ns[times_ns != UNKNOWN]
    return _distribution(known / 1e3) if len(known) else None


def _distribution(values: NDArray[np.float64]) -> ProbeDistribution:
    p50, p99 = np.quantile(values, (0.5, 0.99), method="inverted_cdf")
    return ProbeDistribution(count=len(values), mean=values.mean(), p50=p50, p99=p99, max=values.max())


def _connection_log(requests: SocketRequests, clock_offset_ns: int) -> pl.DataFrame:
    _, worker = np.unique(requests.flow, return_inverse=True)
    log = pl.DataFrame(
        {
            "time_us": (requests.arrived_ns + clock_offset_ns) // 1000,
            "ps": np.ones(requests.total),
            "worker": worker + 1,
            "job": np.zeros(requests.total),
        }
    )
    kinds = dict(CONNECTIONS)
    if worker.max() >= _MAX_WORKER:
        kinds["worker"] = pl.UInt32()
    return log.select(pl.col(name).cast(kind) for name, kind in kinds.items()).sort("time_us")


def hosts_of(report: ProbeReport) -> HostCosts:
    """Return costs with which a simulated server takes as much CPU time for an RPC as the real one.

    It takes `take_ns` for reading a request, `serve_ns` and `send_ns`. The first and last are those of our
    agents, of workers too, unless the server takes less in total.
    """
    cpu_ns, defaults = report.cpu_us_per_request * 1e3 / report.rpcs_per_request, HostCosts()
    factor = min(1.0, cpu_ns / (defaults.take_ns + defaults.serve_ns + defaults.send_ns))
    take_ns, send_ns = round(factor * defaults.take_ns), round(factor * defaults.send_ns)
    # What lanes and values cost is in the CPU time of a request already.
    return HostCosts(
        take_ns=take_ns, send_ns=send_ns, serve_ns=max(round(cpu_ns) - take_ns - send_ns, 0),
        lane_ns=0, value_ns=0.0, sources=report.sources,
    )  # fmt: skip


def write_files(folder: Path, report: ProbeReport, log: pl.DataFrame, ps: int) -> None:
    make_folder(folder)
    with atomic_path(folder / LOG_FILE) as partial:
        log.with_columns(ps=pl.lit(ps, CONNECTIONS["ps"])).write_parquet(partial)
    bytes_per_request = (report.bytes_in + report.bytes_out) / report.requests
    comments = [
        f"Measured by `hotline probe` in {report.seconds:.1f} s: {pluralize(report.requests, 'request')} at "
        f"{', '.join(report.ports)}, {report.cpu_us_per_request:,.1f} µs of CPU time for each.",
        f"A request and its answer move {bytes_per_request:,.0f} bytes, as {report.rpcs_per_request:,.1f} "
        f"RPCs of Hotline's ({FULL_RPC_BYTES} bytes).",
        "A simulated server takes an equal part of that time for each RPC: take_ns + serve_ns + send_ns.",
        f"Meanwhile the hypervisor took {report.steal_share:.1%} of the CPUs' time, and other programs "
        f"{report.others_cpu_share:.1%}; a thread waited for a CPU for up to {report.longest_wait_share:.1%} "
        "of a second.",
        "How much of it each value takes (lane_ns) cannot be seen. Workers' costs are those of Hotline's.",
        *report.notes,
    ]
    write_text(folder / HOSTS_FILE, hosts_text(hosts_of(report), comments))
