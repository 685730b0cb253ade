"""ATP's workers and servers against their plain models, and jobs that share few cells of a faulty network."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foundation.protocol.codec import Caller
from foundation.protocol.header import HOTLINE_PORT
from foundation.protocol.rpc import rpcs
from hosts.keys import KeySpace
from hotline_agents.interface import NEVER, NO_REPLY
from hotline_agents.worker.ops import COMPILED, AnyWorkerOps, plain_ops
from hotline_allreduce.atp import design as atp
from hotline_allreduce.atp import server
from hotline_allreduce.atp.agents import AGENTS, MAX_SUM, AtpClient
from hotline_allreduce.atp.design import CHECKED, PUBLISHED
from hotline_allreduce.atp.model.rules import MASK, SIGN_BIT, AtpSwitchModel, AtpWindowModel, ServerModel
from hotline_allreduce.atp.model.subject import error_bound
from hotline_allreduce.atp.packet import (
    ACK,
    CELLS,
    COLLISION,
    ECN,
    MAX_SEQUENCE,
    OVERFLOW,
    RESEND,
    VALUES,
    AtpPacket,
    parse,
)
from hotline_allreduce.atp.server import make_server
from hotline_allreduce.dense.client import StalledError
from hotline_allreduce.dense.vector import STALL_TIMEOUT_NS
from hotline_allreduce.switchml import design as switchml
from nativekit.plain import plain
from packages.allreduce.tests.harness.dense import integers, total
from packages.allreduce.tests.harness.loop import VectorLoop
from packages.allreduce.tests.harness.vectors import float_vectors
from switch_harness.effort import examples
from switch_harness.wording import mentions
from tests.harness.faulty_loop import MS

SIZE = 300
handle = plain(server.handle)


def serve(state: Any, packet: AtpPacket) -> AtpPacket | None:
    """Return a server's answer."""
    datagram, boxes = packet.build(), rpcs(2)
    boxes.view(np.uint8)[: len(datagram)] = np.frombuffer(datagram, np.uint8)
    length = handle(state, boxes[0], len(datagram), 0, boxes[1])
    return None if length == NO_REPLY else parse(boxes[1].tobytes()[:length])


Frame = tuple[bool, int, AtpPacket]
"""Whether it goes to a worker, the worker's number in its job, and the packet."""


class Network(VectorLoop[Frame]):
    """Jobs at one switch and one server, whose packets are mixed, and may be lost or doubled."""

    def __init__(
        self, jobs: dict[int, int], seed: int = 1, *, window: int = 4, faults: float = 0.0,
        places: int = CELLS,
        reordering: float = 0.0, check: bool = False, ops: AnyWorkerOps = COMPILED,
    ) -> None:  # fmt: skip
        super().__init__(Random(seed), loss=faults, doubling=faults / 2, reordering=max(faults, reordering))
        self.switch = AtpSwitchModel(check=check)
        self.server: Any = make_server(0, 1, KeySpace(SIZE), list(jobs))
        self.server.job_states.check = check
        self.clients = {
            job: [
                AtpClient(Caller(job, w + 1, 1), 1, KeySpace(SIZE), lambda: self.now, window, ops=ops)
                for w in range(workers)
            ]
            for job, workers in jobs.items()
        }
        for client in self.cores():
            if places < CELLS:
                client.state.places[:] = np.arange(len(client.state.places)) % places
            client.state.header.stall_timeout *= 100
        self.collisions = 0

    def cores(self) -> list[AtpClient]:
        return [client for clients in self.clients.values() for client in clients]

    def all_reduce(self, vectors: dict[int, list[NDArray[Any]]]) -> dict[int, list[NDArray[Any]]]:
        """Add up one vector of each worker, in all jobs at once; return copies of the results."""
        self.add_up(
            (client, vector, len(of_job))
            for job, of_job in vectors.items()
            for client, vector in zip(self.clients[job], of_job, strict=True)
        )
        return {job: [client.result.copy() for client in self.clients[job]] for job in vectors}

    def emit(self, sender: int, datagram: bytes, peer: int) -> None:
        self.put((False, 0, parse(datagram)))

    def arrive(self, message: Frame) -> None:
        is_ack, worker, packet = message
        if is_ack:
            self.clients[packet.app][worker].receive(packet.build(), self.now, self.now)
        else:
            self._pass(packet)

    def _pass(self, packet: AtpPacket) -> None:
        output = self.switch.take(packet)
        if output is None:
            return
        self.collisions += output.packet.has(COLLISION)
        answer = serve(self.server, output.packet)
        acknowledged = None if answer is None else self.switch.take(answer)
        if acknowledged is not None:
            for worker in range(len(self.clients[packet.app])):
                self.put((True, worker, acknowledged.packet))


