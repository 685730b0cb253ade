"""Servers that process requests at once: competition, latency beside other requests, and threads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from foundation.designs.hotset import BASELINE
from hotline_simulator.costs import HostCosts
from packages.simulator.tests.unit.networks import RandomTestbed

SERVE_NS = 20_000
QUICK: Mapping[str, int] = {
    "wake_ns": 0,
    "idle_ns": 0,
    "take_ns": 0,
    "send_ns": 0,
    "lane_ns": 0,
    "serve_ns": SERVE_NS,
}


def operated(workers: int = 1, **costs: float) -> RandomTestbed:
    """Return a testbed with one server after three operations of each worker."""
    hosts = HostCosts.model_validate({**QUICK, **costs})
    testbed = RandomTestbed(BASELINE, workers=workers, servers=1, hosts=hosts)
    testbed.operate(3)
    return testbed


def logged(testbed: RandomTestbed, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    logs = [client.records[name] for client in testbed.network.clients]
    return np.concatenate(logs).astype(np.int64)


def test_requests_of_a_burst_compete_by_their_number() -> None:
    """With competition of 1, a request among k others takes k + 1 times as long as one that is alone."""
    alone, competing = (logged(operated(6, contention=share), "ps_proc") for share in (0.0, 1.0))
    assert set(alone) == {SERVE_NS}
    assert {ns % SERVE_NS for ns in competing} == {0} and competing.min() == SERVE_NS < competing.max()


def test_competition_takes_cpu_time_of_the_server() -> None:
    used = [operated(6, contention=share).network.server_used_ns() for share in (0.0, 0.5)]
    assert used[1] > 1.2 * used[0]


def test_latency_of_a_server_lengthens_requests_and_takes_no_cpu_time() -> None:
    latency_ns = 300_000
    without, delayed = operated(), operated(latency_ns=latency_ns)
    assert set(logged(delayed, "ps_proc") - latency_ns) == set(logged(without, "ps_proc")) == {SERVE_NS}
    assert delayed.network.server_used_ns() == without.network.server_used_ns()
    # One worker's three operations wait for the latency at least once each.
    assert delayed.network.now - without.network.now >= 3 * latency_ns


def test_a_server_serves_further_requests_during_the_latency_of_one() -> None:
    latency_ns = 1_000_000
    one, six = (operated(workers, latency_ns=latency_ns).network.now for workers in (1, 6))
    assert six < 2 * one


@pytest.mark.parametrize("poll_ns", [0, 2_000])
def test_a_request_with_a_thread_waits_for_the_poll_only(poll_ns: int) -> None:
    """The sum of both times is the same as without threads, and so are answers."""
    workers = 6
    costs = {"connection_ns": poll_ns}
    without, threads = (operated(workers, has_request_threads=has, **costs) for has in (False, True))
    queued = logged(threads, "ps_queue")
    assert queued.max() <= workers * poll_ns < logged(without, "ps_queue").max()
    sums = [logged(each, "ps_queue") + logged(each, "ps_proc") for each in (without, threads)]
    assert (sums[0] == sums[1]).all() and threads.network.now == without.network.now
