"""The CPU cost of an RPC, by design and codec, and without answers."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from experiment.run_config import Config
from foundation.designs.interface import Design
from foundation.designs.registry import DEFAULT, NAMES, design
from hosts.rpc_cost import RpcCost
from hosts.scapy import cost
from hosts.scapy.cost import measure_scapy_cost
from hotline_agents import rpc_cost
from hotline_agents.codec import COMPILED_AGENTS
from hotline_agents.rpc_cost import measure_rpc_cost
from hotline_agents.warm import warm
from hotline_agents.worker.compiled_loop import operate
from topologies import calibrate as room
from topologies.calibrate import measure_agent_costs

# Where workers push together, a single one gets no answer.
ALONE = [name for name in NAMES if not design(name).is_lockstep]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == DEFAULT else pytest.mark.soak) for name in ALONE]
)
def test_agents_of_scapy_are_more_than_20_times_slower_than_compiled_agents(name: str) -> None:
    warm(name)  # an operation's timeout has no time for the compiler
    fast, scapy = measure_rpc_cost(design(name), 4, 1), measure_scapy_cost(window=4, rpcs=20)
    assert fast is not None and min(fast) > 0
    assert scapy.worker_us > 20 * fast.worker_us and scapy.server_us > 20 * fast.server_us


def test_a_cost_is_cpu_time_per_rpc_after_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps of 128 RPCs; worker's clock: 1, 3 and 11 s, server's: 5 and 9 s."""
    readings = {"worker": iter([3.0, 11.0]), "server": iter([5.0, 9.0])}
    fake = SimpleNamespace(
        monotonic_ns=time.monotonic_ns,
        thread_time=lambda: next(readings["worker"]),
        clock_gettime=lambda _: next(readings["server"]),
        pthread_getcpuclockid=lambda _: 0,
    )
    warm("none")
    monkeypatch.setattr(rpc_cost, "time", fake)
    cost = measure_rpc_cost(design("none"), 64, 2)
    assert cost == RpcCost(8 / 256 * 1e6, 4 / 256 * 1e6)


def test_a_silent_server_has_no_cost_and_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc_cost, "serve", lambda *_: threading.Event().wait(0.001))
    before = threading.active_count()
    assert measure_rpc_cost(design("none"), 64, 1, timeout_s=0.05) is None
    assert threading.active_count() == before


def test_a_stop_of_the_measuring_process_is_not_taken_for_a_silent_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a stop of any length the deadline of a part has passed, before anything could be received."""
    stops = iter(range(3))

    def operate_after_stops(*arguments: Any) -> Any:
        return None if next(stops, None) is not None else operate(*arguments)

    monkeypatch.setattr(rpc_cost, "operate", operate_after_stops)
    assert measure_rpc_cost(design("none"), 64, 1) is not None


def test_a_run_measures_its_agents_and_compiled_agents_with_the_same_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []
    costs = {"fast": RpcCost(6.0, 4.0), "scapy": RpcCost(3000.0, 2000.0)}

    def compiled_cost(chosen: Design, window: int, _steps: int) -> RpcCost:
        asked.append((chosen.name, window))
        return costs["fast"]

    def scapy_cost(window: int, _rpcs: int) -> RpcCost:
        asked.append(window)
        return costs["scapy"]

    agents = COMPILED_AGENTS._replace(measure_rpc_cost=compiled_cost, warm=lambda _: None)
    monkeypatch.setattr(room, "compiled_agents", lambda: agents)
    monkeypatch.setattr(cost, "measure_scapy_cost", scapy_cost)
    found = measure_agent_costs(Config(codec="scapy", design="none", window=3))
    assert {codec: (each.worker_us, each.server_us) for codec, each in found.items()} == costs
    assert asked == [("none", 3), 3]
    agents = agents._replace(measure_rpc_cost=lambda *_: None)
    assert measure_agent_costs(Config(codec="scapy")) == {}