def small(random: Random, n: int, workers: int) -> NDArray[np.int32]:
    return integers(random, n) // (4 * workers)


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 2**32), jobs=st.lists(st.integers(2, 4), min_size=1, max_size=3),
    window=st.sampled_from([1, 3, 64]), places=st.sampled_from([1, 3, CELLS]),
    sizes=st.lists(st.integers(1, SIZE), min_size=1, max_size=3), faults=st.sampled_from([0.0, 0.2]),
)  # fmt: skip
def test_integers_of_several_jobs_add_up_exactly(
    seed: int, jobs: list[int], window: int, places: int, sizes: list[int], faults: float
) -> None:
    """As published if nothing is lost; with the check whatever happens."""
    network = Network(
        dict(enumerate(jobs, start=1)), seed, window=window, places=places, faults=faults, check=faults > 0
    )
    for n in sizes:
        vectors = {
            job: [small(network.random, n, workers) for _ in range(workers)]
            for job, workers in enumerate(jobs, start=1)
        }
        for job, results in network.all_reduce(vectors).items():
            assert all(result.tolist() == total(vectors[job]) for result in results)


def test_two_jobs_whose_cells_collide_move_to_separate_cells() -> None:
    network = Network({1: 2, 2: 2}, window=2, places=2, reordering=0.5, check=True)
    ones = {job: [np.ones(SIZE, np.int32)] * 2 for job in (1, 2)}
    found = []
    for _ in range(6):
        network.all_reduce(ones)
        found.append(network.collisions)
    assert found[0] > 0 and found[-1] == found[-2]  # none in the last one
    cells = [set(clients[0].state.places[:2].tolist()) for clients in network.clients.values()]
    assert not cells[0] & cells[1]


SPECIAL = [0.0, 213.0, 213.5, -1e20, 1e-9, 3e37, 4e-7]


@settings(max_examples=examples(60))
@given(given_=float_vectors(70, 200.0, 40, SPECIAL))
def test_floats_add_up_within_the_formats_bound(given_: NDArray[np.float32]) -> None:
    results = Network({1: len(given_)}).all_reduce({1: list(given_)})[1]
    assert all(result.tobytes() == results[0].tobytes() for result in results)
    exact, bound = given_.astype(np.float64).sum(axis=0), error_bound(np.abs(given_).astype(np.float64))
    assert (np.abs(results[0].astype(np.float64) - exact) <= bound).all()


def test_sums_that_saturate_are_added_up_as_floats() -> None:
    network = Network({1: 12})
    results = network.all_reduce({1: [np.full(70, 212.5, np.float32)] * 12})[1]
    assert results[0].tolist() == [12 * 212.5] * 70
    assert network.server.jobs[0].overflows and network.clients[1][0].state.float_chunks.tolist()[:2] == [
        1,
        1,
    ]


