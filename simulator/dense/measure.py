"""An all-reduce in virtual time, beside the least time that links allow, and bytes on every link."""

from __future__ import annotations

from typing import cast

import numpy as np

from foundation.designs.interface import NEVER
from foundation.protocol.header import WINDOW
from foundation.settings import Strict
from hosts.dense.packet import HEADER, VALUE_BYTES
from hosts.keys import KeySpace
from hosts.worker.vectors import VectorClient
from simulator.costs import Hosts, Network
from simulator.dense.bed import switch_of
from simulator.dense.player import go_on
from simulator.dense.subject import Subject
from simulator.errors import SimulationError
from simulator.loop import awake, resume
from simulator.state import HEAD_BYTES
from simulator.world import INBOX, Simulated

IDEAL = Hosts(
    wake_ns=0, idle_ns=0, encode_ns=0, send_ns=1, take_ns=1, receive_ns=0, begin_ns=0, serve_ns=0, lane_ns=0
)  # fmt: skip
"""Hosts that take no time, so that links alone do."""


class Reduced(Strict):
    """One all-reduce of n float32 values by all workers."""

    workers: int
    servers: int
    values: int
    """n"""
    chunk_size: int
    """Values of a packet."""
    window: int
    """Packets that a worker has on the way at most."""
    seconds: float
    """From the beginning of all to the end of the last."""
    limit_s: float
    """How long the busiest link has carried frames. A frame's time is rounded down to ns."""
    payload_limit_s: float
    """The same for the values alone, without headers, preambles and gaps."""
    worker_up: float
    """Frame bytes a value on each worker's cable to the switch, the mean; likewise the others."""
    worker_down: float
    server_up: float
    server_down: float
    frames: int
    """On all cables, in both directions."""
    retransmissions: int
    dropped: int
    """Frames that found a full queue."""

    @property
    def values_per_s(self) -> float:
        """Goodput of a worker."""
        return self.values / self.seconds


def measure(
    subject: Subject, workers: int, servers: int, values: int, network: Network, *, hosts: Hosts = IDEAL,
    chunk_size: int | None = None, window: int | None = None, seed: int = 1,
) -> Reduced:  # fmt: skip
    """Add up vectors of so many values once; raises `SimulationError` where a sum is wrong or is missing.

    All begin at once. `window` is by default as many chunks as find room before the busiest link."""
    size = chunk_size or subject.chunk_size
    packets = window or fitting(subject.load(workers, servers), network, size)
    design, arm = subject.design, subject.arm
    simulated = Simulated(
        design, arm, switch_of(design, arm, workers, servers), KeySpace(values), 1, workers, servers, network,
        hosts, seed,
    )  # fmt: skip
    clients = cast(list[VectorClient], simulated.clients)
    chance = np.random.default_rng(seed)
    vectors = [chance.standard_normal(values, np.float32) for _ in clients]
    ended = np.zeros(workers, np.int64)

    def ask(w: int) -> None:
        client = clients[w]
        client.take_records()
        if client.rpcs_of_operation:
            ended[w] = max(simulated.now, 1)
        else:
            subject.set_up(client, packets, size)
            client.all_reduce(vectors[w], workers)
        resume(simulated.pinned_ref, w, simulated.now, NEVER)

    for w in range(workers):
        awake(simulated.pinned_ref, w)
    go_on(simulated, ask)
    results = [client.result for client in clients]
    is_one = all((each == results[0]).all() for each in results)
    if not (ended.all() and is_one and subject.is_sum(results[0], vectors)):
        missing = np.count_nonzero(ended == 0)
        raise SimulationError(f"{arm.name}: {missing} of {workers} workers have no sum, or one that is wrong")
    world, cables = simulated.world, (simulated.world.up, simulated.world.down)
    each = [link.bytes / values for link in cables]
    return Reduced(
        workers=workers, servers=servers, values=values, chunk_size=size, window=packets,
        seconds=float(ended.max()) / 1e9,
        limit_s=int(max(link.carried.max() for link in cables)) / 1e9,
        payload_limit_s=payload_s(subject, workers, servers, values, int(world.up.ps_per_byte[0])),
        worker_up=float(each[0][:workers].mean()),
        worker_down=float(each[1][:workers].mean()),
        server_up=float(each[0][workers:].mean()),
        server_down=float(each[1][workers:].mean()),
        frames=int(sum(link.frames.sum() for link in cables)),
        retransmissions=sum(simulated.retransmissions()),
        dropped=int(sum(link.dropped.sum() for link in cables)),
    )  # fmt: skip


def payload_s(subject: Subject, workers: int, servers: int, values: int, ps_per_byte: int) -> float:
    """What the busiest link needs for the values alone."""
    return subject.load(workers, servers) * values * VALUE_BYTES * ps_per_byte / 1e12


def fitting(load: float, network: Network, chunk_size: int) -> int:
    """The largest window with which what all senders to the busiest link have on the way fits into its queue,
    and into the buffer of the host behind it."""
    frame = HEAD_BYTES + HEADER.size + VALUE_BYTES * chunk_size
    room = min(round(network.queue_kb * 1024) // frame, INBOX)
    return max(1, min(WINDOW, int(room / load)))
