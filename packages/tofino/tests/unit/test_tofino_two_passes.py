"""The twin with two passes: an RPC is answered as by `hotset`, and each half of it is added exactly once.

What it recirculates leaves by a port, so a test decides what comes in between, or loses it.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random
from typing import NamedTuple

import pytest

from controller.tables import CPU_PORT
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import LANES, SLOT_MASK, WINDOW_BITS, Header, Op
from packages.tofino.tests.harness.twins import TWIN_INGRESS, TWINS, for_twin, twin_rpcs
from softswitch.compiled import CompiledPipeline
from softswitch.pipeline import ActionCall, Change, EntryWrite, Output
from switch_harness.effort import seeds
from tests.harness import frames, testnet
from tests.harness.vectors import KEYS, SLOTS, STATES, Source, hot_set

TWO_PASSES = TWINS / "tofino_two_passes.json"
PASS_LANES = 16
RECIRCULATION_PORT = 68


class Rpc(NamedTuple):
    caller: int
    seq: int

    @property
    def slot(self) -> int:
        return self.seq & SLOT_MASK


class TwoPasses:
    """The twin; a lane of `hotset` is a lane of one of its passes, with slots of its own."""

    def __init__(self) -> None:
        self.pipeline = CompiledPipeline(*testnet.code_of(TWO_PASSES))

    def write(self, entries: list[EntryWrite]) -> list[type[object]]:
        return [type(each) for each in self.pipeline.tables.write([*map(_in_pass, entries)])]

    def process(self, port: int, frame: bytes, now: int) -> list[Output]:
        """Pass a frame as often as it needs, with nothing in between."""
        outputs = self.pipeline.process(port, frame, now, now)
        while outputs and outputs[0].port == RECIRCULATION_PORT:
            outputs = self.pipeline.process(*outputs[0], now, now)
        return outputs

    def held(self, lane: int) -> list[int]:
        first = SLOTS * (lane // PASS_LANES)
        name = f"{TWIN_INGRESS}aggregate_{lane % PASS_LANES:02d}.values"
        return [cell >> 32 for cell in self.pipeline.cells.read_register(name, first, first + SLOTS)]

    def events(self, lane: int) -> tuple[int, ...]:
        name = f"{TWIN_INGRESS}aggregate_{lane:02d}.lane_stats"
        return tuple(cell.packets for cell in self.pipeline.cells.read_counter(name, 0, 2))


def _in_pass(entry: EntryWrite) -> EntryWrite:
    twin = for_twin(entry)
    if "lookup_" not in entry.table:
        return twin
    lane = int(entry.table.split("lookup_")[1][:2])
    own, shared = f"lookup_{lane:02d}", f"lookup_{lane % PASS_LANES:02d}"
    call = twin.action
    if isinstance(call, ActionCall):
        call = ActionCall(call.name.replace(own, shared), (call.args[0] + SLOTS * (lane // PASS_LANES),))
    key = (*twin.key, lane // PASS_LANES)
    return twin._replace(table=twin.table.replace(own, shared), key=key, action=call)


def held_by_hotset(hotset: CompiledPipeline, lane: int) -> list[int]:
    return hotset.cells.read_register(f"{testnet.INGRESS}aggregate_{lane:02d}.values", 0, SLOTS)


class HonestSource(Source):
    """Callers send the same bytes again; a frame that a cable has changed or cut does not come."""

    def __init__(self, random: Random, oracle: CompiledPipeline) -> None:
        super().__init__(random, oracle)
        self._sent: dict[tuple[int, int, int], tuple[int, bytes]] = {}

    def request(self) -> tuple[int, bytes]:
        port, frame = super().request()
        rpc = frames.Parsed(frame).rpc
        if rpc.epoch != testnet.EPOCH or rpc.ps:
            return port, frame
        return self._sent.setdefault((rpc.job, rpc.worker, rpc.seq), (port, frame))

    def broken(self, frame: bytes) -> bytes:
        return frame


@pytest.mark.parametrize("seed", seeds(6))
def test_an_rpc_is_answered_as_by_hotset(seed: int) -> None:
    random = Random(seed)
    hotset, twin = testnet.new_switch(), TwoPasses()
    entries = testnet.network() + hot_set(random)
    assert [type(each) for each in hotset.tables.write(entries)] == twin.write(entries)
    source, answered = HonestSource(random, hotset), 0
    for now in range(1000):
        port, frame = source.draw()
        answers = hotset.process(port, frame, now, now)
        assert twin.process(port, frame, now) == answers, frame.hex()
        answered += len(answers)
        if random.random() < 0.2:
            entry = source.move()
            assert [type(each) for each in hotset.tables.write([entry])] == twin.write([entry])
    assert answered > 400
    for lane in range(LANES):
        assert twin.held(lane) == held_by_hotset(hotset, lane)
    for lane in range(PASS_LANES):
        pair = [testnet.lane_stats(hotset, each)[:2] for each in (lane, lane + PASS_LANES)]
        assert twin.events(lane) == tuple(map(sum, zip(*pair, strict=True)))
    rpcs = hotset.cells.read_counter(f"{testnet.INGRESS}readdress.rpcs", 0, 3)
    assert [count.packets for count in twin_rpcs(twin.pipeline)] == [count.packets for count in rpcs]


def slots_of_keys() -> dict[int, int]:
    """Return a slot of its own for each key that can be hot."""
    slots: dict[int, int] = {}
    used = Counter[int]()
    for key in range(KEYS):
        slots[key] = used[lane_of(key)]
        used[lane_of(key)] += 1
    return {key: slot for key, slot in slots.items() if slot < SLOTS}


class Interleaving:
    """Callers as agents are, whose passes, repetitions and losses a switch sees in any order."""

    def __init__(self, random: Random, hotset: CompiledPipeline, twin: TwoPasses) -> None:
        self.random, self.hotset, self.twin = random, hotset, twin
        self.in_flight: dict[tuple[int, int], tuple[int, bytes]] = {}
        """By caller and slot: port and frame."""
        self.pushed: dict[Rpc, dict[int, tuple[int, int]]] = {}
        """Lane -> (key, value)."""
        self.served: dict[Rpc, int] = {}
        """Bitmap in the first answer, or in what goes on to the server."""
        self.between: list[bytes] = []
        self.lost = self.repeated = self.now = 0
        self._turns = Counter[tuple[int, int]]()

    def begin(self, caller: int, slot: int) -> None:
        r, at = self.random, (caller, slot)
        self._turns[at] += 1
        op = r.choice([Op.PULL, Op.PUSH, Op.PUSH, Op.PUSH, Op.EMPTY])
        last = r.choice([PASS_LANES, LANES])
        keys = {lane_of(key): key for key in r.sample(range(KEYS), r.choice([1, 4, 20, 100, 300]))}
        lanes = {lane: (key, r.getrandbits(32)) for lane, key in keys.items() if lane < last}
        rpc = Rpc(caller, self._turns[at] << WINDOW_BITS | slot)
        sent = {} if op is Op.EMPTY else lanes or {0: (KEYS, 1)}
        port, frame = testnet.request(op, sent, rpc.seq, caller)
        if op is Op.PUSH:
            self.pushed[rpc] = lanes
        self.in_flight[at] = port, testnet.into(port, frame)

    def send(self) -> None:
        port, frame = self.in_flight[self.random.choice(list(self.in_flight))]
        self._take(self.twin.pipeline.process(port, frame, self.now, self.now))

    def pass_again(self) -> None:
        frame = self.between.pop(self.random.randrange(len(self.between)))
        if self.random.random() < 0.1:
            self.lost += 1
        else:
            self._take(self.twin.pipeline.process(RECIRCULATION_PORT, frame, self.now, self.now))

    def _take(self, outputs: list[Output]) -> None:
        self.now += 1
        for output in outputs:
            if output.port == RECIRCULATION_PORT:
                self.between.append(output.frame)
            else:
                self._take_answer(output)

    def _take_answer(self, output: Output) -> None:
        header = frames.Parsed(output.frame[2:] if output.port == CPU_PORT else output.frame).rpc
        rpc = Rpc(header.worker, header.seq)
        is_first = rpc not in self.served
        if header.op == Op.PUSH or is_first:
            assert self.served.setdefault(rpc, header.served) == header.served
        if is_first:
            sent = self.in_flight.pop((rpc.caller, rpc.slot))
            expected = self.hotset.process(*sent, self.now, self.now)
            self.check(header, output, expected)
        else:
            self.repeated += 1

    def check(self, header: Header, output: Output, expected: list[Output]) -> None:
        """Compare the first answer with that of `hotset`, whose values are older or newer."""
        if header.op != Op.PULL:
            assert expected == [output]

    def added(self) -> list[list[int]]:
        """Return what each lane and slot must hold."""
        slots, held = slots_of_keys(), [[0] * SLOTS for _ in range(LANES)]
        for rpc, lanes in self.pushed.items():
            for lane, (key, value) in lanes.items():
                if self.served[rpc] >> lane & 1:
                    held[lane][slots[key]] = (held[lane][slots[key]] + value) % 2**32
        return held


class ChangingHotSet(Interleaving):
    """Entries change between any two passes, of which `hotset` knows nothing."""

    def __init__(self, random: Random, hotset: CompiledPipeline, twin: TwoPasses) -> None:
        super().__init__(random, hotset, twin)
        self._hot = list(slots_of_keys().items())

    def _take(self, outputs: list[Output]) -> None:
        if self.random.random() < 0.2:
            key, slot = self.random.choice(self._hot)
            state = self.random.choice(STATES)
            self.twin.write([testnet.hot_entry(Change.MODIFY, key, state, slot, lane_of(key))])
        super()._take(outputs)

    def check(self, header: Header, output: Output, expected: list[Output]) -> None:
        pass


@pytest.mark.parametrize("kind", [Interleaving, ChangingHotSet])
@pytest.mark.parametrize("seed", seeds(16))
def test_each_half_counts_once_whatever_comes_in_between(seed: int, kind: type[Interleaving]) -> None:
    random = Random(seed)
    hotset, twin = testnet.new_switch(), TwoPasses()
    entries = testnet.network() + [
        testnet.hot_entry(Change.INSERT, key, random.choice(STATES), slot, lane_of(key))
        for key, slot in slots_of_keys().items()
    ]
    testnet.write(hotset, entries)
    twin.write(entries)
    rpcs = kind(random, hotset, twin)
    while rpcs.in_flight or rpcs.between or len(rpcs.served) < 400:
        for caller, slot in product(testnet.CALLERS, range(3)):
            if (caller, slot) not in rpcs.in_flight and len(rpcs.served) < 400:
                rpcs.begin(caller, slot)
        if rpcs.between and (not rpcs.in_flight or random.random() < 0.4):
            rpcs.pass_again()
        else:
            rpcs.send()
    assert rpcs.lost > 5 and rpcs.repeated > 5
    held = [twin.held(lane) for lane in range(LANES)]
    assert held == rpcs.added() and any(map(any, held))
    if kind is Interleaving:
        assert held == [held_by_hotset(hotset, lane) for lane in range(LANES)]
