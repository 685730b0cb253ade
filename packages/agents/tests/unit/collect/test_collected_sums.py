"""Collections under loss, duplication, restarts and lost switches, beside plain sums (hypothesis)."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from foundation.protocol import codec
from foundation.protocol.control import Command, Status
from foundation.protocol.header import DIMS, KEYS, REPLAY, VALUES, Op
from foundation.protocol.rows import RowRange
from hosts.keys import KeySpace
from hotline_agents.collect.schedule import place_of_cell, row_at
from hotline_agents.collect.state import DEFAULT_MAX_SUM, make_server
from hotline_agents.ps.share import make_share, rows_at
from nativekit.plain import plain
from packages.agents.tests.unit.collect.switch_model import Row, SwitchModel, add
from packages.agents.tests.unit.collect.test_collector import MINE, MS, SPACE, Bench
from switch_harness.effort import examples
from tests.harness.wire import MODULUS

MIXED = KeySpace(SPACE.size, None, (RowRange(0, 1), RowRange(MINE[1], 16), RowRange(MINE[3], 64)))
KEY = st.sampled_from(MINE[:4])
DELTA = st.sampled_from([1, 2, 7, MODULUS - 1, 2**31])
_row_at, _place_of_cell = plain(row_at), plain(place_of_cell)


class Collections(RuleBasedStateMachine):
    """One server, whose RPCs and answers are delivered, repeated or lost; gradients are added."""

    space = SPACE
    max_sum = DEFAULT_MAX_SUM

    @initialize()
    def begin(self) -> None:
        self.bench = Bench(journal_bytes=1 << 20, space=self.space, max_sum=self.max_sum)
        self.pushed: dict[int, Row] = {}
        self.acked: dict[int, Row] = {}  # by the present switch, as a worker's replay log has it
        self.wire: list[bytes] = []
        self.answers: list[bytes] = []
        self.epoch = 5

    def _add(self, sums: dict[int, Row], key: int, delta: Row) -> None:
        sums[key] = add(sums.get(key, (0,) * len(delta)), delta)

    @rule(key=KEY, factor=DELTA)
    def push(self, key: int, factor: int) -> None:
        dim = int(self.space.dims_at(np.array([key]))[0])
        delta = tuple(factor * (v + 1) % MODULUS for v in range(dim))  # a part of another row would differ
        if key in self.bench.switch.hot:
            self.bench.switch.push(key, *delta)
            self._add(self.acked, key, delta)
        elif self.bench.worker(Op.PUSH, [key], list(delta), dim=dim).header.refused:
            return
        self._add(self.pushed, key, delta)

    @rule(ms=st.integers(1, 60))
    def advance(self, ms: int) -> None:
        self.bench.advance(ms * MS)
        self.wire += self.bench.sent()

    @rule(data=st.data(), fate=st.sampled_from(["answered", "repeated", "lost"]))
    def pass_request(self, data: st.DataObject, fate: str) -> None:
        if not self.wire:
            return
        request = self.wire[data.draw(st.integers(0, len(self.wire) - 1))]
        if fate != "repeated":
            self.wire.remove(request)
        if fate != "lost" and (answer := self.bench.switch.answer(request)) is not None:
            self.answers.append(answer)

    @rule(data=st.data(), fate=st.sampled_from(["delivered", "repeated", "lost"]))
    def pass_answer(self, data: st.DataObject, fate: str) -> None:
        if not self.answers:
            return
        answer = self.answers[data.draw(st.integers(0, len(self.answers) - 1))]
        if fate != "repeated":
            self.answers.remove(answer)
        if fate != "lost":
            self.bench.deliver(answer)
            self.wire += self.bench.sent()

    @rule()
    def restart_server(self) -> None:
        self.bench.restart()
        self.wire += self.bench.sent()

    @rule(keys=st.sets(KEY, min_size=1))
    def enter(self, keys: set[int]) -> None:
        """Move keys into the switch, and have the rest of the wire delivered."""
        self._drain()
        self.bench.switch.hot |= keys
        assert self.bench.command(Command.SEED, sorted(keys)) is Status.OK

    @rule(keys=st.sets(KEY, min_size=1))
    def leave(self, keys: set[int]) -> None:
        self._drain()
        assert self.bench.command(Command.COLLECT, sorted(keys & self.bench.switch.hot)) is Status.OK
        self.bench.switch.hot -= keys

    @rule(settles=st.booleans())
    def lose_switch(self, settles: bool) -> None:
        self.epoch += 1
        self.bench.switches[0] = SwitchModel()
        assert self.bench.command(Command.RENEW, [self.epoch]) is Status.OK
        self.wire.clear()
        for key, delta in self.acked.items():
            answer = self.bench.worker(
                Op.PUSH, [key], list(delta), flags=KEYS | VALUES | REPLAY, dim=len(delta)
            )
            assert not answer.header.refused
        self.acked.clear()
        if settles:
            assert self.bench.command(Command.SETTLE, [self.epoch]) is Status.OK

    def _drain(self) -> None:
        self.bench.exchange()
        for answer in self.answers:
            self.bench.deliver(answer)
        self.answers.clear()
        self.wire.clear()

    @invariant()
    def nothing_is_lost_or_doubled_at_rest(self) -> None:
        if any(self.bench.ps.server.state.collections.phase):
            return
        sums = {key: total for key, total in self.bench.row_sums().items() if any(total)}
        assert sums == {key: total for key, total in self.pushed.items() if any(total)}

    def teardown(self) -> None:
        if not hasattr(self, "bench"):
            return
        self._drain()
        # What was replayed for a lost switch is published once every worker has replayed.
        assert self.bench.command(Command.SETTLE, [self.epoch]) is Status.OK
        assert self.bench.command(Command.PUBLISH, []) is Status.OK
        sums = self.bench.row_sums()
        for key, total in self.pushed.items():
            assert sums[key] == total
            if key in self.bench.switch.hot:
                assert self.bench.switch.published_rows[key] == total


class CollectionsOfRows(Collections):
    """The same with rows of three dims, two of the four keys with rows of 16."""

    space = MIXED


class CollectionsOfLargeSums(CollectionsOfRows):
    """The same with sums that are cleared when they have been read, if they are 7 or larger."""

    max_sum = 7


TestCollections = Collections.TestCase
TestCollections.settings = settings(max_examples=examples(200), stateful_step_count=40, deadline=None)
TestCollectionsOfRows = CollectionsOfRows.TestCase
TestCollectionsOfRows.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)
TestCollectionsOfLargeSums = CollectionsOfLargeSums.TestCase
TestCollectionsOfLargeSums.settings = settings(
    max_examples=examples(60), stateful_step_count=40, deadline=None
)


@settings(max_examples=examples(60), deadline=None)
@given(
    dims=st.lists(st.sampled_from(DIMS), min_size=1, max_size=6),
    ps=st.integers(0, 1),
    words=st.integers(1, 4),
    data=st.data(),
)
def test_rows_have_places_and_cells_that_map_to_each_other(
    dims: list[int], ps: int, words: int, data: st.DataObject
) -> None:
    """`rows_at`, which finds them for arrays, is the second implementation."""
    firsts = sorted(data.draw(st.sets(st.integers(1, 63), min_size=len(dims) - 1, max_size=len(dims) - 1)))
    space = KeySpace(64, None, tuple(map(RowRange, [0, *firsts], dims)))
    server = make_server(ps, 2, space, [1])._replace(share=make_share(space, ps, 2, words))
    places = np.arange(server.share.header.places)
    cells, stride = rows_at(server.share, places)[0].tolist(), server.share.ranges.stride
    index = np.searchsorted(server.share.ranges.first_place, places, side="right") - 1
    for place, cell, row_cells in zip(places.tolist(), cells, stride[index].tolist(), strict=True):
        assert _row_at(server, place) == cell
        assert {_place_of_cell(server, cell + k) for k in range(row_cells)} == {place}
    outside = int(server.share.header.places)
    assert _row_at(server, outside) == server.share.header.outside_cell


def test_rows_replayed_for_a_lost_switch_are_published_when_all_workers_have_replayed() -> None:
    state = Collections()
    state.begin()
    key = MINE[1]
    state.enter({key})
    state.push(key, 1)
    state.lose_switch(settles=False)
    state.enter({key})
    state.nothing_is_lost_or_doubled_at_rest()
    state.bench.run(60)
    assert state.bench.switch.published_rows[key] == (0,)
    state.teardown()
    assert state.bench.switch.published_rows[key] == (1,)


def test_an_answer_to_another_collection_is_ignored() -> None:
    bench = Bench()
    bench.switch.hot.update(MINE[:1])
    assert bench.command(Command.SEED, MINE[:1]) is Status.OK
    bench.switch.push(MINE[0], 5)
    bench.advance(60 * MS)
    [request] = bench.sent()
    answer = bench.switch.answer(request)
    assert answer is not None
    header = codec.parse(answer).header
    for wrong in (header._replace(seq=header.seq + 64), header._replace(epoch=header.epoch + 1)):
        message = codec.parse(answer)._replace(header=wrong)
        bench.deliver(codec.build(message))
        assert bench.sent() == []
    bench.deliver(answer)
    bench.advance(4 * MS)
    assert len(bench.sent()) == 1
