"""Sums of extreme values are exact modulo 2^32, and overflows are counted.

The switch counts an overflow for each addition, the PS for each RPC with any. A move adds a value to 0, or
its negation to itself. Only -2^31 has no negation: when it moves back, the switch counts an overflow.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.protocol.hashing import ps_of
from foundation.protocol.header import LANES
from switch_harness.effort import examples
from tests.harness import testnet
from tests.harness.testbed import JOB, SERVERS, SteppedTestbed
from tests.harness.wire import MODULUS

HOT, COLD, MOVING = [key for key in testnet.KEY_OF if ps_of(key, SERVERS) == 0][:3]
"""A key of the switch, one of PS 0, and one of it that moves; each in a lane of its own."""
SMALLEST = 2**31
"""As a residue: -2^31."""
EXTREMES = st.one_of(st.sampled_from([0, 1, 2**31 - 1, SMALLEST, MODULUS - 1]), st.integers(0, MODULUS - 1))
PUSHES = st.tuples(
    st.sampled_from([0, 1]), st.dictionaries(st.sampled_from([HOT, COLD, MOVING]), EXTREMES, min_size=1)
)
"""Worker, and deltas by key."""


class Rig(SteppedTestbed):
    """Two workers, the switch and PSs; each push ends before the next."""

    def __init__(self) -> None:
        super().__init__()
        self.load(HOT)

    def push_deltas(self, worker: int, deltas: dict[int, int]) -> None:
        keys = sorted(deltas)
        self.workers[worker].push(np.array(keys), np.array([deltas[key] for key in keys], np.uint32))
        self.transmit()
        self.finish()

    def sums(self) -> dict[int, int]:
        return dict(zip((HOT, COLD, MOVING), self.values(HOT, COLD, MOVING), strict=True))

    def overflows(self) -> tuple[int, int]:
        """Return the overflows counted by the switch and by the PS."""
        at_switch = sum(testnet.lane_stats(self.switch.pipeline, lane)[2] for lane in range(LANES))
        return at_switch, int(self.servers[0].server.counters[JOB].overflows)


def signed(residue: int) -> int:
    return residue - MODULUS if residue >= SMALLEST else residue


class Model:
    """The same sums in Python's integers."""

    def __init__(self) -> None:
        self.sums = dict.fromkeys((HOT, COLD, MOVING), 0)
        self.at_switch = {HOT}
        self.overflows = [0, 0]

    def push(self, deltas: dict[int, int]) -> None:
        beyond = {key for key, delta in deltas.items() if self._overflows(key, delta)}
        self.sums.update({key: (self.sums[key] + delta) % MODULUS for key, delta in deltas.items()})
        self.overflows[0] += len(beyond & self.at_switch)
        self.overflows[1] += bool(beyond - self.at_switch)

    def _overflows(self, key: int, delta: int) -> bool:
        return not -SMALLEST <= signed(self.sums[key]) + signed(delta) < SMALLEST

    def move(self) -> bool:
        """Move to the other side; return whether that is the switch."""
        self.at_switch ^= {MOVING}
        self.overflows[0] += MOVING not in self.at_switch and self.sums[MOVING] == SMALLEST
        return MOVING in self.at_switch


def play(rig: Rig, happenings: list[tuple[int, dict[int, int]] | None]) -> Iterator[Model]:
    """Play pushes, and moves (None)."""
    model = Model()
    for happening in happenings:
        if happening is None:
            (rig.load if model.move() else rig.unload)(MOVING)
        else:
            rig.push_deltas(*happening)
            model.push(happening[1])
        yield model


@settings(max_examples=examples(60))
@given(happenings=st.lists(st.one_of(PUSHES, PUSHES, PUSHES, st.none()), max_size=40))
def test_sums_are_exact_and_overflows_are_counted(
    happenings: list[tuple[int, dict[int, int]] | None],
) -> None:
    rig = Rig()
    for model in play(rig, happenings):
        assert rig.sums() == model.sums
        assert rig.overflows() == tuple(model.overflows)


@pytest.mark.parametrize(
    ("deltas", "overflows"),
    [
        ([2**31 - 1, 1], 1),
        ([SMALLEST, MODULUS - 1], 1),
        ([SMALLEST, SMALLEST], 1),
        ([2**31 - 1, SMALLEST, 1, MODULUS - 1], 0),
        ([2**31 - 1, 1, MODULUS - 1], 2),
    ],
)
def test_overflows_are_counted_as_worked_out_by_hand(deltas: list[int], overflows: int) -> None:
    """Two workers push in turn to a key in the switch and one at the PS."""
    rig = Rig()
    for n, delta in enumerate(deltas):
        rig.push_deltas(n % 2, {HOT: delta, COLD: delta})
    assert rig.overflows() == (overflows, overflows)
    assert rig.sums() == {HOT: sum(deltas) % MODULUS, COLD: sum(deltas) % MODULUS, MOVING: 0}


def test_the_smallest_value_returns_unchanged_from_the_switch() -> None:
    rig = Rig()
    rig.push_deltas(0, {MOVING: SMALLEST})
    rig.load(MOVING)
    assert (rig.sums()[MOVING], rig.overflows()) == (SMALLEST, (0, 0))
    rig.unload(MOVING)
    assert (rig.sums()[MOVING], rig.overflows()) == (SMALLEST, (1, 0))
