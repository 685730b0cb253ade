"""A hostile or mutated frame raises one drop counter by one, and changes nothing else.

The PS trusts the switch for the caller. A turn far ahead is hostile at the switch only: of the RPCs that the
switch has answered a PS sees a gap. A hot key is added for any PS in the header: a sum is per key.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.status import drop_reasons
from foundation.errors import MalformedDatagram
from foundation.protocol import control
from foundation.protocol.control import Command, Control
from foundation.protocol.hashing import ps_of
from foundation.protocol.header import (
    CONTROLLER_CALLER,
    HOTLINE_PORT,
    LANES,
    PS_CALLER_BASE,
    RESPONSE,
    VALUES,
    VERSION,
    WINDOW,
    WINDOW_BITS,
    Header,
    Op,
    unpack,
)
from hosts.keys import KeySpace
from hotline_agents.hotset.ps.parameter_server import ParameterServer
from softswitch.compiled import CompiledPipeline
from softswitch.memory.layout import COUNTER_WORDS
from softswitch.memory.rows import Words
from softswitch.memory.words import WORD_BYTES
from softswitch.pipeline import Change
from switch_harness.effort import examples
from tests.harness import frames, testnet
from tests.harness.frames import Parsed
from tests.harness.testnet import KEY_OF, new_switch
from tests.harness.wire import rpc

HELD = [1000 + lane for lane in range(LANES)]
"""Values of the hot keys, one a lane."""
SLOT = 5
MUTATED = 3_000
USED = 8
"""Slots of worker 1 that are in use."""
TURN = 10
"""The last turn of every slot that worker 1 has used."""
U16, U32, U64 = (st.integers(0, 2**bits - 1) for bits in (16, 32, 64))


@pytest.fixture(scope="module")
def switch() -> CompiledPipeline:
    """Return a switch with all of `KEY_OF` hot, and some turns of worker 1 in each job."""
    pipeline = new_switch()
    testnet.write(pipeline, testnet.network())
    for lane, key in enumerate(KEY_OF):
        testnet.write(pipeline, [testnet.hot_entry(Change.INSERT, key, "hot", SLOT, lane)])
        pipeline.cells.write_register(f"{testnet.INGRESS}bank_{lane:02d}.values_a", SLOT, HELD[lane])
    for job in testnet.JOBS:
        for slot in range(USED):
            index = testnet.row_of(job, 1) << WINDOW_BITS | slot
            cell = ((testnet.EPOCH << 32) + TURN) << LANES
            pipeline.cells.write_register(testnet.INGRESS + "exactly_once.cells", index, cell)
    return pipeline


@dataclass(frozen=True)
class Call:
    """A request of worker 1 that is right except for what a test changes."""

    op: Op
    lanes: dict[int, tuple[int, int]]
    slot: int
    job: int = testnet.OFFLOADED
    worker: int = 1
    epoch: int = testnet.EPOCH
    ps: int = 0
    turn: int = TURN + 1
    port: int = 1

    def datagram(self) -> bytes:
        return frames.request(
            self.op, job=self.job, worker=self.worker, epoch=self.epoch, ps=self.ps,
            seq=self.turn << WINDOW_BITS | self.slot, lanes=self.lanes,
        )  # fmt: skip

    def frame(self) -> bytes:
        return frames.frame(self.datagram(), src=testnet.WORKER[1], dst=testnet.SERVICE)


@st.composite
def calls(draw: st.DrawFn) -> Call:
    """Draw any op with hot and cold keys in a slot that is in use."""
    op = draw(st.sampled_from([Op.PULL, Op.PUSH, Op.EMPTY]))
    numbers = draw(
        st.sets(st.integers(0, LANES - 1), min_size=op != Op.EMPTY, max_size=0 if op == Op.EMPTY else LANES)
    )
    lanes = {lane: (draw(st.sampled_from([KEY_OF[lane], 77_777])), draw(U32)) for lane in numbers}
    return Call(op, lanes, draw(st.integers(0, USED - 1)), draw(st.sampled_from(list(testnet.JOBS))))


def others(bits: int, *known: int) -> st.SearchStrategy[int]:
    """Draw a number that is not in `known`."""
    return st.integers(0, 2**bits - 1).filter(lambda number: number not in known)


def check_dropped(switch: CompiledPipeline, port: int, frame: bytes, reason: str) -> None:
    """Check that a frame changes nothing but one drop counter."""
    drops, state = testnet.drops(switch), guarded(switch)
    assert switch.process(port, frame, 0, 0) == []
    counted = testnet.drops(switch)
    assert counted.pop(reason) == drops.pop(reason, 0) + 1
    assert counted == drops and np.array_equal(guarded(switch), state)


def guarded(switch: CompiledPipeline) -> Words:
    """Return all state, tables included, without the drop counters."""
    image = switch.memory_image()
    names = [counter.name for counter in switch.program.counters]
    drops = switch._layout.counters[names.index(testnet.INGRESS + "drops")].first // WORD_BYTES
    image[drops : drops + COUNTER_WORDS * len(drop_reasons())] = 0
    return image


@pytest.mark.parametrize(
    ("field", "wrong", "reason"),
    [
        ("worker", others(16, *testnet.CALLERS), "unknown_worker"),
        ("worker", st.sampled_from([2, PS_CALLER_BASE, CONTROLLER_CALLER]), "wrong_port"),
        ("epoch", others(32, testnet.EPOCH), "unknown_worker"),
        ("job", others(16, *testnet.JOBS), "unknown_server"),
        ("ps", others(16, 0), "unknown_server"),
        ("port", others(9, 1, 255), "wrong_port"),
        ("turn", st.integers(0, TURN - 1), "stale_turn"),
        ("turn", st.integers(TURN + 2, (1 << 32 - WINDOW_BITS) - 1), "ahead_turn"),
    ],
    ids=["worker", "name", "epoch", "job", "ps", "port", "stale", "ahead"],
)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_the_switch_drops_a_wrong_request_and_counts_the_reason(
    switch: CompiledPipeline, field: str, wrong: st.SearchStrategy[int], reason: str, data: st.DataObject
) -> None:
    change: dict[str, Any] = {field: data.draw(wrong)}
    call = replace(data.draw(calls()), **change)
    check_dropped(switch, call.port, call.frame(), reason)


@settings(max_examples=examples(60))
@given(call=calls(), served=U32, refused=U32)
def test_a_request_must_not_mark_lanes(
    switch: CompiledPipeline, call: Call, served: int, refused: int
) -> None:
    """Only the switch marks lanes: a PS would take them for done."""
    datagram = bytearray(call.datagram())
    datagram[28:36] = (served << 32 | refused or 1).to_bytes(8, "big")
    frame = frames.frame(bytes(datagram), src=testnet.WORKER[1], dst=testnet.SERVICE)
    check_dropped(switch, 1, frame, "bad_shape")


@settings(max_examples=examples(60))
@given(call=calls(), port=st.sampled_from([1, 2]), refused=U32)
def test_a_forged_answer_is_dropped(switch: CompiledPipeline, call: Call, port: int, refused: int) -> None:
    flags = RESPONSE | (VALUES if call.op == Op.PULL else 0)
    count = max(call.lanes, default=-1) + 1
    live = sum(1 << lane for lane in call.lanes)
    header = Header(
        op=call.op, flags=flags, job=call.job, worker=2, epoch=testnet.EPOCH, count=count, live=live,
        refused=refused & live,
    )  # fmt: skip
    datagram = frames.datagram(header, None, [9] * count if call.op == Op.PULL else None)
    frame = frames.frame(datagram, src=testnet.SERVER, dst=testnet.WORKER[2])
    check_dropped(switch, port, frame, "wrong_port")


@settings(max_examples=examples(60))
@given(
    command=st.sampled_from(Command), keys=st.lists(U64, max_size=5), port=st.sampled_from([1, 2, 3]), seq=U32
)
def test_a_command_comes_from_the_controller_alone(
    switch: CompiledPipeline, command: Command, keys: list[int], port: int, seq: int
) -> None:
    """Ports let no requests pass, and answers only from the server's port."""
    request = Control(command, testnet.OFFLOADED, 0, testnet.EPOCH, seq, np.array(keys, np.uint64))
    frame = frames.frame(control.build(request), src=testnet.CONTROLLER, dst=testnet.SERVER)
    check_dropped(switch, port, frame, "bad_shape")
    answer = control.build(request.answer(control.Status.OK))
    if port != testnet.SERVER_PORT:
        frame = frames.frame(answer, src=testnet.SERVER, dst=testnet.CONTROLLER)
        check_dropped(switch, port, frame, "wrong_port")


