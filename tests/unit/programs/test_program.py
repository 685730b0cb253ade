"""The rules of the P4 program (docs/design.md) on the compiled switch."""

from __future__ import annotations

from collections import Counter

import pytest

from controller.status import RPC_OUTCOMES
from controller.tables import CPU_PORT
from foundation.protocol.frames import FRAME_OVERHEAD, packet_out_header
from foundation.protocol.header import (
    CONTROLLER_CALLER,
    HEADER_BYTES,
    PS_CALLER_BASE,
    RESPONSE,
    VALUES,
    WINDOW_BITS,
    Header,
    Op,
)
from softswitch.compiled import CompiledPipeline
from softswitch.pipeline import Change, EntryKey, EntryWrite
from tests.harness import frames, testnet
from tests.harness.frames import Parsed
from tests.harness.testnet import KEY_OF, OFFLOADED, PLAIN, new_switch

COLD = 77_777


@pytest.fixture
def switch() -> CompiledPipeline:
    pipeline = new_switch()
    testnet.write(pipeline, testnet.network())
    return pipeline


def make(switch: CompiledPipeline, state: str, *lanes: int, change: Change = Change.INSERT) -> None:
    testnet.write(switch, [testnet.hot_entry(change, KEY_OF[lane], state, 5, lane) for lane in lanes])


def seq(turn: int, slot: int = 0) -> int:
    return turn << WINDOW_BITS | slot


def call(
    switch: CompiledPipeline, op: Op, lanes: dict[int, tuple[int, int]], turn: int, *, worker: int = 1,
    job: int = OFFLOADED, slot: int = 0, epoch: int = testnet.EPOCH, now: int = 0,
) -> list[tuple[int, Parsed]]:  # fmt: skip
    port, frame = testnet.request(op, lanes, seq(turn, slot), worker, job, epoch=epoch)
    outputs = switch.process(port, testnet.into(port, frame), 0, now)
    return [(out.port, Parsed(out.frame[2:] if out.port == CPU_PORT else out.frame)) for out in outputs]


def push(
    switch: CompiledPipeline, turn: int, *lanes: int, value: int = 1, **where: int
) -> list[tuple[int, Parsed]]:
    return call(switch, Op.PUSH, {lane: (KEY_OF[lane], value) for lane in lanes}, turn, **where)


def pull(switch: CompiledPipeline, turn: int, *lanes: int, **where: int) -> list[tuple[int, Parsed]]:
    return call(switch, Op.PULL, {lane: (KEY_OF[lane], 0) for lane in lanes}, turn, **where)


def answer_to(worker: int) -> bytes:
    header = Header(op=Op.PUSH, flags=RESPONSE, job=OFFLOADED, worker=worker, epoch=9, count=1, live=1)
    return frames.frame(frames.datagram(header), src=testnet.SERVER, dst=testnet.SERVICE)


def test_a_push_that_hits_in_every_lane_is_answered_by_the_switch(switch: CompiledPipeline) -> None:
    make(switch, "hot", 0, 3)
    [(port, answer)] = push(switch, 1, 0, 3, value=10)
    assert port == 1
    assert answer.rpc.flags == RESPONSE
    assert answer.rpc.served == answer.rpc.live == 0b1001
    assert (answer.src_mac, answer.src, answer.src_port) == testnet.SERVICE
    assert (answer.dst_mac, answer.dst, answer.dst_port) == testnet.WORKER[1]
    assert answer.length == 42 + HEADER_BYTES
    assert answer.total_len == answer.udp_length + 20 == 28 + HEADER_BYTES
    assert answer.checksum_ok
    assert answer.udp_checksum == 0
    assert testnet.held(switch, 0, 5) == testnet.held(switch, 3, 5) == 10


def test_a_pull_that_hits_gets_the_sum_of_pushes(switch: CompiledPipeline) -> None:
    make(switch, "hot", 7)
    push(switch, 1, 7, value=0xFFFFFFFF)
    push(switch, 1, 7, value=44, worker=2)
    [(port, answer)] = pull(switch, 2, 7)
    assert port == 1
    assert answer.rpc.flags == RESPONSE | VALUES
    assert answer.keys is None
    assert answer.values == [0] * 7 + [43]
    assert answer.length == 42 + HEADER_BYTES + 8 * 4


