"""Fuzz the switch with frames: the interpreter and the compiled code must agree.

The interpreter's lines guide the search. Parts of an input are frames, whose first byte selects the port.
Whatever the switch aggregates or forwards as an RPC must be one for the agents' codec too.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache

from controller.tables import CPU_PORT
from foundation.errors import MalformedDatagram
from foundation.protocol import frames
from foundation.protocol.header import (
    CONTROLLER_CALLER,
    HOTLINE_PORT,
    LANES,
    PS_CALLER_BASE,
    RESPONSE,
    WINDOW_BITS,
    Op,
    offset_of,
    unpack,
)
from softswitch.compiled import CompiledPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.pipeline import Change, Pipeline
from tests.harness import testnet
from tests.harness.frames import frame
from tests.harness.testnet import KEY_OF
from tools.fuzz.datagrams import answer, rpc
from tools.fuzz.target import MARK, Target, parts

PORTS = (1, 2, testnet.SERVER_PORT, CPU_PORT)
STATES = ("hot", "reserved", "draining", "parked")
LANE_KINDS = len(STATES) + 1  # by lane mod 5: hot, reserved, draining, parked, without an entry
SLOT = 5
SUBMIT_TO_INGRESS = frames.packet_out_header(None)[1]  # bit in the second byte of a packet-out
FIRST_CELLS = 1024
"""Number of cells of each counter to compare; the entries use no later ones."""
_LOW_FLAGS_AT = offset_of("flags") + 1  # the low byte of 16 bits
_MAX_ROW = max(testnet.row_of(job, caller) for job in testnet.JOBS for caller in testnet.CALLERS)
CELL_COUNT = (_MAX_ROW + 1) << WINDOW_BITS  # exactly-once cells of all callers
CELLS = testnet.INGRESS + "exactly_once.cells"


def _with_entries(pipeline: Pipeline) -> Pipeline:
    hot = [
        testnet.hot_entry(Change.INSERT, KEY_OF[lane], STATES[lane % LANE_KINDS], SLOT, lane)
        for lane in range(LANES)
        if lane % LANE_KINDS < len(STATES)
    ]
    testnet.write(pipeline, testnet.network() + hot)
    return pipeline


class Switches:
    def __init__(self) -> None:
        program = testnet.program()
        self.pipelines = [
            _with_entries(InterpretedPipeline(program)),
            _with_entries(CompiledPipeline(program)),
        ]
        self._counters = [(each.name, min(each.size, FIRST_CELLS)) for each in program.counters]

    def reset(self) -> None:
        for pipeline in self.pipelines:
            for index, value in enumerate(pipeline.cells.read_register(CELLS, 0, CELL_COUNT)):
                if value:
                    pipeline.cells.write_register(CELLS, index, 0)
            for lane in range(LANES):
                pipeline.cells.write_register(f"{testnet.INGRESS}bank_{lane:02d}.values_a", SLOT, 0)

    def state(self, pipeline: Pipeline) -> tuple[list[int], list[int]]:
        values = [testnet.held(pipeline, lane, SLOT) for lane in range(LANES)]
        return pipeline.cells.read_register(CELLS, 0, CELL_COUNT), values

    def counters(self, pipeline: Pipeline) -> list[object]:
        return [pipeline.cells.read_counter(name, 0, size) for name, size in self._counters]


@cache
def _switches() -> Switches:
    return Switches()  # made only once, as that takes seconds


def run(data: bytes) -> Hashable:
    switches = _switches()
    switches.reset()
    interpreted, compiled = switches.pipelines
    before, seen = testnet.drops(compiled), frozenset[object]()
    for part in parts(data):
        port, sent = PORTS[(part[0] if part else 0) % len(PORTS)], part[1:]
        state = switches.state(compiled)
        outputs = [pipeline.process(port, sent, t_in=0, now=0) for pipeline in switches.pipelines]
        assert outputs[0] == outputs[1], "interpreter and compiled code differ"
        after = switches.state(compiled)
        assert switches.state(interpreted) == after, "their values differ"
        # A packet-out that bypasses ingress.
        is_raw = port == CPU_PORT and len(sent) > 1 and not sent[1] & SUBMIT_TO_INGRESS
        inside = sent[2:] if port == CPU_PORT else sent
        assert after == state or _is_request(inside), "a frame that is not a request changed the state"
        assert is_raw or all(_is_sound(out.frame) for out in outputs[0] if out.port != CPU_PORT), "malformed"
        (_, values_before), (_, values_after) = state, after
        seen |= {(port, len(outputs[0]), values_after != values_before)}
    assert switches.counters(interpreted) == switches.counters(compiled), "their counters differ"
    dropped = {name for name, count in testnet.drops(compiled).items() if count > before.get(name, 0)}
    return seen, frozenset(dropped)


def _is_request(sent: bytes) -> bool:
    """Return whether the codec decodes a frame as a request with no lane marked as served."""
    try:
        header = unpack(frames.parse(sent).payload)
    except MalformedDatagram:
        return False
    return not header.flags & RESPONSE and not header.served


def _is_sound(out: bytes) -> bool:
    """Return whether the codec accepts a frame; True for other traffic and for a PS's answers."""
    try:
        parsed = frames.parse(out)
    except MalformedDatagram:
        return True
    assert frames.parse(frames.build(parsed)) == parsed
    if HOTLINE_PORT not in (parsed.source.port, parsed.destination.port):
        return True
    try:
        low_flags = int.from_bytes(parsed.payload[_LOW_FLAGS_AT : _LOW_FLAGS_AT + 1], "big")  # 0 if cut off
        return bool(low_flags & RESPONSE) or bool(unpack(parsed.payload))
    except MalformedDatagram:
        return False


