"""What the bench sends: pushes whose 32 lanes are all hot, and the table entries that make them so."""

import numpy as np

from controller.tables import Change, HotParam, Job, Route, Server, State, Update, Worker
from hosts import addressing
from hosts.wire import frames
from hosts.wire.codec import FastCodec, Message
from hosts.wire.frames import UdpEndpoint, UdpFrame
from hosts.wire.hashing import lanes_of
from hosts.wire.header import HOTLINE_PORT, KEYS, LANES, VALUES, Header, Op

JOB = 1
WORKER = 1
EPOCHS = 400
"""Epochs that the switch knows: each trial starts the sequence numbers afresh with a new one."""
HOT_ENTRIES = 20_000


def hot_entries() -> list[HotParam]:
    """HOT_ENTRIES keys in their hash lanes, with slots of their own, spread evenly over the lanes."""
    keys = np.arange(2 * HOT_ENTRIES, dtype=np.uint64)
    lanes = lanes_of(keys)
    a_lane = HOT_ENTRIES // LANES
    return [
        HotParam(JOB, int(key), lane, slot, State.HOT)
        for lane in range(LANES)
        for slot, key in enumerate(keys[lanes == lane][:a_lane])
    ]


def setup() -> list[Update]:
    """Everything but the hot entries: one worker, one PS, offload on."""
    host, ps, service = addressing.worker(WORKER), addressing.server(1), addressing.service(1)
    rows: list[Job | Server | Worker | Route] = [
        Job(JOB, offload=True, proxy=True),
        Server(JOB, 0, ps.mac, ps.address, HOTLINE_PORT, 2, service.mac, service.address, HOTLINE_PORT),
        Route(host.mac, 1),
        Route(ps.mac, 2),
    ]
    udp_port = addressing.worker_udp_port(JOB)
    rows += [
        Worker(JOB, WORKER, epoch, row=1, mac=host.mac, addr=host.address, udp_port=udp_port, port=1)
        for epoch in range(1, EPOCHS + 1)
    ]
    return [Update(Change.INSERT, row) for row in rows]


def all_hit_pushes() -> list[bytes]:
    """One frame for each slot of the lanes: between them they touch every hot entry."""
    keys = np.array([entry.key for entry in hot_entries()], np.uint64).reshape(LANES, -1)
    return [_push(keys[:, slot]) for slot in range(keys.shape[1])]


def _push(keys: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> bytes:
    host, service = addressing.worker(WORKER), addressing.service(1)
    header = Header(
        op=Op.PUSH, flags=KEYS | VALUES, job=JOB, worker=WORKER, count=LANES, live=(1 << LANES) - 1
    )
    datagram = FastCodec().build(Message(header, keys, np.ones(LANES, np.uint32)))
    source = UdpEndpoint(host.mac, host.address, addressing.worker_udp_port(JOB))
    destination = UdpEndpoint(service.mac, service.address, HOTLINE_PORT)
    return frames.build(UdpFrame(source, destination, bytes(datagram)))
