"""The five metrics of RPCs that spend known times in agents, links and sockets.

The machine only adds to a time, so the smallest of many rows is compared.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest

from foundation.compiled import pinned
from foundation.logs.columns import METRICS
from foundation.protocol.codec import Caller
from foundation.protocol.header import HOTLINE_PORT, LANES, unpack
from hosts.keys import KeySpace
from hosts.sockets import Address, Received, Receiver, clock_offset, open_udp
from hosts.workload.trace import Trace
from hotline_agents.hotset.ps.state import make_server
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.ps.compiled_loop import make_sources, serve
from hotline_agents.ps.ops import pinned as pinned_server
from hotline_agents.ps.service_time import make_service
from hotline_agents.udp import make_udp
from hotline_agents.warm import warm
from hotline_agents.worker.compiled_loop import SEND_BURST, make_wire, operate
from hotline_agents.worker.logs import Origin, WorkerLogs
from hotline_agents.worker.trainer import spin_until
from switch_harness.clocks import STEPS_NS
from switch_harness.waiting import wait_for
from tests.harness import agents
from tests.harness.agents import Agent
from tests.harness.known_times import QUICK, SLOW, TAKES_NS

MS = 1_000_000
NET = f"127.88.{os.getpid() % 250 + 1}"
WORKER, RELAY = f"{NET}.1", f"{NET}.9"
ARMS = {SLOW: "baseline", QUICK: "repeat"}
KEYS = 10 * LANES
SERVICE_NS = 2 * MS
SERVICE_US = SERVICE_NS / 1000


def tolerance(known_us: float) -> float:
    return max(20.0, 0.05 * known_us)


def server_at(ps: int) -> str:
    return f"{NET}.{101 + ps}"


def ps_config(folder: Path, ps: int, n_ps: int, **changes: object) -> dict[str, object]:
    connected = dict.fromkeys(ARMS, False)
    return agents.ps_config(folder, ps, server_at(ps), connected, n_ps=n_ps, parameters=KEYS, **changes)


def worker_config(folder: Path, services: list[str], keys: int = KEYS, window: int = 64) -> dict[str, object]:
    """Return the configuration of a worker whose steps use the first `keys` keys."""
    batch = np.arange(keys, dtype=np.uint32)
    Trace("one batch", 1, 1, KeySpace(KEYS), np.array([0, keys]), batch).save(folder / "trace")
    trace = str(folder / "trace")
    return agents.worker_config(folder, WORKER, services, ARMS, window=window, trace=trace)


@contextmanager
def agent(folder: Path, config: dict[str, object], module: str | None = None) -> Iterator[Agent]:
    made = Agent(
        module or ("hotline_agents.ps" if "ps" in config else "hotline_agents.worker"), config, folder
    )
    try:
        assert made.first == {"ready": True}
        yield made
    finally:
        made.close()


def logged(folder: Path) -> pl.DataFrame:
    """Return the worker's logged RPCs in the order of sending; check that each one's metrics add up."""
    rows = pl.read_parquet(folder / "rpc-worker-1-*.parquet").sort("t_send_us", maintain_order=True)
    metrics = [pl.col(f"{metric}_us").cast(pl.Float64) for metric in METRICS]
    off = pl.sum_horizontal(metrics) - pl.col("latency_us")
    largest = pl.max_horizontal(metric.abs() for metric in metrics)
    assert rows.select((off.abs() / largest).max()).item() < 1e-6, "float32 has seven digits"
    return rows


def sent_once(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("attempts") == 1)


def without(rows: pl.DataFrame, **known_us: float | pl.Expr) -> pl.DataFrame:
    """Subtract known times from the metrics."""
    return rows.with_columns((pl.col(f"{metric}_us") - known) for metric, known in known_us.items())


def assert_same(rest: pl.DataFrame, others: pl.DataFrame, tolerance_us: float) -> None:
    """Check that the remainders of all metrics are those of RPCs without the known time."""
    names = [f"{metric}_us" for metric in METRICS]
    of = {name: [float(rows[name].to_numpy().min()) for rows in (rest, others)] for name in names}
    assert all(abs(here - there) <= tolerance_us for here, there in of.values()), f"µs: {of}"


def by_place(rows: pl.DataFrame, queue: str) -> pl.DataFrame:
    """Group simultaneous RPCs by place in a queue: `longer_us` is the wait after the one before."""
    operation = ["iteration", "op"]
    return (
        rows.filter(pl.col("attempts").max().over(operation) == 1)
        .sort(*operation, queue)
        .with_columns(
            place=pl.int_range(pl.len()).over(operation), longer_us=pl.col(queue).diff().over(operation)
        )
        .group_by("place")
        .agg(pl.col("longer_us").median(), pl.col("^.*_(proc|queue|tx)_us$").min())
        .sort("place")
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    """Log RPCs at two PSs, of which the first has a service time: empty ones alone, then steps."""
    folder = tmp_path_factory.mktemp("served")
    with ExitStack() as stack:
        for ps, ns in enumerate((SERVICE_NS, 0)):
            config = ps_config(folder, ps, 2, server={"ns_per_rpc": ns})
            stack.enter_context(agent(folder, config))
        worker = stack.enter_context(agent(folder, worker_config(folder, [server_at(0), server_at(1)])))
        assert worker.call(cmd="empty", job=QUICK, count=200)["ok"]
        assert worker.call(cmd="run", job=QUICK, first_step=0, steps=25)["ok"]
    return logged(folder)


@pytest.mark.soak
def test_a_given_service_time_is_processing(served: pl.DataFrame) -> None:
    of = sent_once(served.filter(pl.col("op") == "empty")).partition_by("ps", as_dict=True)
    assert_same(without(of[0,], ps_proc=SERVICE_US), of[1,], tolerance(SERVICE_US))


def test_rpcs_behind_other_rpcs_at_a_slow_server_wait_in_its_queue(served: pl.DataFrame) -> None:
    places = by_place(served.filter(pl.col("op") != "empty", pl.col("ps") == 0), "ps_queue_us")
    assert places.height >= 4
    for row in places.iter_rows(named=True):
        assert row["place"] == 0 or abs(row["longer_us"] - SERVICE_US) <= tolerance(SERVICE_US), row
        assert abs(row["ps_proc_us"] - SERVICE_US) <= tolerance(SERVICE_US), row
        assert max(row["n_tx_us"], row["w_queue_us"], row["w_proc_us"]) <= tolerance(SERVICE_US), row


@pytest.mark.soak
@pytest.mark.parametrize("which", ["ps", "worker"])
def test_the_time_of_an_agent_for_a_datagram_is_its_processing_time(which: str, tmp_path: Path) -> None:
    """RPCs that arrive together also wait for each other."""
    long, its = {which: "tests.harness.known_times"}, which.removesuffix("orker")
    with (
        agent(tmp_path, ps_config(tmp_path, 0, 1), long.get("ps")),
        agent(tmp_path, worker_config(tmp_path, [server_at(0)], 4 * LANES), long.get("worker")) as worker,
    ):
        for k in range(12):
            for job in ARMS:
                assert worker.call(cmd="empty", job=job, count=20)["ok"]
                assert worker.call(cmd="run", job=job, first_step=4 * k, steps=4)["ok"]
    takes_us = {job: ns / 1000 for job, ns in TAKES_NS.items()}
    most_off = tolerance(takes_us[SLOW])
    rest = without(logged(tmp_path), **{f"{its}_proc": pl.col("job").replace_strict(takes_us)})
    of = rest.partition_by("job", as_dict=True)
    alone, others = (sent_once(of[job,].filter(pl.col("op") == "empty")) for job in (SLOW, QUICK))
    assert_same(alone, others, most_off)
    slow, quick = (by_place(of[job,].filter(pl.col("op") != "empty"), f"{its}_queue_us") for job in ARMS)
    assert slow.height == quick.height == 4
    own = (slow[f"{its}_proc_us"] - quick[f"{its}_proc_us"]).abs().to_numpy()
    assert own.max() <= most_off, f"{slow}\n{quick}"
    assert slow["longer_us"].to_numpy()[1:].min() >= takes_us[SLOW] - most_off, slow


class Way(NamedTuple):
    """Times that an RPC meets, ns: delays on the links, and waits for a halted agent."""

    there: int = 0
    back: int = 0
    ps_halted: int = 0
    worker_halted: int = 0


STRAIGHT = "straight"
WAYS = {
    STRAIGHT: Way(),
    "late there": Way(there=MS),
    "late back": Way(back=MS),
    "late both ways": Way(there=MS, back=MS),
    "ps halted": Way(ps_halted=15 * MS),
    "worker halted": Way(worker_halted=15 * MS),
}


class Relay(threading.Thread):
    """A relay between a PS and a worker with a window of 1; RPCs take the ways in turn."""

    def __init__(self, server: Address, ps: int, worker: int) -> None:
        super().__init__(daemon=True)
        self._near, self._far = open_udp((RELAY, HOTLINE_PORT)), open_udp((RELAY, 0))
        self._receivers = [Receiver(sock) for sock in (self._near, self._far)]
        self._server, self._ps, self._worker = server, ps, worker
        self.met: dict[int, tuple[str, Way]] = {}
        """The way of each RPC and its real delays, by the t0 of its datagrams."""

    def run(self) -> None:
        requests, answers = self._receivers
        while True:
            select.select([self._near, self._far], [], [])
            if (request := requests.receive()) is not None:
                if not request.datagram:
                    return
                caller, t0 = request.source, unpack(request.datagram).t0
                way, met = self.met.get(t0, (list(WAYS)[len(self.met) % len(WAYS)], Way()))
                wanted = WAYS[way]
                times = carry(request, self._far, self._server, wanted.there, wanted.ps_halted, self._ps)
                self.met[t0] = way, met._replace(there=times[0], ps_halted=times[1])
            if (answer := answers.receive()) is not None:
                t0 = unpack(answer.datagram).t0
                way, met = self.met[t0]
                wanted = WAYS[way]
                times = carry(answer, self._near, caller, wanted.back, wanted.worker_halted, self._worker)
                self.met[t0] = way, met._replace(back=times[0], worker_halted=times[1])

    def close(self) -> None:
        self._far.sendto(b"", self._near.getsockname())
        self.join()
        self._near.close()
        self._far.close()


def carry(
    received: Received, out: socket.socket, to: Address, hold: int, halt: int, process: int
) -> tuple[int, int]:
    """Forward a datagram, to a process that is halted for `halt` ns.

    Returns how long it was really held, and how long it lay there before the process went on.
    """
    spin_until(received.arrival + hold)
    if not halt:
        sent = time.monotonic_ns()
        out.sendto(received.datagram, to)
        return sent - received.arrival, 0
    os.kill(process, signal.SIGSTOP)
    try:
        wait_for(lambda: is_halted(process))
        sent = time.monotonic_ns()
        out.sendto(received.datagram, to)
        there = time.monotonic_ns()
        spin_until(there + halt)
        return sent - received.arrival, time.monotonic_ns() - there
    finally:
        os.kill(process, signal.SIGCONT)


def is_halted(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.fixture(scope="module")
def relayed(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    """Log pulls and pushes through a relay, with the times that each met there in µs."""
    folder = tmp_path_factory.mktemp("relayed")
    with (
        agent(folder, ps_config(folder, 0, 1)) as ps,
        agent(folder, worker_config(folder, [RELAY], window=1)) as worker,
    ):
        relay = Relay((server_at(0), HOTLINE_PORT), ps.process.pid, worker.process.pid)
        relay.start()
        with closing(relay):
            assert worker.call(cmd="run", job=QUICK, first_step=0, steps=15)["ok"]
    met = [{"t0": t0, "way": way, **times._asdict()} for t0, (way, times) in sorted(relay.met.items())]
    rows = logged(folder)
    assert rows.height == len(met)
    rows = pl.concat([rows, pl.DataFrame(met)], how="horizontal")
    assert np.ptp(1000 * rows["t_send_us"].to_numpy() - rows["t0"].to_numpy()) < 1000, "each beside its own"
    return sent_once(rows).with_columns(pl.col(Way._fields) / 1000)


@pytest.mark.parametrize("way", [way for way in WAYS if way != STRAIGHT])
def test_a_delay_of_an_rpc_is_in_exactly_one_metric(relayed: pl.DataFrame, way: str) -> None:
    """A slow link is N_tx; an agent that reads late has a queue."""
    held = pl.col("there") + pl.col("back")
    rest = without(relayed, n_tx=held, ps_queue=pl.col("ps_halted"), w_queue=pl.col("worker_halted"))
    of = rest.partition_by("way", as_dict=True)
    assert_same(of[way,], of[STRAIGHT,], tolerance(max(WAYS[way]) / 1000))


class Turn(NamedTuple):
    """When a loop was called and when it returned, ns; it read and sent in between."""

    began: int
    ended: int

    @property
    def us(self) -> float:
        return (self.ended - self.began) / 1000


class ByHand:
    """A worker and a PS whose compiled loops run one turn a call."""

    def __init__(self, opened: ExitStack) -> None:
        warm()
        ours = opened.enter_context(closing(open_udp((WORKER, 0))))
        expected = opened.enter_context(closing(open_udp((server_at(0), 0))))
        poll = opened.enter_context(select.epoll())
        poll.register(expected.fileno(), select.EPOLLIN)
        wait_for(lambda: is_stamped(ours))
        # Between the two clocks that it reads this process may have to wait.
        self.offset, no_file = max(clock_offset() for _ in range(9)), -1
        self.client = HotsetClient(Caller(QUICK, 1, 1), 1, KeySpace(KEYS), time.monotonic_ns)
        wire = make_wire(ours.fileno(), [expected.getsockname()], no_file, no_file)
        self.udps = make_udp(), make_udp()
        """Of the worker and of the PS."""
        self._worker = pinned(self.udps[0]), pinned(wire)
        self._server = pinned_server(make_server(0, 1, KeySpace(KEYS), [QUICK])), pinned(make_service())
        self._at_server = pinned(self.udps[1]), pinned(make_sources(poll.fileno()))

    def work(self) -> Turn:
        """Send a burst of requests, and read answers."""
        began = time.monotonic_ns()
        operate(self.client.reference, *self._worker, 0)
        return Turn(began, time.monotonic_ns())

    def answer(self) -> Turn:
        began = time.monotonic_ns()
        serve(*self._server, *self._at_server, 0)
        return Turn(began, time.monotonic_ns())


def is_stamped(sock: socket.socket) -> bool:
    """Whether the kernel notes arrival times yet: it begins some ms after the request."""
    sock.sendto(b"", sock.getsockname())
    sent = time.monotonic_ns()
    received = Receiver(sock).receive()
    return received is not None and received.arrival <= sent


def assert_between(waited_us: float, first: Turn, second: Turn) -> None:
    least, maximum = second.began - first.ended, second.ended - first.began
    assert least <= 1000 * waited_us <= maximum


def test_the_wait_of_a_datagram_in_a_socket_is_its_readers_queueing_time(tmp_path: Path) -> None:
    """Of RPCs that are read together some have waited for 4 ms and some for 2 ms."""
    rounds = []
    with ExitStack() as opened:
        by_hand = ByHand(opened)
        client = by_hand.client
        for k in range(50):
            client.pull(k, np.arange(KEYS))
            turns = [by_hand.work()]
            for turn in (by_hand.work, by_hand.answer, by_hand.work):
                spin_until(turns[-1].ended + 2 * MS)
                turns.append(turn())
            rounds.append(turns)
            while not client.idle:  # it had to wait for so long that it has sent something again
                by_hand.answer()
                by_hand.work()
    origin = Origin(1, QUICK, ARMS[QUICK], 0, 0.0, 0)
    WorkerLogs(tmp_path, 1, by_hand.offset).write_rpcs(client.take_records(), origin)
    rows = logged(tmp_path).partition_by("iteration", maintain_order=True)
    both = zip(rows, rounds, strict=True)
    exclusive = [(logs, turns) for logs, turns in both if logs.height == sent_once(logs).height]
    assert exclusive
    for of_round, (first, second, answered, read) in exclusive:
        assert of_round.height == KEYS // LANES
        for place, row in enumerate(of_round.iter_rows(named=True)):
            sent = first if place < SEND_BURST else second
            assert_between(row["ps_queue_us"], sent, answered)
            assert_between(row["w_queue_us"], answered, read)
            assert row["n_tx_us"] + row["ps_proc_us"] <= sent.us + answered.us
        assert of_round["ps_proc_us"].sum() <= answered.us and of_round["w_proc_us"].sum() <= read.us


@pytest.mark.parametrize("step_ns", STEPS_NS.values(), ids=STEPS_NS)
def test_queueing_times_do_not_follow_steps_of_the_unix_clock(tmp_path: Path, step_ns: int) -> None:
    """The Unix clock has been set since the last burst of both; the wait that the step is in is cut short."""
    rounds = []
    with ExitStack() as opened:
        by_hand = ByHand(opened)
        client = by_hand.client
        for k in range(9):
            if k % 3 == 0:
                for udp in by_hand.udps:
                    udp.state.unix_offset_ns -= step_ns
            client.pull(k, np.arange(1))
            turns = [by_hand.work()]
            for turn in (by_hand.answer, by_hand.work):
                spin_until(turns[-1].ended + 2 * MS)
                turns.append(turn())
            rounds.append(turns)
            while not client.idle:
                by_hand.answer()
                by_hand.work()
    origin = Origin(1, QUICK, ARMS[QUICK], 0, 0.0, 0)
    WorkerLogs(tmp_path, 1, by_hand.offset).write_rpcs(client.take_records(), origin)
    rows = logged(tmp_path).filter(pl.col("attempts") == 1)
    for row in rows.iter_rows(named=True):
        k = row["iteration"]
        sent, answered, read = rounds[k]
        if k % 3 == 0:  # an early stamp is not taken for later than the step was noticed
            assert 0 <= 1000 * row["ps_queue_us"] <= answered.ended - sent.began
            assert 0 <= 1000 * row["w_queue_us"] <= read.ended - answered.began
        else:
            assert_between(row["ps_queue_us"], sent, answered)
            assert_between(row["w_queue_us"], answered, read)
    assert (rows["iteration"] % 3 > 0).any()
