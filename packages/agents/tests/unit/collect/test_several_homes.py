"""A server whose rows several switches sum, its homes: which serves what, and what each publishes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from foundation.protocol import control
from foundation.protocol.control import Command, Control, Status
from foundation.protocol.header import KEYS, PS_BITS, REPLAY, VALUES, Op
from packages.agents.tests.unit.collect.switch_model import SwitchModel
from packages.agents.tests.unit.collect.test_collector import JOB, MINE, MS, Bench
from switch_harness.effort import examples
from tests.harness.wire import MODULUS

A, B = MINE[:2]
HOMES, EPOCHS = 3, 100
KEYS_OF_MODEL = MINE[:4]


def bench_of(hot: Sequence[Sequence[int]]) -> Bench:
    """Return a server with the keys that each home has."""
    bench = Bench(homes=len(hot), journal_bytes=1 << 20)
    for home, keys in enumerate(hot):
        bench.switches[home].hot.update(keys)
        if keys:
            assert bench.command(Command.SEED, [*keys], home) is Status.OK
    return bench


def through(home: int) -> int:
    """Return the field `ps` of an RPC that has passed a home."""
    return home << PS_BITS


def test_a_server_refuses_a_row_only_in_rpcs_through_a_home_with_the_row() -> None:
    bench = bench_of([[A], []])
    assert bench.worker(Op.PUSH, [A, B], [4, 5], ps=through(0)).header.refused == 1
    assert bench.worker(Op.PULL, [A, B], ps=through(0)).header.refused == 1
    assert not bench.worker(Op.PUSH, [A, B], [6, 7], ps=through(1)).header.refused
    answer = bench.worker(Op.PULL, [A, B], ps=through(1))
    assert not answer.header.refused and answer.values is not None and answer.values.tolist() == [6, 12]
    # What the server has added itself is published at the home.
    bench.run(60)
    assert bench.switches[0].published[A] == 6
    assert bench.sums()[A] == 6 and bench.sums()[B] == 12


def test_sums_of_one_home_are_published_at_all_homes_with_the_row() -> None:
    bench = bench_of([[A], [A, B], [B]])
    bench.switches[0].push(A, 5)
    bench.switches[2].push(B, 7)
    bench.run(60)
    assert [switch.published for switch in bench.switches] == [{A: 5}, {A: 5, B: 7}, {B: 7}]


def test_a_number_of_no_home_is_not_answered() -> None:
    bench = bench_of([[A], []])
    with pytest.raises(AssertionError):
        bench.worker(Op.PUSH, [B], [4], ps=through(2))
    with pytest.raises(AssertionError):
        bench.worker(Op.PUSH, [B], [4], ps=1)
    assert bench.ps.server.misdirected == 2 and bench.sums()[B] == 0


def busiest(bench: Bench, home: int) -> dict[int, int]:
    """Return the updates of keys since the last call for a home."""
    bench.seq += 4
    keys = np.array([0, 10], np.uint64)
    request = control.build(Control(Command.BUSIEST, JOB, through(home), 3, bench.seq, keys))
    bench.ps.handle(request, bench.now, bench.now, "controller")
    [(answer, _)] = bench.ps.control_answers()
    ranking = control.parse(answer)
    assert ranking.values is not None
    return dict(zip(ranking.keys[1:].tolist(), ranking.values[1:].tolist(), strict=True))


def test_each_homes_controller_counts_updates_by_itself_also_after_a_restart() -> None:
    bench = bench_of([[], []])
    bench.worker(Op.PUSH, [A], [1], ps=through(0))
    assert busiest(bench, 0) == {A: 1}
    bench.worker(Op.PUSH, [A], [1], ps=through(1))
    assert (busiest(bench, 0), busiest(bench, 1)) == ({A: 1}, {A: 2})
    bench.restart()
    assert (busiest(bench, 0), busiest(bench, 1)) == ({}, {})
    bench.worker(Op.PUSH, [B], [1], ps=through(0))
    assert busiest(bench, 1) == {B: 1} == busiest(bench, 0)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40)), min_size=1, max_size=20))
def test_a_copy_has_the_sums_of_all_homes_within_the_bound(pushes: list[tuple[int, int]]) -> None:
    """An addition at any home is in the copies of all homes within the bound, if the server has time."""
    bench, added, added_at = bench_of([[A], [A]]), [0], [bench_start()]
    for home, pause_ms in pushes:
        bench.switches[home].push(A, 1)
        added.append(added[-1] + 1)
        added_at.append(bench.now)
        for _ in range(pause_ms):
            bench.run(1)
            for switch in bench.switches:
                # The latest addition that is older than the bound of 50 ms.
                old = max(
                    count for count, at in zip(added, added_at, strict=True) if at <= bench.now - 50 * MS
                )
                assert switch.published[A] >= old
    bench.run(50)
    assert [switch.published[A] for switch in bench.switches] == [added[-1]] * 2
    ages = bench.store.copy_ages()
    assert ages is not None and ages.late == 0 and ages.oldest_ns <= ages.bound_ns


def bench_start() -> int:
    """Return a time before the begin of any bench."""
    return -50 * MS


class Homes(RuleBasedStateMachine):
    """Random pushes through homes, moves, kills of the server, and restarts of homes, beside plain sums."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = bench_of([[] for _ in range(HOMES)])
        self.sums: dict[int, int] = defaultdict(int)
        self.acknowledged: list[dict[int, int]] = [defaultdict(int) for _ in range(HOMES)]
        """What each home has acknowledged since its start, which its workers replay if it is lost."""
        self.epoch = EPOCHS

    @rule(
        home=st.integers(0, HOMES - 1), key=st.sampled_from(KEYS_OF_MODEL), value=st.integers(0, MODULUS - 1)
    )
    def push(self, home: int, key: int, value: int) -> None:
        switch = self.bench.switches[home]
        if key in switch.hot:
            switch.push(key, value)
            self.acknowledged[home][key] += value
        else:
            assert not self.bench.worker(Op.PUSH, [key], [value], ps=through(home)).header.refused
        self.sums[key] += value

    @rule(home=st.integers(0, HOMES - 1), key=st.sampled_from(KEYS_OF_MODEL))
    def pull(self, home: int, key: int) -> None:
        answer = self.bench.worker(Op.PULL, [key], ps=through(home))
        assert bool(answer.header.refused) == (key in self.bench.switches[home].hot)

    @rule(home=st.integers(0, HOMES - 1), keys=st.sets(st.sampled_from(KEYS_OF_MODEL), min_size=1))
    def enter(self, home: int, keys: set[int]) -> None:
        self.bench.switches[home].hot |= keys
        assert self.bench.command(Command.SEED, sorted(keys), home) is Status.OK

    @rule(home=st.integers(0, HOMES - 1), keys=st.sets(st.sampled_from(KEYS_OF_MODEL), min_size=1))
    def leave(self, home: int, keys: set[int]) -> None:
        switch = self.bench.switches[home]
        assert self.bench.command(Command.COLLECT, sorted(keys & switch.hot), home) is Status.OK
        switch.hot -= keys

    @rule(ms=st.integers(1, 60))
    def run(self, ms: int) -> None:
        self.bench.run(ms)

    @rule()
    def kill_server(self) -> None:
        self.bench.restart()

    @rule(home=st.integers(0, HOMES - 1))
    def restart_home(self, home: int) -> None:
        """Start an empty switch; its workers replay what it has acknowledged, and its rows are loaded."""
        hot, self.bench.switches[home] = self.bench.switches[home].hot, SwitchModel()
        self.epoch += 1
        assert self.bench.command(Command.RENEW, [self.epoch], home) is Status.OK
        for key, value in self.acknowledged[home].items():
            self.bench.worker(
                Op.PUSH, [key], [value % MODULUS], flags=KEYS | VALUES | REPLAY, ps=through(home)
            )
        self.acknowledged[home].clear()
        assert self.bench.command(Command.SETTLE, [self.epoch], home) is Status.OK
        self.bench.switches[home].hot = hot
        if hot:
            assert self.bench.command(Command.SEED, sorted(hot), home) is Status.OK

    @invariant()
    def each_push_is_added_once(self) -> None:
        found = self.bench.sums()
        assert all(found[key] == self.sums[key] % MODULUS for key in KEYS_OF_MODEL)

    @precondition(lambda self: self.sums)
    @rule()
    def publish(self) -> None:
        """Then all copies have all sums."""
        for _ in range(2):  # what the last home adds reaches the first one in the second round
            for home in range(HOMES):
                assert self.bench.command(Command.PUBLISH, [], home) is Status.OK
        for switch in self.bench.switches:
            for key in switch.hot:
                assert switch.published[key] == self.sums[key] % MODULUS


Homes.TestCase.settings = settings(max_examples=examples(40), deadline=None)
TestHomes = Homes.TestCase
