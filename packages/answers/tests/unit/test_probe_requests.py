"""Requests of flows are those of a plain state machine, and costs, windows and logs are derived from them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.figures.connections import WINDOW_US, concurrency_of
from analysis.figures.figure_data import Source
from foundation.logs.check import check
from foundation.logs.cluster import open_cluster
from hotline_answers.probe.processes import ProbeError, ServedPort
from hotline_answers.probe.report import (
    FULL_RPC_BYTES,
    HOSTS_FILE,
    LOG_FILE,
    evaluate,
    hosts_of,
    write_files,
)
from hotline_answers.probe.requests import UNKNOWN, SocketEvents, concurrent_flows, requests_of
from hotline_answers.probe.watch import SocketFlow, WatchedServer
from hotline_simulator.config import load_hosts
from hotline_simulator.costs import HostCosts
from switch_harness.effort import examples
from switch_harness.wording import mentions, says

OFFSET_NS = 1_700_000_000_000_000_000


class Event(NamedTuple):
    flow: int
    is_write: bool
    wait: int | None = None  # ns before the read
    size: int = 1


class Request(NamedTuple):
    flow: int
    arrived_ns: int
    wait_ns: int
    service_ns: int


def columns(events: list[Event], tcp_flows: set[int]) -> SocketEvents:
    """Return events that happen 100 ns after each other."""
    time_ns = 1_000_000 + 100 * np.arange(len(events))
    arrived = [
        UNKNOWN if each.wait is None else int(t) - each.wait for each, t in zip(events, time_ns, strict=True)
    ]
    return SocketEvents(
        np.array([each.flow for each in events], np.int64),
        time_ns,
        np.array(arrived, np.int64),
        np.array([each.size for each in events], np.int64),
        np.array([each.is_write for each in events], bool),
        np.array([each.flow in tcp_flows for each in events], bool),
    )


def plain_requests(events: SocketEvents) -> list[Request]:
    """Follow each flow event by event."""
    found: list[tuple[int, list[int]]] = []  # (flow, [begin, last read, answer or UNKNOWN])
    reads: dict[int, list[list[int]]] = defaultdict(list)  # unanswered requests since the last write
    has_answered: dict[int, bool] = defaultdict(bool)
    for n in range(len(events.flow)):
        flow, is_tcp = int(events.flow[n]), bool(events.is_tcp[n])
        if events.is_write[n]:
            has_answered[flow] = True
            if reads[flow]:
                reads[flow].pop(0)[2] = n
            continue
        if has_answered[flow]:
            reads[flow], has_answered[flow] = [], False
        if is_tcp and reads[flow]:
            reads[flow][0][1] = n
        else:
            reads[flow].append([n, n, UNKNOWN])
            found.append((flow, reads[flow][-1]))
    times, arrived = events.time_ns, events.arrived_ns
    return [
        Request(
            flow,
            int(times[begin] if arrived[begin] == UNKNOWN else arrived[begin]),
            UNKNOWN if arrived[last] == UNKNOWN else int(times[last] - arrived[last]),
            UNKNOWN if answer == UNKNOWN else int(times[answer] - times[last]),
        )
        for flow, (begin, last, answer) in sorted(found)
    ]


EVENTS = st.lists(
    st.builds(
        Event,
        flow=st.integers(0, 3),
        is_write=st.booleans(),
        wait=st.none() | st.integers(0, 500),
        size=st.integers(0, 9),
    ),
    max_size=30,
)


@settings(max_examples=examples(200))
@given(EVENTS, st.sets(st.integers(0, 3)))
def test_requests_equal_the_requests_of_a_plain_state_machine(
    events: list[Event], tcp_flows: set[int]
) -> None:
    seen = columns([each._replace(wait=None) if each.is_write else each for each in events], tcp_flows)
    shuffled = seen.select(np.random.default_rng(1).permutation(len(events)))
    found = requests_of(shuffled)
    assert [Request(*map(int, row)) for row in zip(*found, strict=True)] == plain_requests(seen)


READ, WRITE = False, True
KINDS = {
    # flow 0 is of TCP, flow 1 of UDP
    "each read is answered": ("rwrw", 2, 2),
    "a request comes in three reads, and its answer leaves in two writes": ("rrrwwrw", 2, 4),
    "requests that are read together count once over TCP": ("rrww", 1, 2),
    "the watch begins before an answer": ("wrw", 1, 1),
    "the watch ends before an answer": ("rwr", 2, 2),
    "nothing is ever answered": ("rrr", 1, 3),
    "nothing is ever asked": ("www", 0, 0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_requests_are_counted_over_tcp_and_udp_for_each_kind_of_traffic(kind: str) -> None:
    letters, over_tcp, over_udp = KINDS[kind]
    for flow, expected in enumerate((over_tcp, over_udp)):
        found = requests_of(columns([Event(flow, letter == "w") for letter in letters], {0}))
        assert found.total == expected, flow


def test_times_are_from_the_last_read() -> None:
    events = [Event(0, READ, 30), Event(0, READ, 40), Event(0, WRITE), Event(0, WRITE)]
    found = requests_of(columns(events, {0}))
    assert (found.arrived_ns - 1_000_000).tolist() == [-30]
    assert (found.wait_ns.tolist(), found.service_ns.tolist()) == ([40], [100])
    # Over UDP, the second answer is that to the second request.
    found = requests_of(columns(events, set()))
    assert (found.wait_ns.tolist(), found.service_ns.tolist()) == ([30, 40], [200, 200])


def watched(events: SocketEvents, cpu_ns: int, lost_events: int = 0) -> WatchedServer:
    flows = [SocketFlow(ServedPort(flow == 0, 7000), f"192.0.2.{flow}", 9) for flow in range(4)]
    return WatchedServer(2.0, 1, cpu_ns, flows, events, OFFSET_NS, lost_events)


def test_a_report_has_sums_and_means() -> None:
    events = [
        Event(0, READ, 10_000, size=30),
        Event(1, READ, 30_000, size=50),
        Event(0, WRITE, size=7),
        Event(1, READ, None, size=50),
        Event(1, WRITE, size=200),
    ]
    report, _ = evaluate(watched(columns(events, {0}), cpu_ns=90_000), ["ended early"])
    assert (report.requests, report.answered, report.connections) == (3, 2, 2)
    assert (report.bytes_in, report.bytes_out) == (130, 207)
    assert report.cpu_us_per_request == 30
    assert report.ports == ("TCP port 7000", "UDP port 7000")
    assert report.wait_us is not None and report.service_us is not None
    assert (report.wait_us.count, report.wait_us.mean, report.wait_us.p99) == (2, 20, 30)
    assert report.service_us.count == 2 and report.service_us.mean == pytest.approx(0.25)
    assert report.notes == ("ended early",)


def test_two_connections_of_one_address_that_alternate_are_merged() -> None:
    """A request's head comes in one connection and its body in another, and the answer leaves in both."""
    events = columns([Event(n, is_write) for is_write in (READ, WRITE) * 5 for n in (0, 1)], {0, 1, 2})
    http = ServedPort(True, 80)
    for second, merged in (
        (SocketFlow(http, "192.0.2.1", 2), (5, 1)),
        (SocketFlow(http, "192.0.2.2", 2), (10, 2)),
        (SocketFlow(ServedPort(True, 81), "192.0.2.1", 2), (10, 2)),
    ):
        server = WatchedServer(1.0, 1, 1, [SocketFlow(http, "192.0.2.1", 1), second], events, OFFSET_NS, 0)
        report, log = evaluate(server, by_address=True)
        assert (report.requests, report.connections) == merged == (log.height, log["worker"].n_unique())
        assert evaluate(server)[0].requests == 10


