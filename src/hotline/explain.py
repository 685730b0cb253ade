"""One RPC through the aggregation program, explained: a switch with a small hot set, and what it does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controller.hotset.control import CONTROL
from controller.tables import Change, HotParam, State, Update
from foundation.designs.hotset import BOTH, DESIGN
from foundation.designs.interface import Hosts
from foundation.protocol import addressing, codec, frames
from foundation.protocol.codec import Message
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import HOTLINE_PORT, KEYS, VALUES, WINDOW_BITS, Header, Op
from simulator.switchboard import write_rows
from softswitch.explain.events import Event
from softswitch.explain.record import Recorder
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.load import load_program

WORKER, EPOCH = 1, 1
HOSTS = Hosts(workers=2, servers=1)
VALUE = 100
"""What a push adds to the first of its keys; one more to each that follows."""
SLOT = 5
"""Of each hot key, in its lane's registers."""


def keys_of(lanes: int) -> list[int]:
    """The least key of each of the first lanes."""
    found: dict[int, int] = {}
    key = 0
    while len(found) < lanes:
        if (lane := lane_of(key)) < lanes:
            found.setdefault(lane, key)
        key += 1
    return [found[lane] for lane in range(lanes)]


def program() -> Program:
    """The aggregation program."""
    return load_program(DESIGN.program.read_bytes())


def explain_rpc(op: Op, lanes: int, cold: int = 0) -> list[Event]:
    """What the switch does to a pull or push of worker 1 with a key in each of the first `lanes` lanes.

    The last `cold` of them are not in the switch. A push has come before a pull, so that there is something
    to read.
    """
    pipeline, recorder = _switch(keys_of(lanes)[: lanes - cold])
    rpcs = [op] if op is Op.PUSH else [Op.PUSH, op]
    for turn, each in enumerate(rpcs, start=1):
        recorder.take()
        pipeline.process(HOSTS.worker_port(WORKER), _frame(each, keys_of(lanes), turn), t_in=0, now=3)
    return recorder.take()


def _switch(hot: Sequence[int]) -> tuple[InterpretedPipeline, Recorder]:
    """The program with the tables of a run of the arm *both*, and some keys in its hot set."""
    loaded = program()
    recorder = Recorder(loaded)
    pipeline = InterpretedPipeline(loaded, observer=recorder)
    params = [HotParam(BOTH.job, key, lane_of(key), SLOT, State.HOT) for key in hot]
    rows = [*CONTROL.rows(HOSTS, [BOTH], EPOCH), *params]
    write_rows(pipeline, (Update(Change.INSERT, row) for row in rows))
    return pipeline, recorder


def _frame(op: Op, keys: Sequence[int], turn: int) -> bytes:
    """A worker's request to the service of the server."""
    count = len(keys)
    pushes = op is Op.PUSH
    header = Header(
        op=op,
        flags=KEYS | VALUES if pushes else KEYS,
        job=BOTH.job,
        worker=WORKER,
        epoch=EPOCH,
        ps=0,
        count=count,
        seq=turn << WINDOW_BITS,
        live=(1 << count) - 1,
    )
    values = np.arange(VALUE, VALUE + count, dtype=np.uint32) if pushes else None
    worker, service = addressing.worker(WORKER), addressing.service(1)
    source = frames.UdpEndpoint(worker.mac, worker.address, addressing.worker_udp_port(BOTH.job))
    destination = frames.UdpEndpoint(service.mac, service.address, HOTLINE_PORT)
    datagram = codec.build(Message(header, np.array(keys, np.uint64), values))
    return frames.build(frames.UdpFrame(source, destination, datagram))
