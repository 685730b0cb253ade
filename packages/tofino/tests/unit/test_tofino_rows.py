"""The twin of the Tofino program for rows of 16 values answers as `hotset` does, and relays other dims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from controller.status import LaneEvent, drop_reasons
from controller.tables import CPU_PORT
from foundation.protocol.header import DIMS, LAYOUT, PS_CALLER_BASE, QUAD, WINDOW_BITS, Header, Op
from packages.tofino.tests.harness.twins import TWIN_INGRESS, TWINS, for_twin, twin_rpcs
from softswitch.compiled import CompiledPipeline
from softswitch.pipeline import Change, EntryWrite, Output
from switch_harness.effort import seeds
from tests.harness import frames, testnet
from tests.harness.vectors import KEYS as N_KEYS
from tests.harness.vectors import SLOTS, STATES, Source, dim_of, lanes_for

DIM = 16
MIXED = (*DIMS, *(DIM for _ in DIMS))
"""All dims; half of the rows have 16 values."""
TWIN = TWINS / "tofino_row.json"
_RPC_AT = 42  # behind Ethernet, IPv4 and UDP
_DIM_AT = _RPC_AT + 15
_WORD = (1 << 32) - 1


class RowPrograms:
    """`hotset` and the twin for rows of 16 values, with the same entries: rows of 16 values in lane 0."""

    def __init__(self) -> None:
        self.hotset = testnet.new_switch()
        self.twin = CompiledPipeline(*testnet.code_of(TWIN))
        self.events: Counter[int] = Counter()
        """Hits and misses of rows of 16 values in `hotset`, whose bank 0 also counts those of other dims."""
        self.write(testnet.network())

    def write(self, entries: list[EntryWrite]) -> None:
        ours = self.hotset.tables.write(entries)
        reference = self.twin.tables.write([for_twin(entry) for entry in entries])
        assert [type(error) for error in reference] == [type(error) for error in ours]

    def exchange(self, port: int, frame: bytes, now: int) -> list[Output]:
        before = self._lane_events()
        answers = self.hotset.process(port, frame, now, now)
        assert self.twin.process(port, frame, now, now) == answers, frame.hex()
        if _dim(port, frame) == DIM:
            for event, (start, end) in enumerate(zip(before, self._lane_events(), strict=True)):
                self.events[event] += end - start
        return answers

    def _lane_events(self) -> tuple[int, ...]:
        return testnet.lane_stats(self.hotset, 0)[: LaneEvent.OVERFLOW]

    def check_state(self) -> None:
        for value in range(DIM):
            name = f"{TWIN_INGRESS}aggregate_{value:02d}.values"
            cells = self.twin.cells.read_register(name, 0, SLOTS)
            if value == 0:
                pushes = {slot: cell & _WORD for slot, cell in enumerate(cells) if cell & _WORD}
                assert pushes == testnet.pushes(self.hotset, 0)
                cells = [cell >> 32 for cell in cells]
            bank = f"{testnet.INGRESS}bank_{value // QUAD:02d}.values_{'abcd'[value % QUAD]}"
            assert cells == self.hotset.cells.read_register(bank, 0, SLOTS)
        stats = self.twin.cells.read_counter(f"{TWIN_INGRESS}aggregate_00.lane_stats", 0, LaneEvent.OVERFLOW)
        assert [cell.packets for cell in stats] == [self.events[each] for each in range(LaneEvent.OVERFLOW)]
        assert twin_rpcs(self.twin) == self.hotset.cells.read_counter("HotlineIngress.readdress.rpcs", 0, 3)
        assert _with_malformed(self.twin_drops()) == _with_malformed(testnet.drops(self.hotset))

    def twin_drops(self) -> dict[str, int]:
        reasons = drop_reasons()
        cells = self.twin.cells.read_counter(f"{TWIN_INGRESS}drops", 0, len(reasons))
        return {reason: cell.packets for reason, cell in zip(reasons, cells, strict=True) if cell.packets}


def _with_malformed(drops: dict[str, int]) -> dict[str, int]:
    """Count malformed frames by one reason: which of three it is depends on what a program parses."""
    malformed = sum(drops.pop(reason, 0) for reason in ("parser_error", "bad_length", "bad_shape"))
    return {**drops, "malformed": malformed}


def _dim(port: int, frame: bytes) -> int:
    frame = frame[2:] if port == CPU_PORT else frame
    return frame[_DIM_AT] if len(frame) > _DIM_AT else 0


def _hides_its_length(port: int, frame: bytes) -> bool:
    """Whether `hotset` drops a frame for a length that a chip cannot know.

    Bytes follow the datagram, or are missing where no parser reads them.
    """
    frame = frame[2:] if port == CPU_PORT else frame
    if frame[12:14] != b"\x08\x00":
        return False
    length = 14 + int.from_bytes(frame[16:18], "big")
    is_parsed = len(frame) > _DIM_AT and frame[_DIM_AT] == DIM and frame[43] != Op.CONTROL
    return len(frame) > length or (len(frame) < length and not is_parsed)


def _differs(hotset: CompiledPipeline, port: int, frame: bytes) -> bool:
    """Whether the twin treats a frame differently by intention.

    It refuses RPCs of privileged callers with rows of another dim, and those with several rows of 16 values.
    It relays a push of another dim whose sequence number a row of 16 values has had, which no agent sends.
    """
    frame = frame[2:] if port == CPU_PORT else frame
    if len(frame) < _RPC_AT + LAYOUT.size:
        return False
    header = Header._make(LAYOUT.unpack_from(frame, _RPC_AT))
    if header.dim == DIM:
        return header.count > 1
    if header.worker >= PS_CALLER_BASE:
        return header.count > 0
    if header.worker not in testnet.CALLERS or header.job not in testnet.JOBS:
        return False
    slot = header.seq & (1 << WINDOW_BITS) - 1
    _, turn, served = testnet.cell(hotset, header.job, header.worker, slot)
    return header.op == Op.PUSH and served != 0 and turn == header.seq >> WINDOW_BITS


def _entry(random: Random, change: Change, key: int) -> EntryWrite:
    return testnet.hot_entry(change, key, random.choice(STATES), random.randrange(SLOTS), lane=0, dim=DIM)


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("dims", [(DIM,), MIXED], ids=["one dim", "all dims"])
def test_the_twin_answers_as_hotset_does(dims: Sequence[int], seed: int) -> None:
    """A row of 16 values has an RPC of its own; RPCs of other dims have as many rows as fit."""
    random, both = Random(seed), RowPrograms()
    rows = [key for key in range(N_KEYS) if dim_of(key, dims) == DIM]
    both.write([_entry(random, Change.INSERT, key) for key in rows])
    source, answered = Source(random, both.hotset, dims=dims, single_row_dims=(DIM,)), 0
    for now in range(1000):
        port, frame = source.draw()
        if not _hides_its_length(port, frame) and not _differs(both.hotset, port, frame):
            answered += len(both.exchange(port, frame, now))
        if random.random() < 0.2:
            both.write([_entry(random, random.choice(list(Change)), random.choice(rows))])
    assert answered > 400
    assert both.events[LaneEvent.HIT] > 10
    both.check_state()


def _fresh(
    op: Op, lanes: dict[int, tuple[int, int]], turn: int, caller: int = 1, dim: int = DIM
) -> tuple[int, bytes]:
    port, frame = testnet.request(op, lanes, turn << WINDOW_BITS, caller, dim=dim)
    return port, testnet.into(port, frame)


def _rows(count: int) -> dict[int, tuple[int, int]]:
    return {lane: (lane, 100 * lane) for lane in range(count)}


@pytest.mark.parametrize("op", [Op.PULL, Op.PUSH])
def test_rows_of_16_in_one_rpc_are_refused(op: Op) -> None:
    """An RPC has one row; more are dropped, as `hotset` drops RPCs with more lanes than it has."""
    both = RowPrograms()
    both.write([_entry(Random(1), Change.INSERT, key) for key in range(8)])
    for count in range(2, lanes_for(DIM) + 1):
        assert both.twin.process(*_fresh(op, _rows(count), 1), 0, 0) == []
        assert both.twin_drops() == {"bad_shape": count - 1}


@pytest.mark.parametrize("op", [Op.PULL, Op.PUSH])
@pytest.mark.parametrize("dim", [dim for dim in DIMS if dim != DIM])
def test_rpcs_of_other_dims_are_relayed_unserved(op: Op, dim: int) -> None:
    """All numbers of rows are relayed, even if their key has an entry; privileged callers are refused."""
    both = RowPrograms()
    both.write(
        [
            testnet.hot_entry(Change.INSERT, key, "hot", key, 0, dim=each)
            for key in (0, 1)
            for each in (DIM, dim)
        ]
    )
    for turn in range(1, lanes_for(dim) + 1):
        port, frame = _fresh(op, _rows(turn), turn, dim=dim)
        [relayed] = both.twin.process(port, frame, 0, 0)
        assert relayed.port == testnet.SERVER_PORT
        assert frames.Parsed(relayed.frame).rpc.served == 0
        assert relayed.frame[_RPC_AT + LAYOUT.size :] == frame[_RPC_AT + LAYOUT.size :]
    assert both.twin_drops() == {}
    assert both.twin.process(*_fresh(op, _rows(1), 1, PS_CALLER_BASE, dim), 0, 0) == []
    assert both.twin_drops() == {"bad_shape": 1}
