"""The server of Scapy and the compiled one answer the same datagrams with the same bytes."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.packet import Packet

from foundation.protocol import codec, control
from foundation.protocol.control import MAX_VALUES_KEYS, Command, Control, max_values_keys
from foundation.protocol.hashing import ps_ids_of
from foundation.protocol.header import HOTLINE_PORT, PS_RPC_PORT
from foundation.protocol.rows import RowRange
from hosts.keys import KeySpace
from hosts.scapy.packets import (
    Address,
    Hotline,
    datagram_of,
    destination_of,
    fault_of,
    needs_optimiser,
    packet_of,
    stamp,
)
from hosts.scapy.rows import split_rows
from hosts.scapy.server import ScapyServer
from hotline_agents.hotset.ps.parameter_server import ParameterServer
from hotline_agents.ps.rpcs import JOB_COUNTERS
from switch_harness.effort import examples
from switch_harness.mutation import mutate
from tests.harness.requests import random_request, requests_of_many_epochs
from tests.harness.wire import reply

SIZE, PS, N_PS, JOBS = 200, 1, 3, (4, 5)
N_WORKERS = 2  # requests come from another, too
DENSE = KeySpace(SIZE)
_SPARSE_KEYS = np.sort(np.random.default_rng(1).integers(0, 2**64 - 1, SIZE, dtype=np.uint64))
SPARSE = KeySpace(SIZE, _SPARSE_KEYS)
_MIXED = (RowRange(0, 4), RowRange(90, 1), RowRange(130, 16), RowRange(170, 64), RowRange(190, 128))
SPACES = {
    "dense": DENSE,
    "sparse": SPARSE,
    "rows of 16": KeySpace(SIZE, None, (RowRange(0, 16),)),
    "rows of several dims": KeySpace(SIZE, None, _MIXED),
    "sparse rows of several dims": KeySpace(SIZE, _SPARSE_KEYS, _MIXED),
}
OWN, SERVICE = Address("10.0.2.2", HOTLINE_PORT), Address("10.0.3.2", HOTLINE_PORT)
WORKER, CONTROLLER = Address("10.0.1.1", 20_004), Address("10.0.4.1", HOTLINE_PORT)
US, MS = 1_000, 1_000_000


class Pair:
    """A server of Scapy and a compiled one, which get the same datagrams."""

    def __init__(self, space: KeySpace, random: Random) -> None:
        self.random, self.space, self.now = random, space, 1_000 * MS
        self.own_keys = space.all()[ps_ids_of(space.all(), N_PS) == PS].tolist()
        epochs = dict.fromkeys(JOBS, 1)
        self.compiled: ParameterServer[Address] = ParameterServer(PS, N_PS, space, epochs, lambda: self.now)
        keys = range(SIZE) if space.sparse is None else frozenset(space.sparse.tolist())
        self.scapy = ScapyServer(PS, N_PS, keys, epochs, OWN, SERVICE, space.key_ranges, N_WORKERS)
        self.compiled.server.state.header.n_workers = N_WORKERS
        self.requests: list[bytes] = []  # to the switch, without an answer so far
        self.number = self.refused = 0

    def handle(self, datagram: bytes) -> None:
        """Give both servers a worker's request, and compare all bytes of their answers."""
        arrival = self.now - self.random.randrange(2**33)
        packet = packet_of(datagram, WORKER, OWN)
        packet.time = arrival
        found = self.scapy.handle(packet, self.now)
        if fault_of(packet) is None and needs_optimiser(packet[Hotline]):
            assert found == []  # the compiled server sets the values of a SET
            self.refused += 1
            return
        expected = self.compiled.handle(datagram, arrival, self.now - 77, WORKER)
        assert (expected is None) == (found == [])
        if expected is not None:
            (answer,) = found
            assert destination_of(answer) == WORKER
            assert stamp(datagram_of(answer), 77, self.now - 77 - arrival) == expected[1]

    def command(self, command: Control) -> None:
        datagram = control.build(command)
        self.compiled.command(datagram, CONTROLLER)
        self._compare_sent(self.scapy.handle(packet_of(datagram, CONTROLLER, OWN), self.now))

    def answer_own_rpc(self) -> None:
        """Answer an RPC of the servers to the switch, which has some of the keys; perhaps a second time."""
        if not self.requests:
            return
        index = self.random.randrange(len(self.requests))
        again = self.random.random() < 0.2
        request = self.requests[index] if again else self.requests.pop(index)
        header = codec.parse(request).header
        served = header.live & self.random.choice([2**32 - 1, self.random.getrandbits(32)])
        values = np.frombuffer(self.random.randbytes(4 * header.count * header.dim), np.uint32)
        datagram = reply(header, values, served=served)
        self.now += 30 * US
        self.compiled.receive_rpc_answer(_without_t0(datagram), self.now)
        packet = packet_of(datagram, SERVICE, Address(OWN.ip, PS_RPC_PORT))
        self._compare_sent(self.scapy.handle(packet, self.now))

    def pass_time(self) -> None:
        self.now += self.random.choice([2 * MS, 150 * MS])
        assert self.scapy.deadline() == self.compiled.deadline()
        self.compiled.wake(self.now)
        self._compare_sent(self.scapy.wake(self.now))

    def _compare_sent(self, packets: list[Packet]) -> None:
        expected = {(bytes(_without_t0(datagram)), SERVICE) for datagram in self.compiled.transmit()}
        self.requests += [datagram_of(each) for each in packets if destination_of(each) == SERVICE]
        found = {
            (_ranked(datagram_of(each)) if to == CONTROLLER else _without_t0(datagram_of(each)), to)
            for each in packets
            if (to := destination_of(each))
        }
        expected |= {(_ranked(answer), to) for answer, to in self.compiled.control_answers()}
        assert found == expected

    def draw_command(self) -> Control:
        random = self.random
        self.number += random.choice([0, 1, 1, 1])
        code = random.choice([Command.SEED, Command.SEED, Command.COLLECT, *Command])
        keys = random.sample(self.own_keys, random.randint(1, 20))
        if random.random() < 0.05:
            keys[0] = random.choice([SIZE, int(self.space.all()[0])])
        if code in control.WITHOUT_KEYS:
            keys = []
        elif code in control.WITH_EPOCH:
            keys = [random.choice([1, 1, 1, 7])]
        elif code == Command.BUSIEST:
            keys = [random.choice([0, MAX_VALUES_KEYS]), random.choice([0, 1000])]
        ps = PS if random.random() < 0.95 else 0
        seq = 4 * self.number + random.randrange(4)
        epoch = random.choice([9, 9, 9, 9, 10, 2**32 - 1]) if random.random() < 0.05 else 9
        dim = 1
        if code == Command.VALUES and random.random() < 0.9:
            dim = random.choice(self.space.dims)
            own = np.array(self.own_keys, np.uint64)
            own = own[self.space.dims_at(self.space.positions(own)) == dim]
            keys = random.choices(own.tolist(), k=random.randint(1, min(20, max_values_keys(dim))))
        return Control(code, random.choice(JOBS), ps, epoch, seq, np.array(keys, np.uint64), dim=dim)

    def check(self) -> None:
        assert self.scapy.malformed - self.refused == self.compiled.malformed
        assert self.scapy.misdirected == self.compiled.server.misdirected
        for job in JOBS:
            row, counters = self.compiled.server.counters[job], self.scapy.counters[job]
            # The loops over sockets measure the times.
            for name in set(JOB_COUNTERS) - {"proc_wall_ns", "proc_cpu_ns"}:
                assert int(row[name]) == getattr(counters, name), name
            held = self.compiled.stores[job].contents()
            dims = self.space.dims_at(self.space.positions(held.keys)).tolist()
            rows = split_rows(held.values.tolist(), dims)
            columns = (column.tolist() for column in (held.keys, held.owned, held.updates))
            expected = sorted(
                (key, row, owned, updates) for row, key, owned, updates in zip(rows, *columns, strict=True)
            )
            assert sorted(self.scapy.contents(job, self.space.all().tolist())) == expected
        records = np.concatenate(self.compiled.server.collect_connection_records()).tolist()
        assert [list(record) for record in records] == [list(each) for each in self.scapy.connections]