def with_options(frame: bytes, words: int) -> bytes:
    """Return the frame with IPv4 no-operation options."""
    options = b"\x01" * 4 * words
    length = len(frame) - 14 + len(options)
    ipv4 = bytes([0x45 + words]) + frame[15:16] + length.to_bytes(2, "big") + frame[18:24]
    checksum = frames.internet_checksum(ipv4 + bytes(2) + frame[26:34] + options)
    return frame[:14] + ipv4 + checksum.to_bytes(2, "big") + frame[26:34] + options + frame[34:]


@settings(max_examples=examples(60))
@given(call=calls(), words=st.integers(1, 10), tag=st.sampled_from(["8100", "88a8"]))
def test_no_rpc_gets_past_the_parser(switch: CompiledPipeline, call: Call, words: int, tag: str) -> None:
    """Behind IPv4 options or in a VLAN the parser does not look for an RPC."""
    frame = frames.frame(call.datagram(), src=testnet.WORKER[1], dst=testnet.SERVER)
    check_dropped(switch, 1, with_options(frame, words), "bad_shape")
    check_dropped(switch, 1, frame[:12] + bytes.fromhex(tag) + bytes(2) + frame[12:], "bad_shape")


@settings(max_examples=examples(60))
@given(value=U32, lane=st.integers(0, LANES - 1), slot=st.integers(USED, WINDOW - 1))
def test_another_job_cannot_reach_hot_keys(
    switch: CompiledPipeline, value: int, lane: int, slot: int
) -> None:
    used = testnet.cell(switch, testnet.PLAIN, 1, slot)[1]
    call = Call(Op.PUSH, {lane: (KEY_OF[lane], value)}, slot, testnet.PLAIN, turn=used + 1)
    [output] = switch.process(1, call.frame(), 0, 0)
    assert output.port == testnet.SERVER_PORT and Parsed(output.frame).rpc.served == 0
    assert [testnet.held(switch, lane, SLOT) for lane in range(LANES)] == HELD


