"""Every counter that the wire cuts, from near its end: agents and switch go on, or say why they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, cast

import numpy as np
import pytest

from controller.client import SwitchClient
from controller.errors import NoAnswer
from controller.inband import InBand
from controller.tables import ServerRow
from foundation.errors import HotlineError
from foundation.optimisers import Adam, Optimiser
from foundation.protocol.codec import MAX_U32
from foundation.protocol.control import Command, Control, Status, build, parse
from foundation.protocol.header import (
    COLLECTOR_BASE,
    PS_CALLER_BASE,
    WINDOW,
    WINDOW_BITS,
    Op,
    bits_of_fields,
    unpack,
)
from hosts.keys import KeySpace
from hotline_agents.collect.collector import LAST_SEQ
from hotline_agents.collect.state import COLLECTIONS
from hotline_agents.hotset.worker import client as client_module
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.ps.rpcs import find_caller
from hotline_agents.ps.values import NOT_OWNED, UPDATE_COUNT_MASK
from hotline_agents.worker.client import NumbersUsedUp
from hotline_agents.worker.window import MAX_TURN
from nativekit.plain import plain
from packages.agents.tests.unit.collect.test_collector import JOB as COLLECT_JOB
from packages.agents.tests.unit.collect.test_collector import MINE, Bench, seeded
from packages.agents.tests.unit.none.test_none import ServerTestbed
from switch_harness.effort import seeds
from switch_harness.wording import mentions
from tests.harness import wire
from tests.harness.switches import CELLS, PipelineSwitch
from tests.harness.testbed import JOB, Testbed
from tests.harness.testnet import new_switch
from tests.harness.wire import MODULUS
from tests.unit.programs.test_exactly_once import play

COUNTERS = {
    "seq": "the tests of workers, movers, collectors and commands",
    "iteration": "test_the_number_of_a_push_stays_at_the_largest; otherwise it is only echoed",
    "epoch": "test_controllers_are_ordered_across_the_wrap_around_of_epochs; other epochs count restarts",
    "residence": "a duration in µs",
    "ps_proc": "a duration, which is clipped",
    "ps_queue": "a duration, which is clipped",
}
"""The numeric fields of 32 bits, and what tests their end."""


def test_every_field_that_counts_is_known() -> None:
    assert {name for name, bits in bits_of_fields(8).items() if bits == 32} == set(COUNTERS)


# -- turns of workers, servers and movers, and the compiled P4 program


class EndedTestbed(Testbed):
    """A testbed whose callers have few turns left in each slot. Who has none left restarts."""

    used_up = ended_slots = 0
    turns = 0

    def near_the_end(self, turns: int) -> None:
        """Leave each slot one to three turns, and the last one at least so many; also after restarts."""
        self.turns = turns
        for worker in self.workers:
            self._move(worker.client, worker.worker, worker.epoch, worker.worker, self.window, turns)
        for server in self.servers:
            mover = cast(Any, server)._movers[JOB, 0]._switch
            self._move(mover, PS_CALLER_BASE + server.ps, 5, 100 + server.ps, WINDOW, 1000)

    def restart(self, index: int) -> None:
        self.count_ended_slots(index)
        super().restart(index)
        worker = self.workers[index]
        self._move(worker.client, worker.worker, worker.epoch, worker.worker, self.window, self.turns)

    def count_ended_slots(self, index: int) -> None:
        client = self.workers[index].client
        self.ended_slots += client.idle and self.window - len(client.free_numbers())

    def _move(self, client: HotsetClient, worker: int, epoch: int, row: int, window: int, turns: int) -> None:
        """Continue as after many turns, which the switch and the servers have seen."""
        last_turns = [MAX_TURN - self.random.randint(1, 3) for _ in range(window - 1)]
        last_turns.append(MAX_TURN - self.random.randint(turns, 2 * turns))
        client.set_free_numbers([turn + 1 << WINDOW_BITS | s for s, turn in enumerate(last_turns)][::-1])
        for s, turn in enumerate(last_turns):
            self.switch.pipeline.cells.write_register(
                CELLS, row << WINDOW_BITS | s, (epoch << 32 | turn) << 32
            )
        for server in self.servers:
            state = server.server.state
            state.callers[_find_caller(state, JOB, worker, epoch)].turns[:window] = last_turns

    def begin(self, index: int) -> None:
        try:
            super().begin(index)
        except NumbersUsedUp:
            self.used_up += 1
            self.workers[index]._is_pushing = False  # nothing was sent
            self.restart(index)


_find_caller = plain(find_caller)
RESERVED = 40
"""Numbers that an operation of these tests takes at most."""


@pytest.mark.parametrize("seed", seeds(40))
def test_workers_and_movers_with_few_turns_left_lose_nothing(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Copies come late, also those of a slot's last turn, and each push counts once."""
    monkeypatch.setattr(client_module, "RESERVED_NUMBERS", RESERVED)
    window = 2 + 6 * (seed % 3)
    random = Random(seed)
    network = EndedTestbed(
        PipelineSwitch(new_switch()), random, loss=0.05, doubling=0.5, window=window, proxy=seed % 2 == 0
    )
    network.near_the_end(turns=45)
    play(network, 3000)
    network.quiesce()
    for index in range(len(network.workers)):
        network.count_ended_slots(index)
        # The check pulls with the numbers that were reserved.
        network.workers[index].client.state.header.issue_limit += RESERVED
    assert network.ended_slots
    network.check()


