"""Collections under loss, duplication, restarts and lost switches, beside plain sums (hypothesis)."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from foundation.protocol import codec
from foundation.protocol.control import Command, Status
from foundation.protocol.header import KEYS, REPLAY, VALUES, Op
from switch_harness.effort import examples
from tests.harness.wire import MODULUS
from tests.unit.collect.switch_model import SwitchModel
from tests.unit.collect.test_collector import MINE, MS, Bench

KEY = st.sampled_from(MINE[:4])
DELTA = st.sampled_from([1, 2, 7, MODULUS - 1, 2**31])


class Collections(RuleBasedStateMachine):
    """One server, whose RPCs and answers are delivered, repeated or lost; gradients are added."""

    @initialize()
    def begin(self) -> None:
        self.bench = Bench(journal_bytes=1 << 20)
        self.pushed: dict[int, int] = {}
        self.acked: dict[int, int] = {}  # by the present switch, as a worker's replay log has it
        self.wire: list[bytes] = []
        self.answers: list[bytes] = []
        self.epoch = 5

    def _add(self, sums: dict[int, int], key: int, delta: int) -> None:
        sums[key] = (sums.get(key, 0) + delta) % MODULUS

    @rule(key=KEY, delta=DELTA)
    def push(self, key: int, delta: int) -> None:
        if key in self.bench.switch.hot:
            self.bench.switch.push(key, delta)
            self._add(self.acked, key, delta)
        elif self.bench.worker(Op.PUSH, [key], [delta]).header.refused:
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
        self.bench.switch = SwitchModel()
        assert self.bench.command(Command.RENEW, [self.epoch]) is Status.OK
        self.wire.clear()
        for key, delta in self.acked.items():
            answer = self.bench.worker(Op.PUSH, [key], [delta], flags=KEYS | VALUES | REPLAY)
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
        sums = {key: total for key, total in self.bench.sums().items() if total}
        assert sums == {key: total for key, total in self.pushed.items() if total}

    def teardown(self) -> None:
        if not hasattr(self, "bench"):
            return
        self._drain()
        assert self.bench.command(Command.PUBLISH, []) is Status.OK
        sums = self.bench.sums()
        for key, total in self.pushed.items():
            assert sums[key] == total
            if key in self.bench.switch.hot:
                assert self.bench.switch.pending.get(key, 0) == 0


TestCollections = Collections.TestCase
TestCollections.settings = settings(max_examples=examples(240), stateful_step_count=40, deadline=None)


def test_an_answer_of_another_collection_is_not_taken() -> None:
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
    assert len(bench.sent()) == 1
