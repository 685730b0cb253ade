"""Hostile frames: the right counter, and only that, rises by one; nothing leaves, and nothing else changes.

What the switch guards: a caller is known by job, id and epoch and sits on its own port; job, PS and turn are
ones that there are; only a request that is whole is aggregated. The PS trusts the switch for who calls, and
guards its own: its jobs, its number, its turns and its share of the keys. A far-ahead turn is hostile at the
switch only: of what the switch has answered the PS sees nothing but a gap.

A key of another PS than the header's is no way in. The PS refuses the lane, as it has no place for the key.
Where the key is hot the switch adds the lane whatever the header's PS, as an entry is found by job and key:
that is no harm, since the sum is the key's own, and the worker might have pushed it by the right name.

Single frames of these kinds are in test_program.py, and mutated ones in test_mutated_frames.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.status import drop_reasons
from foundation.protocol import control
from foundation.protocol.control import Command, Control
from foundation.protocol.hashing import lane_of, ps_of
from foundation.protocol.header import (
    CONTROLLER_CALLER,
    LANES,
    PS_CALLER_BASE,
    RESPONSE,
    VALUES,
    VERSION,
    WINDOW,
    WINDOW_BITS,
    Header,
    Op,
)
from hosts.hotset.ps.core import ParameterServer
from hosts.keys import KeySpace
from softswitch.compiled import CompiledPipeline
from softswitch.jit import MachineCode
from softswitch.memory.layout import COUNTER_WORDS
from softswitch.memory.words import WORD_BYTES
from softswitch.pipeline import Change
from switch_harness.effort import examples
from tests.harness import frames, testnet
from tests.harness.frames import Parsed
from tests.harness.wire import rpc

PROGRAM = testnet.program()
KEY_OF = [next(key for key in range(10_000) if lane_of(key) == lane) for lane in range(LANES)]
HELD = [1000 + lane for lane in range(LANES)]
"""Values of the hot keys, one a lane."""
SLOT = 5
TURN = 10
"""The last turn of every slot that worker 1 has used."""
USED = 8
U16, U32, U64 = (st.integers(0, 2**bits - 1) for bits in (16, 32, 64))


@pytest.fixture(scope="module")
def switch() -> CompiledPipeline:
    """Return a switch with all of `KEY_OF` hot, and some turns of worker 1 in each job."""
    pipeline = CompiledPipeline(PROGRAM, MachineCode(PROGRAM))
    testnet.write(pipeline, testnet.network())
    for lane, key in enumerate(KEY_OF):
        testnet.write(pipeline, [testnet.hot_entry(Change.INSERT, key, "hot", SLOT, lane)])
        pipeline.write_register(f"{testnet.INGRESS}aggregate_{lane:02d}.values", SLOT, HELD[lane])
    for job in testnet.JOBS:
        for slot in range(USED):
            index = testnet.row_of(job, 1) << WINDOW_BITS | slot
            cell = ((testnet.EPOCH << 32) + TURN) << LANES
            pipeline.write_register(testnet.INGRESS + "exactly_once.cells", index, cell)
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


@st.composite
def unknown_worker(draw: st.DrawFn) -> Call:
    return replace(draw(calls()), worker=draw(others(16, *testnet.CALLERS)))


@st.composite
def another_epoch(draw: st.DrawFn) -> Call:
    return replace(draw(calls()), epoch=draw(others(32, testnet.EPOCH)))


@st.composite
def another_job(draw: st.DrawFn) -> Call:
    return replace(draw(calls()), job=draw(others(16, *testnet.JOBS)))


@st.composite
def unknown_server(draw: st.DrawFn) -> Call:
    return replace(draw(calls()), ps=draw(others(16, 0)))


@st.composite
def another_port(draw: st.DrawFn) -> Call:
    return replace(draw(calls()), port=draw(others(9, 1, 255)))


@st.composite
def in_anothers_name(draw: st.DrawFn) -> Call:
    return replace(draw(calls()), worker=draw(st.sampled_from([2, PS_CALLER_BASE, CONTROLLER_CALLER])))


@st.composite
def stale_turn(draw: st.DrawFn) -> Call:
    return replace(draw(calls()), turn=draw(st.integers(0, TURN - 1)))


@st.composite
def far_ahead(draw: st.DrawFn) -> Call:
    return replace(draw(calls()), turn=draw(st.integers(TURN + 2, (1 << 32 - WINDOW_BITS) - 1)))


Hostile = Callable[[], st.SearchStrategy[Call]]


def check_dropped(switch: CompiledPipeline, port: int, frame: bytes, reason: str) -> None:
    """Check that a frame changes nothing but one drop counter."""
    drops, state = testnet.drops(switch), guarded(switch)
    assert switch.process(port, frame, 0, 0) == []
    counted = testnet.drops(switch)
    assert counted.pop(reason) == drops.pop(reason, 0) + 1
    assert counted == drops and guarded(switch) == state


def guarded(switch: CompiledPipeline) -> bytes:
    """Return all state, tables included, without the drop counters."""
    image = switch.memory_image()
    names = [counter.name for counter in switch.program.counters]
    drops = switch._layout.counters[names.index(testnet.INGRESS + "drops")].first // WORD_BYTES
    image[drops : drops + COUNTER_WORDS * len(drop_reasons())] = 0
    return image.tobytes()


@pytest.mark.parametrize(
    ("hostile", "reason"),
    [
        (unknown_worker, "unknown_worker"),
        (another_epoch, "unknown_worker"),
        (another_job, "unknown_server"),
        (unknown_server, "unknown_server"),
        (another_port, "wrong_port"),
        (in_anothers_name, "wrong_port"),
        (stale_turn, "stale_turn"),
        (far_ahead, "ahead_turn"),
    ],
)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_the_switch_drops_a_request_by_what_is_wrong_with_it(
    switch: CompiledPipeline, hostile: Hostile, reason: str, data: st.DataObject
) -> None:
    call = data.draw(hostile())
    check_dropped(switch, call.port, call.frame(), reason)


@settings(max_examples=examples(60))
@given(call=calls(), served=U32, refused=U32)
def test_lanes_that_a_caller_says_were_served_are_no_request(
    switch: CompiledPipeline, call: Call, served: int, refused: int
) -> None:
    """Only the switch marks lanes: a PS would take them for done."""
    datagram = bytearray(call.datagram())
    datagram[28:36] = (served << 32 | refused or 1).to_bytes(8, "big")
    frame = frames.frame(bytes(datagram), src=testnet.WORKER[1], dst=testnet.SERVICE)
    check_dropped(switch, 1, frame, "bad_shape")


@settings(max_examples=examples(60))
@given(call=calls(), port=st.sampled_from([1, 2]), refused=U32)
def test_an_answer_that_a_worker_forges_is_dropped(
    switch: CompiledPipeline, call: Call, port: int, refused: int
) -> None:
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
@given(
    call=st.one_of(calls(), unknown_worker()), words=st.integers(1, 10), tag=st.sampled_from(["8100", "88a8"])
)
def test_no_rpc_gets_past_the_parser_to_a_ps(
    switch: CompiledPipeline, call: Call, words: int, tag: str
) -> None:
    """Behind IPv4 options or in a VLAN the parser does not look for an RPC."""
    frame = frames.frame(call.datagram(), src=testnet.WORKER[1], dst=testnet.SERVER)
    check_dropped(switch, 1, with_options(frame, words), "bad_shape")
    check_dropped(switch, 1, frame[:12] + bytes.fromhex(tag) + bytes(2) + frame[12:], "bad_shape")


@settings(max_examples=examples(60))
@given(value=U32, lane=st.integers(0, LANES - 1), slot=st.integers(USED, WINDOW - 1))
def test_hot_keys_of_one_job_are_out_of_another_jobs_reach(
    switch: CompiledPipeline, value: int, lane: int, slot: int
) -> None:
    used = testnet.cell(switch, testnet.PLAIN, 1, slot)[1]
    call = Call(Op.PUSH, {lane: (KEY_OF[lane], value)}, slot, testnet.PLAIN, turn=used + 1)
    [output] = switch.process(1, call.frame(), 0, 0)
    assert output.port == testnet.SERVER_PORT and Parsed(output.frame).rpc.served == 0
    assert [testnet.held(switch, lane, SLOT) for lane in range(LANES)] == HELD


SPACE = KeySpace(256)
MINE = [key for key in range(256) if ps_of(key, 2) == 0]
OTHERS = [key for key in range(256) if ps_of(key, 2) == 1]
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
        state = self.ps.server.state
        counters = {
            name: int(self.counters[name]) for name in ("rpcs", "applied_lanes", "refused_lanes", "overflows")
        }
        turns = state.callers.turns.tobytes()
        return (
            state.cells.tobytes(),
            turns,
            counters,
            list(self.ps.transmit()),
            list(self.ps.control_answers()),
        )

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
        ("reserved", others(8, 0), "malformed"),
        ("refused", st.integers(1, 2**32 - 1), "malformed"),
        ("count", st.integers(LANES + 1, 255), "malformed"),
    ],
)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_a_ps_drops_what_is_not_its_own(
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
    keys=st.lists(
        st.one_of(st.sampled_from(OTHERS), st.integers(256, 2**64 - 2)), min_size=1, max_size=LANES
    ),
    values=st.lists(U32, min_size=LANES, max_size=LANES),
    op=st.sampled_from([Op.PULL, Op.PUSH]),
)
def test_keys_of_another_ps_are_refused_and_never_added(
    server: Server, keys: list[int], values: list[int], op: Op
) -> None:
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
def test_a_hot_key_is_added_once_whatever_ps_the_header_names(
    value: int, lane: int, ps: int, both: CompiledPipeline
) -> None:
    held = testnet.held(both, lane, SLOT)
    turn = testnet.cell(both, testnet.OFFLOADED, 1, lane)[1] + 1
    call = Call(Op.PUSH, {lane: (KEY_OF[lane], value)}, lane, ps=ps, turn=turn)
    [output] = both.process(1, call.frame(), 0, 0)
    answer = Parsed(output.frame).rpc
    assert (output.port, answer.flags, answer.served) == (1, RESPONSE, 1 << lane)
    assert testnet.held(both, lane, SLOT) == (held + value) % 2**32
    assert testnet.drops(both) == {}


@pytest.fixture(scope="module")
def both(switch: CompiledPipeline) -> CompiledPipeline:
    """Return the network with a second PS, number 1."""
    pipeline = CompiledPipeline(PROGRAM, switch.code)
    server = [testnet.number(testnet.SERVER[0]), testnet.number(testnet.SERVER[1]), testnet.SERVER[2], 4]
    service = [testnet.number(testnet.SERVICE[0]), testnet.number(testnet.SERVICE[1]), testnet.SERVICE[2]]
    second = testnet.insert(
        "identify.servers", (testnet.OFFLOADED, 1), "identify.set_server", *server, *service
    )
    hot = [testnet.hot_entry(Change.INSERT, key, "hot", SLOT, lane) for lane, key in enumerate(KEY_OF)]
    testnet.write(pipeline, [*testnet.network(), second, *hot])
    return pipeline