@pytest.mark.parametrize("slots_left", [1, 2])
def test_operations_continue_in_the_remaining_slots_when_a_slot_has_no_numbers_left(slots_left: int) -> None:
    network = EndedTestbed(PipelineSwitch(new_switch()), Random(1), window=4)
    client = network.workers[0].client
    numbers = [(MAX_TURN << WINDOW_BITS) + s for s in range(4)]
    # Some slots have turns left; the others are on top of the stack.
    client.set_free_numbers([number - 50 * WINDOW for number in numbers[:slots_left]] + numbers[slots_left:])
    client.state.header.issue_limit = 1
    for s in range(4):
        cell = (10 << 32 | MAX_TURN - (51 if s < slots_left else 1)) << 32
        network.switch.pipeline.cells.write_register(CELLS, 1 << WINDOW_BITS | s, cell)
    for server in network.servers:
        state = server.server.state
        state.callers[_find_caller(state, JOB, 1, 10)].turns[:] = 0
    everything = np.arange(network.space.size)
    network.workers[0].push(everything, everything.astype(np.uint32))
    network.transmit()
    network.quiesce()
    assert client.idle and len(client.free_numbers()) == slots_left
    network.workers[0].settle()
    assert (network.held() == everything).all()


def test_a_caller_without_sequence_numbers_reports_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "RESERVED_NUMBERS", 2)
    network = EndedTestbed(PipelineSwitch(new_switch()), Random(1), window=2)
    client = network.workers[0].client
    client.set_free_numbers([MAX_U32 - 1, MAX_U32])
    expected = "worker 1 of job 3: epoch 10 has no sequence numbers of 32 bits left after 0 RPCs"
    no_deltas = np.zeros(1, np.uint32)
    operations: list[Callable[[], None]] = [
        lambda: client.pull(0, np.array([1])),
        lambda: client.push(0, np.array([1]), no_deltas, np.zeros(1, np.bool_)),
        lambda: client.start_empty_rpc(0),
        client.replay,
    ]
    for operation in operations:
        with pytest.raises(NumbersUsedUp, match=expected):
            operation()
    assert client.idle and client.transmit() is None
    client.renew(11)
    assert len(client.free_numbers()) == 2
    client.pull(0, np.array([1]))
    assert unpack(wire.sent(client)[0]).seq == WINDOW


def test_a_mover_continues_from_a_checkpoint_with_its_remaining_slots() -> None:
    first, second = Testbed(PipelineSwitch(new_switch()), Random(1)), None
    mover = cast(Any, first.servers[0])._movers[JOB, 0]
    mover._switch.set_free_numbers([MAX_U32 - 3 * WINDOW, MAX_U32 - 1])
    second = cast(Any, Testbed(PipelineSwitch(new_switch()), Random(1)).servers[0])._movers[JOB, 0]
    second.restore(mover.snapshot())
    assert second._switch.free_numbers() == [MAX_U32 - 3 * WINDOW, MAX_U32 - 1]