def test_more_than_1_percent_of_lost_events_give_a_note() -> None:
    events = columns([Event(0, READ)] * 99, {0})
    for lost, doubted in ((1, False), (2, True)):
        report, _ = evaluate(watched(events, 1, lost))
        assert report.lost_events == lost
        assert [says(note, "lost", 99 + lost) for note in report.notes] == [True] * doubted


def test_no_request_is_an_error() -> None:
    with pytest.raises(ProbeError, match=mentions("no request", "2 s", "RDMA", "shared memory")):
        evaluate(watched(columns([], set()), 1))


@pytest.mark.parametrize("cpu_us", [0, 0.9, 3, 6.3, 6.4, 250])
def test_a_simulated_server_takes_the_measured_time(cpu_us: float) -> None:
    report, _ = evaluate(watched(columns([Event(1, READ)] * 10, set()), cpu_ns=round(cpu_us * 10_000)))
    hosts, ours = hosts_of(report), HostCosts()
    assert hosts.take_ns + hosts.serve_ns + hosts.send_ns == pytest.approx(cpu_us * 1000, abs=1)
    assert (hosts.lane_ns, hosts.value_ns) == (0, 0)
    if cpu_us > 6.3:
        assert (hosts.take_ns, hosts.send_ns) == (ours.take_ns, ours.send_ns)
    assert report.rpcs_per_request == 1
    unchanged = set(HostCosts.model_fields) - {"take_ns", "serve_ns", "send_ns", "lane_ns", "value_ns"}
    assert {getattr(hosts, name) == getattr(ours, name) for name in unchanged} == {True}