def is_rpc(frame: bytes) -> bool:
    """Whether the frame is a well-formed RPC in an IPv4/UDP packet."""
    if len(frame) < 42 or frame[12:15] != b"\x08\x00\x45" or frame[23] != 17:
        return False
    total_len, fragment = struct.unpack_from(">H2xH", frame, 16)
    source, destination, udp_length = struct.unpack_from(">HHH", frame, 34)
    if frames.internet_checksum(frame[14:34]) or fragment & 0x3FFF:
        return False
    if HOTLINE_PORT not in (source, destination):
        return False
    if total_len != len(frame) - 14 or udp_length != total_len - 20:
        return False
    try:
        return not unpack(frame[42:]).served
    except MalformedDatagram:
        return False


def mutate(random: Random, frame: bytes) -> bytes:
    """Change some bytes, cut or extend the tail; sometimes repair the IPv4 checksum."""
    data = bytearray(frame)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(12, 98 if random.random() < 0.8 else len(data))
        data[at] = random.choice([0, 1, 0xFF, data[at] ^ 1 << random.randrange(8), random.randrange(256)])
    if random.random() < 0.5:
        data[24:26] = b"\0\0"
        data[24:26] = frames.internet_checksum(bytes(data[14:34])).to_bytes(2, "big")
    if random.random() < 0.4:
        del data[random.randrange(1, len(data)) :]
    elif random.random() < 0.1:
        data += random.randbytes(random.randrange(1, 1500))
    return bytes(data)


def test_mutated_frames_change_only_the_drop_counters(switch: CompiledPipeline) -> None:
    random, sent, before, dropped = Random(8), 0, guarded(switch), Counter(testnet.drops(switch))
    while sent < MUTATED:
        op = random.choice([Op.PULL, Op.PUSH, Op.PUSH, Op.EMPTY])
        count = 0 if op is Op.EMPTY else random.randint(1, LANES)
        call = Call(op, {lane: (KEY_OF[lane], 1) for lane in range(count)}, slot=0)
        frame = mutate(random, call.frame())
        if not is_rpc(frame):
            assert switch.process(1, frame, 0, 0) == [], frame.hex()
            sent += 1
    reasons = Counter(testnet.drops(switch)) - dropped
    assert reasons.total() == MUTATED and len(reasons) >= 5
    assert np.array_equal(guarded(switch), before)


SPACE = KeySpace(256)
MINE = [key for key in range(256) if ps_of(key, 2) == 0]
OF_THE_OTHER_PS = [key for key in range(256) if ps_of(key, 2) == 1]
JOB, EPOCH = 1, 9


