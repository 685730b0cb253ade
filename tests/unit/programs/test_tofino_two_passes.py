"""The twin with two passes: an RPC is answered as by `hotset`, and each half of it is added exactly once.

What it recirculates leaves by a port, so a test decides what comes in between, or loses it.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from controller.tables import CPU_PORT
from foundation.protocol.frames import packet_out_header
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import LANES, WINDOW_BITS, Op
from softswitch.compiled import CompiledPipeline
from softswitch.ir import Program
from softswitch.jit import MachineCode
from softswitch.load import load_program
from softswitch.pipeline import ActionCall, Change, EntryWrite, Output
from switch_harness.effort import seeds
from tests.harness import frames, testnet
from tests.harness.twins import TWIN_INGRESS, for_twin
from tests.harness.vectors import KEYS, SLOTS, STATES, Source, hot_set

TWO_PASSES = Path(__file__).parents[2] / "programs" / "compiled" / "tofino_two_passes.json"
PASS_LANES = 16
RECIRCULATION_PORT = 68
Code = tuple[Program, MachineCode]
Rpc = tuple[int, int, int]
"""Job, caller, and sequence number."""


@pytest.fixture(scope="module")
def codes() -> list[Code]:
    programs = [testnet.program(), load_program(TWO_PASSES.read_bytes())]
    return [(program, MachineCode(program)) for program in programs]


class TwoPasses:
    """The twin; a lane of `hotset` is a lane of one of its passes, with slots of its own."""

    def __init__(self, code: Code) -> None:
        self.pipeline = CompiledPipeline(*code)

    def write(self, entries: list[EntryWrite]) -> list[type[object]]:
        return [type(each) for each in self.pipeline.write_entries([*map(_in_pass, entries)])]

    def process(self, port: int, frame: bytes, now: int) -> list[Output]:
        """Pass a frame as often as it needs, with nothing in between."""
        outputs = self.pipeline.process(port, frame, now, now)
        while outputs and outputs[0].port == RECIRCULATION_PORT:
            outputs = self.pipeline.process(*outputs[0], now, now)
        return outputs

    def held(self, lane: int) -> list[int]:
        first = SLOTS * (lane // PASS_LANES)
        name = f"{TWIN_INGRESS}aggregate_{lane % PASS_LANES:02d}.values"
        return [cell >> 32 for cell in self.pipeline.read_register(name, first, first + SLOTS)]

    def events(self, lane: int) -> tuple[int, ...]:
        name = f"{TWIN_INGRESS}aggregate_{lane:02d}.lane_stats"
        return tuple(cell.packets for cell in self.pipeline.read_counter(name, 0, 2))


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
    return hotset.read_register(f"{testnet.INGRESS}aggregate_{lane:02d}.values", 0, SLOTS)


class HonestSource(Source):
    """Callers send the same bytes again; a frame that a cable has changed or cut does not come."""

    def __init__(self, random: Random, oracle: CompiledPipeline) -> None:
        super().__init__(random, oracle)
        self._sent: dict[Rpc, tuple[int, bytes]] = {}

    def request(self) -> tuple[int, bytes]:
        port, frame = super().request()
        rpc = frames.Parsed(frame).rpc
        if rpc.epoch != testnet.EPOCH or rpc.ps:
            return port, frame
        return self._sent.setdefault((rpc.job, rpc.worker, rpc.seq), (port, frame))

    def broken(self, frame: bytes) -> bytes:
        return frame


@pytest.mark.parametrize("seed", seeds(6))
def test_an_rpc_is_answered_as_by_hotset(seed: int, codes: list[Code]) -> None:
    random = Random(seed)
    hotset, twin = CompiledPipeline(*codes[0]), TwoPasses(codes[1])
    entries = testnet.network() + hot_set(random)
    assert [type(each) for each in hotset.write_entries(entries)] == twin.write(entries)
    source, answered = HonestSource(random, hotset), 0
    for now in range(1000):
        port, frame = source.draw()
        answers = hotset.process(port, frame, now, now)
        assert twin.process(port, frame, now) == answers, frame.hex()
        answered += len(answers)
        if random.random() < 0.2:
            key, state = random.randrange(KEYS), random.choice(STATES)
            change, slot = random.choice(list(Change)), random.randrange(SLOTS)
            entry = testnet.hot_entry(change, key, state, slot, lane_of(key))
            assert [type(each) for each in hotset.write_entries([entry])] == twin.write([entry])
    assert answered > 400
    for lane in range(LANES):
        assert twin.held(lane) == held_by_hotset(hotset, lane)
    for lane in range(PASS_LANES):
        pair = [testnet.lane_stats(hotset, each)[:2] for each in (lane, lane + PASS_LANES)]
        assert twin.events(lane) == tuple(map(sum, zip(*pair, strict=True)))
    packets = [
        [cell.packets for cell in pipeline.read_counter(f"{ingress}readdress.rpcs", 0, 3)]
        for pipeline, ingress in ((hotset, testnet.INGRESS), (twin.pipeline, TWIN_INGRESS))
    ]
    assert packets[0] == packets[1]


class Callers:
    """Callers as agents are: a slot's next RPC follows the answer to its last one."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.frames: dict[tuple[int, int], bytes] = {}
        """The RPC in flight of each caller and slot."""
        self.pushed: dict[Rpc, dict[int, tuple[int, int]]] = {}
        """Lane -> (key, value)."""
        self._turns: dict[tuple[int, int], int] = {}
        for caller in testnet.CALLERS:
            for slot in range(3):
                self.begin(caller, slot)

    def begin(self, caller: int, slot: int) -> None:
        r, at = self._random, (caller, slot)
        self._turns[at] = self._turns.get(at, 0) + 1
        op = r.choice([Op.PULL, Op.PUSH, Op.PUSH, Op.PUSH, Op.EMPTY])
        keys = {lane_of(key): key for key in r.sample(range(KEYS), r.choice([1, 4, 20, 100, 300]))}
        last = r.choice([PASS_LANES, LANES])
        lanes = {lane: (key, r.getrandbits(32)) for lane, key in keys.items() if lane < last} or {0: (KEYS, 1)}
        seq = self._turns[at] << WINDOW_BITS | slot
        rpc = frames.request(
            op, job=testnet.OFFLOADED, worker=caller, epoch=testnet.EPOCH, ps=0, seq=seq,
            lanes={} if op is Op.EMPTY else lanes,
        )  # fmt: skip
        if op is Op.PUSH:
            self.pushed[testnet.OFFLOADED, caller, seq] = lanes
        self.frames[at] = frames.frame(rpc, src=testnet.CALLERS[caller][0], dst=testnet.SERVICE)

    def transmission(self, at: tuple[int, int]) -> tuple[int, bytes]:
        port = testnet.CALLERS[at[0]][1]
        return port, (packet_out_header(None) if port == CPU_PORT else b"") + self.frames[at]