def test_a_mixed_rpc_goes_on_to_the_ps_with_the_served_lanes_marked(switch: CompiledPipeline) -> None:
    make(switch, "hot", 1)
    push(switch, 1, 1, value=9)
    lanes = {0: (COLD, 0), 1: (KEY_OF[1], 0)}
    [(port, request)] = call(switch, Op.PULL, lanes, 2)
    assert port == testnet.SERVER_PORT
    assert request.rpc.served == 0b10
    assert request.keys == [COLD, KEY_OF[1]]
    assert request.values == [0, 9]
    [(port, request)] = call(switch, Op.PUSH, {lane: (key, 5) for lane, (key, _) in lanes.items()}, 3)
    assert (port, request.rpc.served, request.values) == (testnet.SERVER_PORT, 0b10, [5, 5])
    assert testnet.held(switch, 1, 5) == 14


def test_a_pull_that_misses_in_every_lane_is_forwarded_unchanged(switch: CompiledPipeline) -> None:
    [(port, request)] = pull(switch, 1, 0, 1, 2)
    assert port == testnet.SERVER_PORT
    assert request.values is None
    assert request.rpc.served == 0


def test_a_hot_key_in_another_lane_is_a_miss(switch: CompiledPipeline) -> None:
    make(switch, "hot", 4)
    [(port, _)] = call(switch, Op.PUSH, {5: (KEY_OF[4], 1)}, 1)
    assert port == testnet.SERVER_PORT
    assert testnet.held(switch, 4, 5) == 0


def test_a_duplicate_push_adds_nothing_and_is_answered_again(switch: CompiledPipeline) -> None:
    make(switch, "hot", 2)
    first = push(switch, 1, 2, value=3)
    again = push(switch, 1, 2, value=3)
    assert first[0][1].rpc == again[0][1].rpc
    assert testnet.held(switch, 2, 5) == 3


@pytest.mark.parametrize(("before", "after"), [("hot", "draining"), ("reserved", "hot")])
def test_a_duplicate_push_keeps_its_bitmap(switch: CompiledPipeline, before: str, after: str) -> None:
    make(switch, before, 6)
    first = push(switch, 1, 6, value=8)
    make(switch, after, 6, change=Change.MODIFY)
    again = push(switch, 1, 6, value=8)
    assert [(at, sent.rpc.served) for at, sent in again] == [(at, sent.rpc.served) for at, sent in first]
    assert testnet.held(switch, 6, 5) == (8 if before == "hot" else 0)


def test_a_duplicate_pull_is_answered_by_the_current_hits(switch: CompiledPipeline) -> None:
    make(switch, "reserved", 6)
    assert pull(switch, 1, 6)[0][0] == testnet.SERVER_PORT
    make(switch, "hot", 6, change=Change.MODIFY)
    assert pull(switch, 1, 6)[0][0] == 1


def test_a_new_epoch_starts_its_turns_afresh(switch: CompiledPipeline) -> None:
    make(switch, "hot", 0)
    push(switch, 1, 0)
    data = (testnet.row_of(OFFLOADED, 1), *testnet.numbers(testnet.WORKER[1]), 1, 0)
    entry = testnet.insert("identify.workers", (OFFLOADED, 1, 10), "identify.set_worker", *data)
    testnet.write(switch, [entry])
    assert len(push(switch, 1, 0, epoch=10)) == 1
    assert testnet.held(switch, 0, 5) == 2


@pytest.mark.parametrize("state", ["reserved", "draining", "parked"])
def test_a_workers_lanes_miss_entries_in_motion(switch: CompiledPipeline, state: str) -> None:
    make(switch, state, 9)
    assert push(switch, 1, 9)[0][0] == testnet.SERVER_PORT
    assert testnet.held(switch, 9, 5) == 0


@pytest.mark.parametrize("caller", [PS_CALLER_BASE, CONTROLLER_CALLER])
@pytest.mark.parametrize(("state", "reached"), [("hot", 1), ("reserved", 1), ("draining", 1), ("parked", 0)])
def test_privileged_callers_reach_entries_in_motion_and_are_always_answered(
    switch: CompiledPipeline, caller: int, state: str, reached: int
) -> None:
    make(switch, state, 9)
    port = testnet.CALLERS[caller][1]
    [(at, answer)] = push(switch, 1, 9, value=21, worker=caller)
    assert (at, answer.rpc.served) == (port, reached << 9)
    [(at, answer)] = pull(switch, 2, 9, worker=caller)
    assert answer.values is not None
    assert (at, answer.values[9]) == (port, 21 * reached)


