"""The section `agents` of the bench: its work is done, and its lines have units, ratios and goals."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from foundation.protocol import codec
from foundation.protocol.header import HEADER_BYTES, HOTLINE_PORT, LANES, Op
from hosts.keys import KeySpace
from hosts.sockets import open_udp
from hotline_agents.hotset.ps.store import HotsetStore
from switch_bench.errors import BenchError
from switch_bench.report import as_json, as_tables
from switch_bench.results import SWITCHES, Result
from switch_bench.scale import FULL, QUICK
from switch_bench.switches import BMV2, KERNEL, SOFTSWITCH
from switch_harness.waiting import PATIENCE_S
from switch_harness.wording import mentions
from tools.bench.callers import Callers, Trial
from tools.bench.echo import echo_server
from tools.bench.requests import JOB, make_requests
from tools.bench.results import AGENT, AGENTS, ECHO, HANDLE_US, OPTIMISER_COST
from tools.bench.sections.agents import ServerTrial, Trials, results_of, server_sizes
from tools.bench.sections.optimisers import OPTIMISERS
from tools.bench.servers import parameter_server
from tools.bench.state_machines import (
    batches_of,
    bytes_needed,
    server_of,
    space_of,
    us_per_operation,
    us_per_rpc,
)
from tools.bench.stepper import Cost, stepping

HOST = f"127.87.{os.getpid() % 250 + 1}.1"
SIZE = 1000
CORE = min(os.sched_getaffinity(0))


def keys_of(space: KeySpace, n: int) -> np.ndarray:
    return space.keys(np.random.default_rng(1).integers(space.size, size=(n, LANES)))


@contextmanager
def client() -> Iterator[socket.socket]:
    with closing(open_udp((HOST, 0))) as sock:
        yield sock


@pytest.mark.parametrize("op", [Op.PULL, Op.PUSH])
def test_requests_are_rpcs_of_all_lanes(op: Op) -> None:
    keys = keys_of(KeySpace(SIZE), 3)
    made = make_requests(op, keys)
    for k in range(3):
        datagram = made.rpcs[k : k + 1].view(np.uint8)[: made.octets].tobytes()
        message = codec.parse(datagram)
        assert message.header.op == op and message.header.live == 2**LANES - 1
        assert message.keys is not None and message.keys.tolist() == keys[k].tolist()
        assert (message.values is None) == (op == Op.PULL)
    octets = (made.octets - HEADER_BYTES, made.answer_octets - HEADER_BYTES)
    assert octets == ((8 * LANES, 4 * LANES) if op == Op.PULL else (12 * LANES, 0))


@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize("op", [Op.PULL, Op.PUSH])
def test_a_server_alone_handles_all_timed_requests(op: Op, hashed: bool) -> None:
    space = space_of(SIZE, hashed)
    server = server_of(space)
    values = us_per_rpc(server, make_requests(op, keys_of(space, 100)))
    job, timed = server.jobs[0], len(values) + 1  # one has warmed up
    assert (job.rpcs, job.duplicates, job.stale, job.refused_lanes) == (100 * timed, 0, 0, 0)
    assert job.applied_lanes == (LANES * 100 * timed if op == Op.PUSH else 0)


@pytest.mark.parametrize("text", OPTIMISERS)
def test_a_server_with_an_optimiser_applies_all_timed_pushes(text: str) -> None:
    space = KeySpace(SIZE)
    server = server_of(space, text)
    values = us_per_rpc(server, make_requests(Op.PUSH, keys_of(space, 100)))
    assert server.jobs[0].applied_lanes == LANES * 100 * (len(values) + 1)
    assert HotsetStore(server, JOB).contents().sums.sum() == server.jobs[0].applied_lanes  # a unit a lane
    assert set(OPTIMISER_COST) < {each.partition("(")[0] for each in OPTIMISERS}


def test_a_measurement_of_rpcs_that_are_not_answered_is_refused() -> None:
    server = server_of(KeySpace(SIZE))
    server.header.ps = 1
    with pytest.raises(BenchError, match=mentions(0, 10)):
        us_per_rpc(server, make_requests(Op.PULL, keys_of(KeySpace(SIZE), 10)))


@pytest.mark.parametrize(("parameters", "hashed"), [(SIZE, False), (SIZE, True), (700, True)])
def test_the_computed_memory_equals_the_memory_of_a_server(parameters: int, hashed: bool) -> None:
    space = space_of(parameters, hashed)
    server = server_of(space)
    keys = 0 if space.sparse is None else space.sparse.nbytes
    scratch = server.cells.itemsize * int(server.share.ranges.stride.max())
    assert (
        bytes_needed(parameters, hashed) == server.cells.nbytes - scratch + server.share.table.nbytes + keys
    )


def test_hashed_keys_are_distinct_and_sorted() -> None:
    sparse = space_of(SIZE, True).sparse
    assert sparse is not None and len(sparse) == SIZE
    assert bool(np.all(sparse[1:] > sparse[:-1])) and int(sparse[-1]) > 2**40


@pytest.mark.soak
def test_an_operation_is_issued_whole() -> None:
    assert all(value > 0 for value in us_per_operation(Op.PUSH, SIZE, 100))
    batches = batches_of(SIZE, 100)
    assert all(len(set(batch)) == 100 for batch in batches.tolist())


def test_an_echo_answers_with_the_given_size() -> None:
    requests = make_requests(Op.PULL, keys_of(KeySpace(SIZE), 300))
    with echo_server((HOST, HOTLINE_PORT + 5), CORE) as echo, client() as sock:
        echo.answer_with(requests.answer_octets)
        assert Callers(sock, (HOST, HOTLINE_PORT + 5)).call(requests, 1000).rpcs == 1000
        sock.setblocking(True)
        sock.settimeout(PATIENCE_S)
        sock.sendto(bytes(range(200)), (HOST, HOTLINE_PORT + 5))
        assert sock.recv(2048) == bytes(range(184))
        assert echo.cpu_seconds() > 0


def test_callers_give_up_without_answers() -> None:
    requests = make_requests(Op.PULL, keys_of(KeySpace(SIZE), 300))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent, client() as sock:
        silent.bind((HOST, 0))
        with pytest.raises(BenchError, match=mentions(0, 1000)):
            Callers(sock, silent.getsockname()).call(requests, 1000)


def test_a_ps_process_answers_callers_and_a_worker_that_logs_each_rpc(tmp_path: Path) -> None:
    address = (HOST, HOTLINE_PORT)
    requests = make_requests(Op.PUSH, keys_of(KeySpace(SIZE), 300))
    with parameter_server(address, SIZE, CORE), client() as sock, client() as worker:
        callers = Callers(sock, address)
        assert [callers.call(requests, 1000).rpcs for _ in range(2)] == [1000, 1000]
        with stepping(worker, address, SIZE, 100, tmp_path) as stepper:
            for _ in range(2):
                assert stepper.run(5).loop > 0
    logged = pl.concat(pl.read_parquet(path) for path in tmp_path.glob("rpc-*.parquet"))
    assert logged["op"].value_counts().sort("op").rows() == [("pull", 40), ("push", 40)]
    assert logged["lanes"].sum() == 2 * 2 * 5 * 100


def test_a_server_that_does_not_start_is_reported() -> None:
    other_options = ("192.0.2.1", HOTLINE_PORT)
    with (
        pytest.raises(BenchError, match=mentions("PS", "start")),
        parameter_server(other_options, SIZE, CORE),
    ):
        pass


def test_a_rate_is_rpcs_a_second() -> None:
    assert Trial(1000, 0.5).rate == 2000


TRIALS = Trials(
    {
        (AGENT, Op.PULL): [ServerTrial(80_000, 10), ServerTrial(90_000, 8), ServerTrial(70_000, 9)],
        (ECHO, Op.PULL): [ServerTrial(100_000, 5), ServerTrial(100_000, 4), ServerTrial(100_000, 6)],
        (AGENT, Op.PUSH): [ServerTrial(79_000, 10)] * 3,
        (ECHO, Op.PUSH): [ServerTrial(100_000, 7), ServerTrial(100_000, 8), ServerTrial(100_000, 10)],
    },
    [Cost(10.2, 1), Cost(9, 2), Cost(16, 3)],
)
LINES = {
    "PS over veth, 32-lane pull, 900,000 keys": ("RPCs/s", 80_000, 100_000, 0.8, [True]),
    "PS over veth, 32-lane pull, 900,000 keys: CPU time an RPC": ("µs", 9, 5, 2, []),
    "PS over veth, 32-lane push, 900,000 keys": ("RPCs/s", 79_000, 100_000, 0.79, [False]),
    "PS over veth, 32-lane push, 900,000 keys: CPU time an RPC": ("µs", 10, 8, 1.25, []),
    "worker over veth, 3,000 keys a step: CPU time an RPC": ("µs", 10.2, 6, 1.7, [True]),
    "worker over veth, 3,000 keys a step: CPU time an RPC, while logging": (
        "µs",
        2,
        None,
        None,
        [],
    ),
}


def goals(line: Result) -> list[bool | None]:
    return [line.is_met(goal) for goal in line.goals]


def test_lines_are_of_pairs_with_the_echo() -> None:
    reported = {
        line.what: (line.unit, line.value(AGENT), line.value(ECHO), line.ratio(ECHO), goals(line))
        for line in results_of(TRIALS)
    }
    assert reported == LINES


def test_each_measured_size_of_a_server_has_its_goal() -> None:
    assert {share: goal.text() for share, (goal,) in HANDLE_US.items()} == {
        (900_000, False): "≤ 0.75",
        (150_000_000, False): "≤ 1",
        (150_000_000, True): "≤ 3",
    }
    assert server_sizes(FULL) == tuple(HANDLE_US)
    assert server_sizes(QUICK) == server_sizes(FULL)[:1]


def test_switches_and_agents_have_own_tables() -> None:
    switch = Result("s", "a switch's", "ns", {SOFTSWITCH: [1], BMV2: [2]})
    agents = list(results_of(TRIALS))
    tables = list(as_tables([switch, *agents]))
    assert [[str(column.header) for column in table.columns][2] for table in tables] == [SOFTSWITCH, AGENT]
    assert [table.row_count for table in tables] == [1, len(agents)]
    first = [next(iter(column.cells)) for column in tables[1].columns]
    assert first[1:] == ["RPCs/s", "80,000", "100,000", "0.8", "≥ 0.8 × echo: met"]
    assert [len(list(as_tables(lines))) for lines in ([switch], agents, [])] == [1, 1, 0]
    assert (switch.targets, agents[0].targets) == (SWITCHES, AGENTS)
    lines = as_json([switch, agents[0]], "")["lines"]
    assert [line["ratios"] for line in lines] == [{KERNEL: None, BMV2: 0.5, "C loop": None}, {ECHO: 0.8}]