@pytest.mark.parametrize("seed", seeds(16))
def test_workers_without_a_switch_with_few_turns_left_lose_nothing(seed: int) -> None:
    testbed = ServerTestbed(KeySpace(100), seed)
    testbed.loss = 0.2
    for client in testbed.clients:
        state = cast(Any, client.state)
        for k, number in enumerate(state.free[:4].tolist()):
            turns_left = 2 if k else 40
            state.free[k] = (MAX_TURN - turns_left << WINDOW_BITS) + number % WINDOW
    for _ in range(3):
        for w in range(2):
            testbed.begin(w, testbed.random.sample(range(100), 40), pushes=True)
        testbed.settle()
    assert all(cast(Any, client.state).header.n_free < 4 for client in testbed.clients)
    for w, client in enumerate(testbed.clients):
        testbed.begin(w, list(range(100)), pushes=False)
        testbed.settle()
        assert client.values.tolist() == testbed.sums.tolist()


# -- collectors and controllers


@pytest.mark.parametrize("as_plain", [True, False], ids=["plain", "compiled"])
def test_a_collector_without_sequence_numbers_reports_an_error(as_plain: bool) -> None:
    bench = Bench(journal_bytes=1 << 20, as_plain=as_plain)
    bench.switch.hot.update(MINE[:1])
    bench.command(Command.SEED, MINE[:1])
    bench.run(100)
    state = bench.ps.server.state
    epoch = int(state.collectors[0].epoch)
    for slot in range(COLLECTIONS):
        number = LAST_SEQ // WINDOW * WINDOW - 3 * (slot == 0) * WINDOW + slot
        state.collections[slot].seq = number
        bench.switch.turns[COLLECTOR_BASE, epoch, slot] = (number >> WINDOW_BITS) - 1, 0
    pushed = 0
    with pytest.raises(HotlineError, match=mentions("collector", COLLECT_JOB)):
        for n in range(1, 100):
            bench.switch.push(MINE[0], n)
            pushed += n
            bench.run(10)
    assert state.collectors[0].n_used_up == COLLECTIONS
    assert all(collection.seq <= MAX_U32 + WINDOW for collection in state.collections)
    assert bench.sums()[MINE[0]] == pushed
    assert bench.command(Command.RENEW, [epoch + 1]) is Status.OK
    assert not state.collectors[0].n_used_up
    bench.switch.pending_rows.clear()
    assert bench.command(Command.SEED, MINE[:1]) is Status.OK
    value = bench.switch.published[MINE[0]]
    bench.switch.push(MINE[0], 5)
    bench.run(100)
    assert bench.switch.published[MINE[0]] == (value + 5) % MODULUS


def test_a_controller_uses_its_sequence_numbers_up_to_the_largest() -> None:
    """A server accepts the largest number, and a controller sends no larger one."""
    network = Testbed(PipelineSwitch(new_switch()), Random(1))
    mover = cast(Any, network.servers[0])._movers[JOB, 0]
    for seq in (MAX_U32 - 4, MAX_U32):
        hello = Control(Command.HELLO, JOB, 0, epoch=9, seq=seq, keys=np.zeros(0, np.uint64))
        network.servers[0].command(build(hello), network.workers[0].end)
        ((answer, _),) = network.servers[0].control_answers()
        assert parse(answer).seq == seq
    assert mover._order._latest[MAX_U32 % 4] == MAX_U32

    async def send() -> None:
        inband = InBand(cast(SwitchClient, Epochs()))
        inband._free_seqs_by_server[SERVER] = numbers = asyncio.Queue[int]()
        numbers.put_nowait(MAX_U32 + 1)
        with pytest.raises(NoAnswer, match=mentions(32, "HELLO")):
            await inband.execute(Command.HELLO, SERVER)

    asyncio.run(send())