def test_the_server_sees_the_service_address_with_the_proxy_and_else_the_workers(
    switch: CompiledPipeline,
) -> None:
    [(_, proxied)] = push(switch, 1, 0)
    assert (proxied.src_mac, proxied.src, proxied.src_port) == testnet.SERVICE
    assert (proxied.dst_mac, proxied.dst, proxied.dst_port) == testnet.SERVER
    [(_, direct)] = push(switch, 1, 0, job=PLAIN)
    assert (direct.src_mac, direct.src, direct.src_port) == testnet.WORKER[1]
    assert (direct.dst_mac, direct.dst, direct.dst_port) == testnet.SERVER


@pytest.mark.parametrize("worker", [1, 2])
def test_an_answer_goes_to_the_worker_in_its_header(switch: CompiledPipeline, worker: int) -> None:
    [output] = switch.process(testnet.SERVER_PORT, answer_to(worker), 0, 0)
    answer = Parsed(output.frame)
    assert output.port == worker
    assert (answer.dst_mac, answer.dst, answer.dst_port) == testnet.WORKER[worker]
    assert (answer.src_mac, answer.src, answer.src_port) == testnet.SERVICE


def test_outcomes_of_rpcs_are_counted_by_name(switch: CompiledPipeline) -> None:
    make(switch, "hot", 0)
    push(switch, 1, 0)
    for turn in (1, 2):
        push(switch, turn, 1, slot=1)
    for turn in (1, 1, 1):
        push(switch, turn, 1, slot=2)
    for _ in range(7):
        switch.process(testnet.SERVER_PORT, answer_to(1), 0, 0)
    cells = switch.cells.read_counter("HotlineIngress.readdress.rpcs", 0, len(RPC_OUTCOMES))
    found = dict(zip(RPC_OUTCOMES, (cell.packets for cell in cells), strict=True))
    assert found == {"answered": 1, "forwarded": 5, "relayed": 7, "duplicates": 2}


def test_each_pass_adds_its_residence(switch: CompiledPipeline) -> None:
    make(switch, "hot", 0)
    [(_, answer)] = call(switch, Op.PUSH, {0: (KEY_OF[0], 1)}, 1, now=17)
    assert answer.rpc.residence == 17


def test_lane_stats_count_fresh_lanes_of_workers_only(switch: CompiledPipeline) -> None:
    make(switch, "hot", 0)
    push(switch, 1, 0, 1)
    push(switch, 1, 0, 1)
    push(switch, 1, 0, worker=PS_CALLER_BASE)
    assert testnet.lane_stats(switch, 0) == (1, 0, 0)
    assert testnet.lane_stats(switch, 1) == (0, 1, 0)


def test_the_pushes_of_workers_to_a_slot_are_counted_once_each(switch: CompiledPipeline) -> None:
    make(switch, "hot", 0, 2)
    make(switch, "draining", 3)
    for turn, worker in ((1, 1), (1, 1), (2, 1), (1, 2)):
        push(switch, turn, 0, 1, 3, worker=worker)
    pull(switch, 3, 0, 2)
    push(switch, 1, 0, 3, worker=PS_CALLER_BASE)
    assert [testnet.pushes(switch, lane) for lane in range(4)] == [{5: 3}, {}, {}, {}]


NOT_VALID = [
    ({"version": 1}, "wrong_version"),
    ({"op": 9}, "bad_shape"),
    ({"flags": 0}, "bad_shape"),
    ({"dim": 0}, "bad_shape"),
    ({"dim": 2}, "bad_shape"),
    ({"dim": 4}, "parser_error"),
    ({"dim": 255}, "parser_error"),
    ({"live": 2}, "bad_shape"),
    ({"live": 0}, "bad_shape"),
    ({"served": 1}, "bad_shape"),
    ({"refused": 1}, "bad_shape"),
    ({"count": 2}, "parser_error"),
    ({"count": 33}, "parser_error"),
]