packets = st.builds(
    AtpPacket,
    bitmap=st.sampled_from([1, 2, 4, 3, 7]), workers=st.just(3), app=st.just(13),
    sequence=st.integers(1, 3), cell=st.integers(0, 3),
    values=st.sampled_from([0, 5, MASK, SIGN_BIT - 1, 0x3FC00000]).map(lambda value: (value,) * VALUES),
    key=st.integers(1, 4), length=st.sampled_from([60, 2 * VALUES]),
    flags=st.sampled_from([0, 0, 0, COLLISION, RESEND, OVERFLOW, OVERFLOW | RESEND, ECN]),
)  # fmt: skip


@pytest.mark.parametrize("check", [False, True], ids=["published", "check"])
@settings(max_examples=examples(200))
@given(taken=st.lists(packets, max_size=40))
def test_a_server_answers_like_its_model(check: bool, taken: list[AtpPacket]) -> None:
    state: Any = make_server(0, 1, KeySpace(2 * VALUES), [13])
    state.job_states.check = check
    model = ServerModel(tuple(state.spare_cells[0].tolist()), check)
    for packet in taken:
        assert serve(state, packet) == model.take(packet)


@settings(max_examples=examples(100))
@given(
    seed=st.integers(0, 2**32), window=st.integers(1, 5), sizes=st.lists(st.integers(1, SIZE), max_size=4),
    adaptive=st.booleans(),
)  # fmt: skip
def test_a_worker_sends_the_packets_of_the_model_of_a_window(
    seed: int, window: int, sizes: list[int], adaptive: bool
) -> None:
    """Acknowledgements come in any order, doubled, marked, with other cells, and of other all-reduces."""
    random = Random(seed)
    client = AtpClient(Caller(3, 2, 1), 1, KeySpace(SIZE), lambda: 0, window)
    client.state.header.is_adaptive = adaptive
    places = client.state.places.tolist()[:window]
    initial_cells = set(client.state.places.tolist())
    for number, n in enumerate(sizes, start=1):
        client.all_reduce(small(random, n, 2), 2)
        model = AtpWindowModel(number, -(-n // VALUES), places, adaptive, initial_cells=initial_cells)
        resent: list[int] = []
        while not model.is_done:
            expected = [(at, False) for at in model.send()]
            sent = [parse(bytes(frame)) for frame, _ in iter(client.transmit, None)]
            assert sorted((packet.sequence, packet.has(RESEND)) for packet in sent) == sorted(
                expected + [(at, True) for at in resent]
            )
            for packet in sent:
                assert (packet.bitmap, packet.cell) == (2, model.cell(packet.sequence))
                assert (packet.key, packet.length) == (number, n)
            at = random.choice([*range(1, model.last_sent + 1)])
            flags = ACK | random.choice([0, ECN, COLLISION, RESEND])
            cell = random.choice([CELLS - 1, *initial_cells])
            key = number if random.random() < 0.8 else number - 1
            ack = AtpPacket(1, 2, 3, at, 0, (at,) * VALUES, key, cell if flags & COLLISION else n, flags)
            client.receive(ack.build(), 0, 0)
            resent = [again for again in model.take(ack) if again not in model.results]
            assert (
                client.state.header.first_missing == model.last_in_order
                and client.state.header.window_size == model.window
            )
        assert client.idle and client.result.tolist() == [i // VALUES + 1 for i in range(n)]
        places = model.places


@pytest.mark.parametrize("faults", [0.0, 0.3])
def test_plain_python_leaves_the_same_state_as_compiled_code(faults: float) -> None:
    networks = [
        Network({1: 2}, 5, window=2, faults=faults, check=True, ops=ops) for ops in (COMPILED, plain_ops())
    ]
    for network in networks:
        network.all_reduce({1: [np.linspace(-300, 7, 150, dtype=np.float32) * (w + 1) for w in range(2)]})
        for w, client in enumerate(network.clients[1]):
            client.push(1, np.arange(0, 100, 7), np.full(15, w + 1, np.uint32), np.zeros(15, np.bool_))
        while not network.is_settled():
            network.step()
        network.clients[1][0].pull(2, np.arange(0, 100, 7))
    compiled, twin = networks
    assert compiled.clients[1][0].values.tolist() == [3] * 15 == twin.clients[1][0].values.tolist()
    states: list[Any] = [network.clients[1][0].state for network in networks]
    for one, other in zip(*states, strict=True):
        assert one.tobytes() == other.tobytes()


def test_published_timers_resend_the_first_packet_after_silence() -> None:
    now = 0
    client = AtpClient(Caller(3, 1, 1), 1, KeySpace(SIZE), lambda: now, 4)
    client.state.header.published_timers = 1
    client.all_reduce(np.ones(SIZE, np.int32), 2)

    def sent() -> list[tuple[int, bool]]:
        packets = [parse(bytes(frame)) for frame, _ in iter(client.transmit, None)]
        return [(packet.sequence, packet.has(RESEND)) for packet in packets]

    assert sent() == [(1, False), (2, False), (3, False), (4, False)]
    assert client.deadline() == 50 * MS
    client.wake(50 * MS - 1)
    assert sent() == []
    client.wake(50 * MS)
    assert sent() == [(1, True)] and client.deadline() == 100 * MS
    now = 60 * MS
    ack = AtpPacket(1, 2, 3, 1, 0, (2,) * VALUES, 1, SIZE, ACK)
    client.receive(ack.build(), now, now)
    assert sent() == [(5, False)] and client.deadline() == now + 200_000
    client.wake(now + 200_000)
    assert sent() == [(2, True)] and client.deadline() == now + 400_000


def test_a_worker_without_answers_reports_a_stall() -> None:
    now = 0
    client = AtpClient(Caller(3, 1, 1), 1, KeySpace(SIZE), lambda: now, 4)
    client.all_reduce(np.ones(100, np.float32), 2)
    list(iter(client.transmit, None))
    with pytest.raises(StalledError, match=mentions("worker 1", 1, 2)):
        for at in range(0, STALL_TIMEOUT_NS + 100 * MS, 5 * MS):
            client.wake(at)
            list(iter(client.transmit, None))
    assert client.deadline() is None and client.state.header.due == NEVER


@pytest.mark.parametrize(
    ("vector", "workers", "told"),
    [
        (np.ones(SIZE + 80, np.float32), 2, "expected a vector of 1 to 310 values, got 380"),
        (np.ones(3, np.float64), 2, "expected a vector of float32 or int32, got float64"),
        (np.ones(3, np.float32), 1, "expected 2 to 32 workers, got 1"),
        (
            np.array([1, np.nan], np.float32),
            2,
            "value 1: .* magnitude below .*, got nan",
        ),
        (np.array([1, -MAX_SUM // 2 - 1], np.int32), 2, "value 1: expected an integer from -1073741823 to"),
    ],
)
def test_vectors_of_a_wrong_type_length_or_range_are_refused(vector: Any, workers: int, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Network({1: 2}).clients[1][0].all_reduce(vector, workers)


def test_a_vector_has_at_most_65535_packets() -> None:
    with pytest.raises(ValueError, match=mentions(4063170, 4063171)):
        AtpClient(Caller(1, 1, 1), 1, KeySpace(MAX_SEQUENCE * VALUES + 1), lambda: 0, 4)


def test_workers_reach_servers_at_the_port_of_the_design() -> None:
    """SwitchML's port is that of the switch's service addresses."""
    assert (atp.DESIGN.server_udp_port, switchml.DESIGN.server_udp_port) == (0x0700, HOTLINE_PORT)


def test_arms_have_their_settings() -> None:
    states: Sequence[Any] = [AGENTS.server(0, 1, KeySpace(9), [arm.job], 0) for arm in (PUBLISHED, CHECKED)]
    assert [int(state.job_states[0].check) for state in states] == [0, 1]