def _without_t0(datagram: bytes | memoryview) -> bytes:
    """Return an RPC of a PS without the time, which a compiled PS does not send."""
    return bytes(datagram[:36]) + bytes(8) + bytes(datagram[44:])


def _ranked(datagram: bytes) -> bytes:
    """Return an answer to the controller with the ranks of equally busy keys in one order."""
    answer = control.parse(datagram)
    if answer.command is not Command.BUSIEST or answer.values is None:
        return datagram
    order = np.lexsort((answer.keys, -answer.values.astype(np.int64)))
    return control.build(replace(answer, keys=answer.keys[order], values=answer.values[order]))


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@settings(max_examples=examples(3), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_scapy_and_the_compiled_server_give_the_same_answers(space: KeySpace, seed: int) -> None:
    random = Random(seed)
    pair = Pair(space, random)
    for datagram in requests_of_many_epochs(JOBS[0], 1, PS):
        pair.handle(datagram)
    for _ in range(200):
        kind = random.random()
        if kind < 0.55:
            datagram = random_request(random, space, PS, N_PS, JOBS, with_words=False)
            pair.handle(mutate(datagram, random) if random.random() < 0.2 else datagram)
        elif kind < 0.70:
            pair.command(pair.draw_command())
        elif kind < 0.95:
            pair.answer_own_rpc()
        else:
            pair.pass_time()
        pair.now += random.choice([0, 1, 700])
    pair.check()
