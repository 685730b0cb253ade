"""3,000 mutated and truncated frames change nothing in the switch but the drop counters."""

from __future__ import annotations

import struct
from random import Random

from foundation.protocol.errors import MalformedDatagram
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import HOTLINE_PORT, WINDOW_BITS, Op, unpack
from softswitch.compiled import CompiledPipeline
from softswitch.pipeline import Change
from tests.harness import frames, testnet

FRAMES = 3_000
DROPS = testnet.INGRESS + "drops"
KEYS = {lane: next(key for key in range(10_000) if lane_of(key) == lane) for lane in range(32)}


def is_rpc(frame: bytes) -> bool:
    """Whether the frame is still a well-formed RPC in an IPv4/UDP packet."""
    if len(frame) < 42 or frame[12:15] != b"\x08\x00\x45" or frame[23] != 17:
        return False
    total_len, fragment = struct.unpack_from(">H2xH", frame, 16)
    source, destination, udp_length = struct.unpack_from(">HHH", frame, 34)
    if (
        frames.internet_checksum(frame[14:34])
        or fragment & 0x3FFF
        or HOTLINE_PORT not in (source, destination)
    ):
        return False
    if total_len != len(frame) - 14 or udp_length != total_len - 20:
        return False
    try:
        header = unpack(frame[42:])
    except MalformedDatagram:
        return False
    return not header.served


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


def snapshot(switch: CompiledPipeline) -> tuple[object, object]:
    registers, counters = testnet.state_of(switch)
    return registers, {name: cells for name, cells in counters.items() if name != DROPS}


def test_mutated_frames_change_only_the_drop_counters() -> None:
    random = Random(8)
    switch = CompiledPipeline(testnet.program())
    hot = [testnet.hot_entry(Change.INSERT, KEYS[lane], "hot", 5, lane) for lane in range(32)]
    testnet.write(switch, testnet.network() + hot)
    before = snapshot(switch)
    sent = 0
    while sent < FRAMES:
        op = random.choice([Op.PULL, Op.PUSH, Op.PUSH, Op.EMPTY])
        lanes = {} if op is Op.EMPTY else {lane: (KEYS[lane], 1) for lane in range(random.randint(1, 32))}
        rpc = frames.request(op, job=1, worker=1, epoch=9, ps=0, seq=1 << WINDOW_BITS, lanes=lanes)
        frame = mutate(random, frames.frame(rpc, src=testnet.WORKER[1], dst=testnet.SERVICE))
        if is_rpc(frame):
            continue
        assert switch.process(1, frame, 0, 0) == [], frame.hex()
        sent += 1
        if sent % (FRAMES // 2) == 0:
            assert snapshot(switch) == before
    assert sum(testnet.drops(switch).values()) == FRAMES
    assert len(testnet.drops(switch)) >= 5