class Server:
    """PS 0 of 2; each of its keys holds 7."""

    def __init__(self) -> None:
        self.ps: ParameterServer[str] = ParameterServer(0, 2, SPACE, {JOB: 5}, lambda: 0)
        self.counters = self.ps.server.counters[JOB]
        for turn, at in enumerate(range(0, len(MINE), LANES), TURN - len(MINE) // LANES):
            keys = MINE[at : at + LANES]
            assert self.send(Op.PUSH, keys, [7] * len(keys), seq=turn << WINDOW_BITS)

    def send(self, op: Op, keys: list[int], values: list[int], **fields: int) -> Parsed | None:
        """Send a request; return its answer."""
        datagram = rpc(
            op, keys, values if op == Op.PUSH else None, **{"job": JOB, "worker": 1, "epoch": EPOCH, **fields}
        )
        answered = self.ps.handle(datagram, 0, 0, "worker")
        if answered is None:
            return None
        return Parsed(frames.frame(answered[1], src=testnet.SERVER, dst=testnet.WORKER[1]))

    def state(self) -> object:
        """Return cells, turns, counters of answered RPCs, and datagrams to be sent."""
        state, names = self.ps.server.state, ("rpcs", "applied_lanes", "refused_lanes", "overflows")
        counters = [int(self.counters[name]) for name in names]
        to_be_sent = [*self.ps.transmit(), *self.ps.control_answers()]
        return state.cells.tobytes(), state.callers.turns.tobytes(), counters, to_be_sent

    def dropped(self) -> dict[str, int]:
        return {
            "malformed": self.ps.malformed,
            "misdirected": self.ps.server.misdirected,
            "stale": int(self.counters.stale),
        }


@pytest.fixture(scope="module")
def server() -> Server:
    return Server()


@st.composite
def requests(draw: st.DrawFn) -> tuple[Op, list[int], list[int]]:
    op = draw(st.sampled_from([Op.PULL, Op.PUSH, Op.EMPTY]))
    if op == Op.EMPTY:
        return op, [], []
    keys = draw(st.lists(st.sampled_from(range(256)), min_size=1, max_size=LANES))
    return op, keys, [draw(U32) for _ in keys]


@pytest.mark.parametrize(
    ("field", "wrong", "reason"),
    [
        ("job", others(16, JOB), "misdirected"),
        ("ps", others(16, 0), "misdirected"),
        ("seq", st.integers(0, TURN - 1).map(lambda turn: turn << WINDOW_BITS), "stale"),
        ("version", others(8, VERSION), "malformed"),
        ("dim", others(8, 1, 4, 8, 16, 32, 64, 128), "malformed"),
        ("refused", st.integers(1, 2**32 - 1), "malformed"),
        ("count", st.integers(LANES + 1, 255), "malformed"),
    ],
)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_a_server_drops_requests_for_other_jobs_and_servers_and_stale_requests(
    server: Server, field: str, wrong: st.SearchStrategy[int], reason: str, data: st.DataObject
) -> None:
    op, keys, values = data.draw(requests())
    dropped, state = server.dropped(), server.state()
    fields = {"seq": TURN + 1 << WINDOW_BITS, field: data.draw(wrong)}
    assert server.send(op, keys, values, **fields) is None
    counted = server.dropped()
    assert counted.pop(reason) == dropped.pop(reason) + 1
    assert counted == dropped and server.state() == state


@settings(max_examples=examples(60))
@given(
    keys=st.lists(st.sampled_from(OF_THE_OTHER_PS) | st.integers(256, 2**64 - 2), min_size=1, max_size=LANES),
    values=st.lists(U32, min_size=LANES, max_size=LANES),
    op=st.sampled_from([Op.PULL, Op.PUSH]),
)
def test_keys_of_another_ps_are_refused(server: Server, keys: list[int], values: list[int], op: Op) -> None:
    """A pull returns zeros for them."""
    before, refused = server.ps.server.state.cells.tobytes(), int(server.counters.refused_lanes)
    seq = int(server.ps.server.state.callers.turns.max()) + 1 << WINDOW_BITS
    answer = server.send(op, keys, values[: len(keys)], seq=seq)
    assert answer is not None and answer.rpc.refused == answer.rpc.live
    assert op == Op.PUSH or answer.values == [0] * len(keys)
    assert server.ps.server.state.cells.tobytes() == before
    assert server.counters.refused_lanes == refused + len(keys) and server.counters.overflows == 0


@settings(max_examples=examples(60))
@given(value=U32, lane=st.integers(0, LANES - 1), ps=st.integers(0, 1))
def test_a_hot_key_is_added_for_any_ps(value: int, lane: int, ps: int, both: CompiledPipeline) -> None:
    held = testnet.held(both, lane, SLOT)
    turn = testnet.cell(both, testnet.OFFLOADED, 1, lane)[1] + 1
    call = Call(Op.PUSH, {lane: (KEY_OF[lane], value)}, lane, ps=ps, turn=turn)
    [output] = both.process(1, call.frame(), 0, 0)
    answer = Parsed(output.frame).rpc
    assert (output.port, answer.flags, answer.served) == (1, RESPONSE, 1 << lane)
    assert testnet.held(both, lane, SLOT) == (held + value) % 2**32
    assert testnet.drops(both) == {}


@pytest.fixture(scope="module")
def both() -> CompiledPipeline:
    """Return the network with a second PS, number 1."""
    pipeline = new_switch()
    server, service = testnet.numbers(testnet.SERVER), testnet.numbers(testnet.SERVICE)
    second = testnet.insert(
        "identify.servers", (testnet.OFFLOADED, 1), "identify.set_server", *server, 4, *service
    )
    hot = [testnet.hot_entry(Change.INSERT, key, "hot", SLOT, lane) for lane, key in enumerate(KEY_OF)]
    testnet.write(pipeline, [*testnet.network(), second, *hot])
    return pipeline