def key_slots() -> dict[int, int]:
    """Return a slot of its own for each key that can be hot."""
    of_lane: dict[int, int] = {}
    slots = {}
    for key in range(KEYS):
        slots[key] = of_lane[lane_of(key)] = of_lane.get(lane_of(key), -1) + 1
    return {key: slot for key, slot in slots.items() if slot < SLOTS}


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("seed", seeds(16))
def test_each_half_counts_once_whatever_comes_in_between(
    seed: int, changes: bool, codes: list[Code]
) -> None:
    random = Random(seed)
    hotset, twin, callers = CompiledPipeline(*codes[0]), TwoPasses(codes[1]), Callers(random)
    slots = key_slots()
    hot = [
        testnet.hot_entry(Change.INSERT, key, random.choice(STATES), slot, lane_of(key))
        for key, slot in slots.items()
        if random.random() < 0.7
    ]
    entries = testnet.network() + hot
    testnet.write(hotset, entries)
    twin.write(entries)
    between: list[bytes] = []  # passes
    served: dict[Rpc, int] = {}
    first_answers: dict[Rpc, list[Output]] = {}
    done, lost, now, late = 0, 0, 0, 0

    def take(outputs: list[Output]) -> None:
        nonlocal done, late
        for port, frame in outputs:
            if port == RECIRCULATION_PORT:
                between.append(frame)
                continue
            rpc = frames.Parsed(frame[2:] if port == CPU_PORT else frame).rpc
            name = (rpc.job, rpc.worker, rpc.seq)
            if rpc.op == Op.PUSH:
                assert served.setdefault(name, rpc.served) == rpc.served
            at = (rpc.worker, rpc.seq & (1 << WINDOW_BITS) - 1)
            if name in first_answers:
                late += 1
                continue
            first_answers[name] = [Output(port, frame)]
            expected = hotset.process(*callers.transmission(at), now, now)
            if not changes and rpc.op != Op.PULL:
                assert expected == first_answers[name]
            done += 1
            callers.begin(*at)

    while done < 400 or between:
        now += 1
        kind = random.random()
        if between and (done >= 400 or kind < 0.4):
            frame = between.pop(random.randrange(len(between)))
            if random.random() < 0.1:
                lost += 1
            else:
                take(twin.pipeline.process(RECIRCULATION_PORT, frame, now, now))
        elif done < 400:
            at = random.choice(list(callers.frames))
            take(twin.pipeline.process(*callers.transmission(at), now, now))
        if changes and kind > 0.9:
            entry = random.choice(hot)
            assert isinstance(entry.action, ActionCall)
            action = entry.action.name.rsplit(".", 1)[0] + "." + random.choice(STATES)
            entry = entry._replace(change=Change.MODIFY, action=entry.action._replace(name=action))
            twin.write([entry])
    assert lost > 5 and late > 5

    expected_values = [[0] * SLOTS for _ in range(LANES)]
    unknown = {key for name, lanes in callers.pushed.items() if name not in served for key, _ in lanes.values()}
    for name, bitmap in served.items():
        for lane, (key, value) in callers.pushed[name].items():
            if bitmap >> lane & 1:
                at_slot = expected_values[lane]
                at_slot[slots[key]] = (at_slot[slots[key]] + value) % 2**32
    for lane in range(LANES):
        held, by_hotset = twin.held(lane), held_by_hotset(hotset, lane)
        sure = [slot for key, slot in slots.items() if lane_of(key) == lane and key not in unknown]
        assert [held[slot] for slot in sure] == [expected_values[lane][slot] for slot in sure]
        if not changes:
            assert [held[slot] for slot in sure] == [by_hotset[slot] for slot in sure]