def seeds() -> list[bytes]:
    # The first sequence numbers of slots 0 and 1 are 64 and 65.
    inputs = []
    for job in testnet.JOBS:
        for caller, (end, port) in testnet.CALLERS.items():
            caller_fields = {"job": job, "worker": caller, "epoch": testnet.EPOCH}
            keys = KEY_OF if caller == 1 and job == testnet.OFFLOADED else KEY_OF[:LANE_KINDS]
            requests = [rpc(Op.PUSH, keys, 64, **caller_fields), rpc(Op.PULL, keys, 65, **caller_fields)]
            # The port, and for the CPU port a packet-out header.
            prefix = bytes([PORTS.index(port)]) + (
                frames.packet_out_header(None) if port == CPU_PORT else b""
            )
            sent = [prefix + frame(request, src=end, dst=testnet.SERVICE) for request in requests]
            inputs.append(MARK.join([*sent, sent[0]]))
    worker_pull = rpc(Op.PULL, KEY_OF[:3], 64, job=1, worker=1, epoch=testnet.EPOCH)
    answers = frame(answer(worker_pull), src=testnet.SERVER, dst=testnet.SERVICE)
    other = frame(b"hello", src=testnet.WORKER[1], dst=(*testnet.WORKER[2][:2], 7))
    control = frame(rpc(Op.CONTROL, [], 1, flags=RESPONSE), src=testnet.SERVER, dst=testnet.CONTROLLER)
    empty = rpc(Op.EMPTY, [], 64, job=1, worker=1, epoch=testnet.EPOCH)
    inputs.append(b"\0" + frame(empty, src=testnet.WORKER[1], dst=testnet.SERVICE))
    # Parts begin with the index of a port in PORTS; a packet-out with a port bypasses ingress.
    raw = frames.packet_out_header(egress_port=3) + b"raw"
    return [*inputs, b"\x02" + answers, MARK.join([b"\0" + other, b"\x02" + control, b"\x03" + raw])]


TOKENS = tuple(
    number.to_bytes(2, "big")
    # The last three are EtherType IPv4, TTL 64 with protocol UDP, and the first 16 bits of an IPv4 header.
    for number in (PS_CALLER_BASE, CONTROLLER_CALLER, HOTLINE_PORT, 0x0800, 0x4011, 0x4500)
)
INTERPRETER = "packages/softswitch/src/softswitch/interpreter"
SOURCES = tuple(f"{INTERPRETER}/{name}.py" for name in ("parser", "controls", "tables"))
"""Modules whose lines guide the search; every packet covers the others, `expressions` and `statements`."""
TARGET = Target("frame", run, SOURCES, seeds, TOKENS)
