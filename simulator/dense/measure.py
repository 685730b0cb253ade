"""An all-reduce in virtual time, beside the least time that links allow, and bytes on every link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from foundation.designs.interface import Design
from foundation.protocol.header import WINDOW
from hosts.dense.packet import HEADER, SIZE, VALUE_BYTES
from simulator.costs import Hosts, Network
from simulator.dense.bed import network_of
from simulator.dense.player import go_on, is_sum
from simulator.errors import SimulationError
from simulator.loop import awake, resume
from simulator.state import HEAD_BYTES
from simulator.world import INBOX
from softswitch.queues.fifo import WIRE_OVERHEAD

DEVICE = Hosts(
    wake_ns=0, idle_ns=0, encode_ns=0, send_ns=1, take_ns=1, receive_ns=0, begin_ns=0, serve_ns=0, lane_ns=0
)  # fmt: skip
"""Hosts that take no time, so that links alone do."""


LOADS: dict[str, Callable[[int, int], float]] = {
    "ring": lambda workers, _servers: 2 * (workers - 1) / workers,
    "psdense": lambda workers, servers: max(1.0, workers / servers),
}
"""Design -> how many values the busiest link carries, in one direction, for each value of the vector, by the
numbers of workers and servers."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """One all-reduce of n float32 values by all workers."""

    workers: int
    servers: int
    values: int
    """n"""
    seconds: float
    """From the beginning of all to the end of the last."""
    limit_s: float
    """What the busiest link needs for the frames that it has carried. Links round a frame's time down to ns,
    so an all-reduce may be faster than that: by 0.1 % at 10 Gbit/s, and 0.6 % at 100 Gbit/s."""
    payload_limit_s: float
    """The same for the values alone, without headers, preambles and gaps."""
    worker_up: float
    """Frame bytes a value on each worker's cable to the switch, the mean; likewise the others."""
    worker_down: float
    server_up: float
    server_down: float
    retransmissions: int
    dropped: int
    """Frames that found a full queue."""

    @property
    def values_per_s(self) -> float:
        """Goodput of a worker."""
        return self.values / self.seconds


def measure(
    design: Design, workers: int, servers: int, values: int, network: Network, *, hosts: Hosts = DEVICE,
    chunk_size: int = SIZE, window: int | None = None, seed: int = 1,
) -> Reduced:  # fmt: skip
    """Add up vectors of so many values once; raises `SimulationError` where a sum is wrong or is missing.

    All begin at once. `window` is by default as many chunks as find room before the busiest link."""
    simulated = network_of(design, workers, servers, values, network, hosts, seed)
    clients: list[Any] = simulated.clients
    chance = np.random.default_rng(seed)
    vectors = [chance.standard_normal(values, np.float32) for _ in clients]
    ended = np.zeros(workers, np.int64)
    load = LOADS[design.name](workers, servers)
    packets = window or fitting(load, network, chunk_size)

    def ask(w: int) -> None:
        client = clients[w]
        client.take_records()
        if client.rpcs_of_operation:
            ended[w] = max(simulated.now, 1)
        else:
            client.chunk_size = chunk_size
            client.state.me.window = client.state.me.free = packets
            client.all_reduce(vectors[w], workers)
        resume(simulated.lent, w, simulated.now, 1 << 62)

    for w in range(workers):
        awake(simulated.lent, w)
    go_on(simulated, ask)
    if not ended.all() or not all(is_sum(client.result, vectors) for client in clients):
        raise SimulationError(
            f"{design.name}: {np.count_nonzero(ended == 0)} of {workers} workers have no sum"
        )
    world, cables = simulated.world, (simulated.world.up, simulated.world.down)
    busiest_ps = max(
        int(((link.bytes + WIRE_OVERHEAD * link.frames) * link.ps_per_byte).max()) for link in cables
    )
    each = [link.bytes / values for link in cables]
    return Reduced(
        workers, servers, values,
        seconds=float(ended.max()) / 1e9,
        limit_s=busiest_ps / 1e12,
        payload_limit_s=load * values * VALUE_BYTES * int(world.up.ps_per_byte[0]) / 1e12,
        worker_up=float(each[0][:workers].mean()),
        worker_down=float(each[1][:workers].mean()),
        server_up=float(each[0][workers:].mean()),
        server_down=float(each[1][workers:].mean()),
        retransmissions=sum(simulated.retransmissions()),
        dropped=int(sum(link.dropped.sum() for link in cables)),
    )  # fmt: skip


def fitting(load: float, network: Network, chunk_size: int) -> int:
    """The largest window with which what all senders to the busiest link have on the way fits into its queue,
    and into the buffer of the host behind it."""
    frame = HEAD_BYTES + HEADER.size + VALUE_BYTES * chunk_size
    room = min(round(network.queue_kb * 1024) // frame, INBOX)
    return max(1, min(WINDOW, int(room / load)))