def test_controllers_are_ordered_across_the_wrap_around_of_epochs() -> None:
    """A later controller's epoch is smaller there."""
    server = Testbed(PipelineSwitch(new_switch()), Random(1)).servers[0]
    end = Testbed(PipelineSwitch(new_switch()), Random(1)).workers[0].end
    for epoch, issued in (
        (MAX_U32 - 1, None),
        (MAX_U32, MAX_U32),
        (MAX_U32, None),
        (MAX_U32 - 1, 0),
        (5, 1),
        (0, None),
        (MAX_U32, 2),
        (2, None),
        (1, 3),
    ):
        # Another seq, since the answer to a repeated command is repeated.
        hello = Control(Command.HELLO, JOB, 0, epoch=epoch, seq=issued or 77, keys=np.zeros(0, np.uint64))
        server.command(build(hello), end)
        ((answer, _),) = server.control_answers()
        assert (parse(answer).epoch, parse(answer).status is Status.STALE) == (epoch, issued is not None)
        assert parse(answer).keys.tolist() == [issued] * (issued is not None)


SERVER = ServerRow(JOB, 1, "02:00:00:00:02:01", "10.0.2.1", 5001, 5, "02:00:00:00:03:01", "10.0.3.1", 6001)


class Epochs:
    def new_epoch(self) -> int:
        return 1


def test_the_number_of_a_push_stays_at_the_largest() -> None:
    """From there on, Adam's correction of its averages is 1: a number that wraps would be its first step."""
    client = ServerTestbed(KeySpace(100), 1).clients[0]
    client.prepare(push_number=MAX_U32 - 1)
    numbers = []
    for _ in range(3):
        client.push(1, np.array([1]), np.ones(1, np.uint32), np.zeros(100, np.bool_))
        (request,) = wire.sent(client)
        numbers.append(unpack(request).iteration)
        client.receive(wire.reply(unpack(request)), 0, 0)
    assert numbers == [MAX_U32 - 1, MAX_U32, MAX_U32]
    client.prepare(push_number=MAX_U32 + 7)
    client.push(1, np.array([1]), np.ones(1, np.uint32), np.zeros(100, np.bool_))
    assert unpack(wire.sent(client)[0]).iteration == MAX_U32


# -- updates of a key, in 31 bits beside the bit of its owner


@pytest.mark.parametrize("optimiser", [None, Adam(lr=0.1)], ids=["sum", "adam"])
def test_a_key_with_many_updates_stays_its_owners(optimiser: Optimiser | None) -> None:
    bench = Bench(optimiser)
    store, key = bench.store, MINE[0]
    place = store.locate(np.array([key], np.uint64))
    head = store._head_cells(place)
    store._words[head] = UPDATE_COUNT_MASK - 1
    store.restart_counts()
    for n in range(1, 4):
        answer = bench.worker(Op.PUSH, [key], [5])
        assert not answer.header.refused
        assert store._words[head][0] == (UPDATE_COUNT_MASK - 1 + n) % NOT_OWNED
    assert store.is_owned(place).all()
    keys, counts = store.busiest(1)
    assert keys.tolist()[1:] == [key] and counts.tolist() == [3, 3]


def test_a_collected_key_with_many_updates_stays_the_switchs() -> None:
    bench = seeded(MINE[:1])
    place = bench.store.locate(np.array(MINE[:1], np.uint64))
    head = bench.store._head_cells(place)
    for updates in (0, UPDATE_COUNT_MASK):
        bench.store._words[head] = NOT_OWNED | updates
        bench.switch.push(MINE[0], 5)
        bench.run(100)
        assert bench.switch.published[MINE[0]] == bench.switch.pending[MINE[0]]
        assert bench.store._words[head][0] == NOT_OWNED | updates
    # A gradient that is applied to a key of the server is not counted again either.
    bench.store._words[head] = UPDATE_COUNT_MASK
    bench.store.absorb(place, np.array([5], np.uint32))
    assert bench.store._words[head][0] == UPDATE_COUNT_MASK