def test_invalid_requests_are_dropped_and_counted_by_reason(switch: CompiledPipeline) -> None:
    """All registers are read once at the end, as that takes long."""
    make(switch, "hot", 0)
    before, dropped = testnet.state_of(switch), Counter[str]()
    header = Header(op=Op.PUSH, flags=6, job=OFFLOADED, worker=1, epoch=9, count=1, live=1, seq=seq(1))
    for change, reason in NOT_VALID:
        rpc = frames.datagram(header._replace(**change), [KEY_OF[0]], [1])
        frame = frames.frame(rpc, src=testnet.WORKER[1], dst=testnet.SERVICE)
        assert switch.process(1, frame, 0, 0) == [], change
        dropped[reason] += 1
        assert testnet.drops(switch) == dropped, change
    after = testnet.state_of(switch)
    after[1].pop("HotlineIngress.drops"), before[1].pop("HotlineIngress.drops")
    assert after == before


def test_invalid_frames_are_dropped_and_counted_by_reason(switch: CompiledPipeline) -> None:
    _, frame = testnet.request(Op.PUSH, {0: (KEY_OF[0], 1)}, seq(1))
    more_fragments = bytearray(frame)
    more_fragments[20] |= 0x20
    more_fragments[24:26] = bytes(2)
    more_fragments[24:26] = frames.internet_checksum(bytes(more_fragments[14:34])).to_bytes(2, "big")
    wrong_checksum = frame[:24] + bytes(2) + frame[26:]
    for broken in (bytes(more_fragments), *[wrong_checksum] * 2, *[frame + b"!"] * 3):
        assert switch.process(1, broken, 0, 0) == []
    assert testnet.drops(switch) == {"fragment": 1, "bad_checksum": 2, "bad_length": 3}


def test_an_rpc_of_a_job_without_settings_is_dropped(switch: CompiledPipeline) -> None:
    testnet.write(switch, [EntryWrite(Change.DELETE, "HotlineIngress.identify.jobs", (PLAIN,))])
    assert push(switch, 1, 0, job=PLAIN) == []
    assert testnet.drops(switch) == {"unknown_job": 1}


def test_a_frame_cut_in_its_lanes_adds_nothing(switch: CompiledPipeline) -> None:
    """BMv2 goes on into ingress after a parser error: without the check 20 lanes would be added."""
    make(switch, "hot", *range(32))
    lanes = {lane: (KEY_OF[lane], 1) for lane in range(32)}
    _, frame = testnet.request(Op.PUSH, lanes, seq(1))
    rpc_bytes = len(frame) - FRAME_OVERHEAD
    for cut in range(1, rpc_bytes):
        assert switch.process(1, frame[:-cut], 0, 0) == []
    assert sum(testnet.drops(switch).values()) == rpc_bytes - 1
    assert all(testnet.held(switch, lane, 5) == 0 for lane in range(32))


def test_an_empty_rpc_reaches_the_ps(switch: CompiledPipeline) -> None:
    [(port, request)] = call(switch, Op.EMPTY, {}, 1)
    assert (port, request.length) == (testnet.SERVER_PORT, 42 + HEADER_BYTES)


def test_a_packet_out_with_a_port_leaves_unchanged(switch: CompiledPipeline) -> None:
    [output] = switch.process(CPU_PORT, packet_out_header(3) + b"anything at all", 0, 0)
    assert output == (3, b"anything at all")


def test_a_control_answer_goes_to_the_controller_with_its_port(switch: CompiledPipeline) -> None:
    header = Header(op=Op.CONTROL, flags=RESPONSE, job=OFFLOADED, worker=CONTROLLER_CALLER, seq=5)
    rpc = frames.datagram(header) + b"body of any length"
    frame = frames.frame(rpc, src=testnet.SERVER, dst=testnet.CONTROLLER)
    [output] = switch.process(testnet.SERVER_PORT, frame, 0, 0)
    assert output.port == CPU_PORT
    assert output.frame[:2] == (testnet.SERVER_PORT << 7).to_bytes(2, "big")
    assert output.frame[2:] == frame


def test_other_traffic_is_switched_by_address(switch: CompiledPipeline) -> None:
    arp = frames.mac(testnet.WORKER[2][0]) + frames.mac(testnet.WORKER[1][0]) + b"\x08\x06" + bytes(46)
    assert switch.process(1, arp, 0, 0) == [(2, arp)]
    assert switch.process(1, b"\xff" * 6 + arp[6:], 0, 0) == []
    assert testnet.drops(switch) == {"no_route": 1}
    key = (testnet.number(testnet.WORKER[2][0]),)
    assert switch.tables.counter(EntryKey("HotlineIngress.forward.forward", key)) == (1, len(arp))
