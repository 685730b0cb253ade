"""Sums of extreme values are exact modulo 2^32, and overflows are counted.

The switch counts an overflow for each addition, the PS for each RPC with any. A move adds a value to 0, or
its negation to itself. Only -2^31 has no negation: when it moves back, the switch counts an overflow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.protocol import control
from foundation.protocol.control import Command, Control, Status
from foundation.protocol.header import WINDOW_BITS, Op
from hosts.hotset.ps.core import ParameterServer
from hosts.keys import KeySpace
from softswitch.pipeline import Change
from switch_harness.effort import examples
from tests.harness import frames, testnet
from tests.harness.frames import Parsed
from tests.harness.testnet import EPOCH, OFFLOADED
from tests.harness.wire import MODULUS

HOT, COLD, MOVING = testnet.KEY_OF[:3]
"""A key of the switch, one of the PS, and one that moves; each in its hash lane."""
LANE = {HOT: 0, COLD: 1, MOVING: 2}
SLOT = 5
SMALLEST = 2**31
"""As a residue: -2^31."""
EXTREMES = st.one_of(st.sampled_from([0, 1, 2**31 - 1, SMALLEST, MODULUS - 1]), st.integers(0, MODULUS - 1))
PUSHES = st.tuples(
    st.sampled_from([1, 2]), st.dictionaries(st.sampled_from(list(LANE)), EXTREMES, min_size=1)
)
"""Worker, and deltas by key."""


class Rig:
    """Two workers, the switch and the only PS."""

    def __init__(self) -> None:
        self.switch = testnet.new_switch()
        testnet.write(self.switch, testnet.network())
        self.ps: ParameterServer[str] = ParameterServer(0, 1, KeySpace(10_000), {OFFLOADED: EPOCH}, lambda: 0)
        self._turns: Counter[int] = Counter()
        self._commands = 0
        self.entry(Change.INSERT, HOT, "hot")

    def entry(self, change: Change, key: int, state: str = "") -> None:
        testnet.write(self.switch, [testnet.hot_entry(change, key, state, SLOT, LANE[key])])

    def push(self, worker: int, deltas: dict[int, int]) -> None:
        """Send an RPC to the switch, the PS if need be, and back."""
        self._turns[worker] += 1
        lanes = {LANE[key]: (key, delta) for key, delta in deltas.items()}
        rpc = frames.request(
            Op.PUSH, job=OFFLOADED, worker=worker, epoch=EPOCH, ps=0, seq=self._turns[worker] << WINDOW_BITS,
            lanes=lanes,
        )  # fmt: skip
        frame = frames.frame(rpc, src=testnet.WORKER[worker], dst=testnet.SERVICE)
        [(port, out)] = self.switch.process(worker, frame, 0, 0)
        if port == testnet.SERVER_PORT:
            answered = self.ps.handle(out[42:], 0, 0, "worker")
            assert answered is not None
            back = frames.frame(answered[1], src=testnet.SERVER, dst=testnet.SERVICE)
            [(port, out)] = self.switch.process(testnet.SERVER_PORT, back, 0, 0)
        assert port == worker and Parsed(out).rpc.refused == 0

    def move(self, at_switch: bool) -> None:
        """Move `MOVING` to the switch or back, as the controller does (docs/design.md)."""
        self.entry(
            *((Change.INSERT, MOVING, "reserved") if at_switch else (Change.MODIFY, MOVING, "draining"))
        )
        self._command(Command.SEED if at_switch else Command.COLLECT)
        self.entry(*((Change.MODIFY, MOVING, "hot") if at_switch else (Change.DELETE, MOVING)))

    def _command(self, command: Command) -> None:
        self._commands += 1
        keys = np.array([MOVING], np.uint64)
        request = control.build(Control(command, OFFLOADED, 0, 1, self._commands, keys))
        assert self.ps.handle(request, 0, 0, "controller") is None
        while sent := list(map(bytes, self.ps.transmit())):
            for datagram in sent:
                self.ps.receive_own(self._register_rpc(datagram), 0)
        [(answer, _)] = self.ps.control_answers()
        assert control.parse(answer).status is Status.OK

    def _register_rpc(self, datagram: bytes) -> bytes:
        frame = frames.frame(datagram, src=testnet.SERVER_RPC, dst=testnet.SERVICE)
        [(port, answer)] = self.switch.process(testnet.SERVER_PORT, frame, 0, 0)
        assert port == testnet.SERVER_PORT
        return answer[42:]

    def sums(self) -> dict[int, int]:
        held = self.ps.stores[OFFLOADED].held()
        here = {key: int(held.values[key]) for key in LANE}
        return {
            key: (here[key] + testnet.held(self.switch, lane, SLOT)) % MODULUS for key, lane in LANE.items()
        }

    def overflows(self) -> tuple[int, int]:
        """Return the overflows counted by the switch and by the PS."""
        at_switch = sum(testnet.lane_stats(self.switch, lane)[2] for lane in LANE.values())
        return at_switch, int(self.ps.server.counters[OFFLOADED].overflows)


def signed(residue: int) -> int:
    return residue - MODULUS if residue >= SMALLEST else residue


class Model:
    """The same sums in Python's integers."""

    def __init__(self) -> None:
        self.sums = dict.fromkeys(LANE, 0)
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
            rig.move(model.move())
        else:
            rig.push(*happening)
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
def test_overflows_by_hand(deltas: list[int], overflows: int) -> None:
    """Two workers push in turn to a key in the switch and one at the PS."""
    rig = Rig()
    for n, delta in enumerate(deltas):
        rig.push(1 + n % 2, {HOT: delta, COLD: delta})
    assert rig.overflows() == (overflows, overflows)
    assert rig.sums() == {HOT: sum(deltas) % MODULUS, COLD: sum(deltas) % MODULUS, MOVING: 0}


def test_the_smallest_value_comes_home_whole() -> None:
    rig = Rig()
    rig.push(1, {MOVING: SMALLEST})
    rig.move(at_switch=True)
    assert (rig.sums()[MOVING], rig.overflows()) == (SMALLEST, (0, 0))
    rig.move(at_switch=False)
    assert (rig.sums()[MOVING], rig.overflows()) == (SMALLEST, (1, 0))