def test_a_large_request_is_several_rpcs() -> None:
    events = columns([Event(1, READ, size=4 * FULL_RPC_BYTES), Event(1, WRITE, size=FULL_RPC_BYTES)], set())
    report, _ = evaluate(watched(events, cpu_ns=100_000))
    hosts = hosts_of(report)
    assert report.rpcs_per_request == 5
    assert hosts.take_ns + hosts.serve_ns + hosts.send_ns == 20_000


def test_answer_reads_the_written_costs_and_fig_7b_reads_the_written_log(tmp_path: Path) -> None:
    """`answer --hosts` reads the costs, and Fig. 7b reads the log and has the same windows."""
    rng = np.random.default_rng(3)
    events = columns([Event(int(flow), READ, 5) for flow in rng.integers(0, 4, 40_000)], set())
    report, log = evaluate(watched(events, cpu_ns=400_000_000))
    write_files(tmp_path / "out", report, log, ps=7)
    assert load_hosts(tmp_path / "out" / HOSTS_FILE) == hosts_of(report)
    assert check(tmp_path / "out" / LOG_FILE) == {LOG_FILE: 40_000}
    written = pl.read_parquet(tmp_path / "out" / LOG_FILE)
    assert written["ps"].unique().to_list() == [7]
    assert sorted(written["worker"].unique()) == [1, 2, 3, 4]
    assert written["time_us"].is_sorted()
    assert written["time_us"][0] == (OFFSET_NS + 1_000_000 - 5) // 1000
    rpc = {"worker": 1, "ps": 7, "iteration": 0, "op": "pull", "t_send_us": 0, "request_bytes": 1,
           "response_bytes": 1, "w_proc_us": 0.0, "w_queue_us": 0.0, "ps_proc_us": 0.0, "ps_queue_us": 0.0,
           "n_tx_us": 1.0}  # fmt: skip
    pl.DataFrame(rpc).write_parquet(tmp_path / "out" / "rpc.parquet")
    logs = open_cluster(tmp_path / "out", tmp_path)
    source = Source("c", logs.rpc, logs.connections, [], None, ("cluster",))
    [distribution] = concurrency_of(source).values()
    assert [distribution.quantile(q) for q in (0.5, 0.99)] == [report.concurrent.p50, report.concurrent.p99]
    # 40,000 events of 100 ns are in 5 windows of a millisecond, of which the first is empty or nearly so.
    assert report.concurrent.count in (4, 5)


@pytest.mark.parametrize("flows", [0xFFFF, 0x10000])
def test_a_log_has_a_worker_for_each_of_65536_connections(flows: int) -> None:
    events = columns([Event(flow, READ) for flow in range(flows)], set())
    any_flow = SocketFlow(ServedPort(False, 7000), "192.0.2.1", 9)
    _, log = evaluate(WatchedServer(1.0, 1, 1, [any_flow] * flows, events, OFFSET_NS, 0))
    assert log["worker"].n_unique() == flows == log["worker"].max()


def test_windows_without_a_request_do_not_count() -> None:
    time_us = np.array([10, 20, 999, 1000, 5000, 5999])
    flow = np.array([1, 1, 2, 1, 3, 4])
    assert concurrent_flows(time_us, flow, WINDOW_US).tolist() == [2, 1, 2]
    assert concurrent_flows(time_us[:0], flow[:0], WINDOW_US).tolist() == []
