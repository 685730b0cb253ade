"""Simulate one all-reduce, and compare it with the minimum time and bytes that links allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from foundation.designs.interface import SwitchHosts
from foundation.protocol.header import WINDOW
from foundation.settings import Strict
from hosts.keys import KeySpace
from hotline_agents.interface import NEVER
from hotline_allreduce.dense.client import VectorClient
from hotline_allreduce.dense.packet import HEADER, VALUE_BYTES
from hotline_allreduce.simulation.subject import Subject
from hotline_simulator.config import SimulationError
from hotline_simulator.costs import HostCosts, Network
from hotline_simulator.drive import run_network
from hotline_simulator.loop import resume, wake_agent
from hotline_simulator.simulated_switch import switch_of
from hotline_simulator.state import HEAD_BYTES
from hotline_simulator.system import SimulatedSystem
from hotline_simulator.world import INBOX_FRAMES, SimulatedNetwork

# An agent tells by the time passed whether it has sent or received frames, so 1 ns is the minimum.
IDEAL = HostCosts(
    wake_ns=0, idle_ns=0, encode_ns=0, send_ns=1, take_ns=1, receive_ns=0, begin_ns=0, end_ns=0,
    operation_value_ns=0, serve_ns=0, lane_ns=0, value_ns=0,
)  # fmt: skip
"""Costs of hosts that take no time: links are the only limit."""


class AllReduceResult(Strict):
    workers: int
    servers: int
    values: int
    chunk_size: int
    window: int
    seconds: float
    """Time from the common start to the end of the last worker."""
    limit_s: float
    """Time that the busiest link has carried frames. A frame's time is rounded down to ns."""
    payload_limit_s: float
    """`limit_s` for the values alone, without headers, preambles and gaps."""
    worker_up: float
    """Mean bytes of frames per value on a worker's cable to the switch; `worker_down` is from the switch."""
    worker_down: float
    server_up: float
    server_down: float
    frames: int
    retransmissions: int
    dropped: int

    @property
    def values_per_s(self) -> float:
        return self.values / self.seconds


def measure(
    subject: Subject, workers: int, servers: int, values: int, network: Network, *, hosts: HostCosts = IDEAL,
    chunk_size: int | None = None, window: int = WINDOW, occupied: float = 0.0, seed: int = 1,
) -> AllReduceResult:  # fmt: skip
    """Simulate an all-reduce of workers that start together; another job has a share `occupied` of cells.

    A worker has up to `window` packets in flight, but no more than queues and inboxes hold.
    """
    values_per_packet, load = chunk_size or subject.chunk_size, subject.load(workers, servers)
    if not 1 <= window <= subject.max_window:
        raise ValueError(f"window: expected 1 to {subject.max_window} packets, got {window}")
    window_packets = min(window, largest_window(load, network, values_per_packet))
    design, arm = subject.design, subject.arm
    switch = switch_of(design, SwitchHosts(workers, servers), [arm])
    fitting_share = subject.occupy(switch, occupied)
    window_packets = max(1, int(window_packets * fitting_share))
    system = SimulatedSystem(
        design=design, arm=arm, space=KeySpace(values), workers=workers, servers=servers, network=network,
        hosts=hosts, seed=seed,
    )  # fmt: skip
    simulated = SimulatedNetwork(system, switch)
    vectors = draw_vectors(workers, values, seed)
    end_ns = all_reduce_once(subject, simulated, workers, vectors, window_packets, values_per_packet)
    world, cables = simulated.world, (simulated.world.up, simulated.world.down)
    up, down = (link.bytes / values for link in cables)
    return AllReduceResult(
        workers=workers, servers=servers, values=values, chunk_size=values_per_packet, window=window_packets,
        seconds=float(end_ns.max()) / 1e9,
        limit_s=int(max(link.busy.max() for link in cables)) / 1e9,
        payload_limit_s=load * values * VALUE_BYTES * int(world.up.picoseconds_per_byte[0]) / 1e12,
        worker_up=float(up[:workers].mean()),
        worker_down=float(down[:workers].mean()),
        server_up=float(up[workers:].mean()),
        server_down=float(down[workers:].mean()),
        frames=int(sum(link.frames.sum() for link in cables)),
        retransmissions=sum(simulated.retransmissions()),
        dropped=int(sum(link.dropped.sum() for link in cables)),
    )  # fmt: skip


def draw_vectors(workers: int, values: int, seed: int) -> list[NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(values, np.float32) for _ in range(workers)]


def all_reduce_once(
    subject: Subject, simulated: SimulatedNetwork, workers: int, vectors: Sequence[NDArray[np.float32]],
    window: int, chunk_size: int,
) -> NDArray[np.int64]:  # fmt: skip
    """Simulate an all-reduce in each job of `workers` workers; all start together, with a vector each.

    Return when each worker has its sum, in ns; raise `SimulationError` for a wrong or missing sum.
    """
    clients = cast(list[VectorClient], simulated.clients)
    end_ns = np.zeros(len(clients), np.int64)

    def start_next(w: int) -> None:
        client = clients[w]
        client.take_records()
        # Before the all-reduce there are no RPCs.
        if client.rpcs_of_operation:
            end_ns[w] = max(simulated.now, 1)  # 0 means that the worker has no sum
        else:
            subject.set_up(client, window, chunk_size)
            client.all_reduce(vectors[w], workers)
        resume(simulated.pinned_ref, w, simulated.now, NEVER)

    for w in range(len(clients)):
        wake_agent(simulated.pinned_ref, w)
    run_network(simulated, start_next, simulated.drain_log)
    for first in range(0, len(clients), workers):
        job_slice = slice(first, first + workers)
        results = [client.result for client in clients[job_slice]]
        are_identical = all((each == results[0]).all() for each in results)
        if not (end_ns[job_slice].all() and are_identical and subject.is_sum(results[0], vectors[job_slice])):
            workers_without_sum = np.count_nonzero(end_ns[job_slice] == 0)
            raise SimulationError(
                f"{subject.arm.name}, job {first // workers}: expected the same correct sum at {workers} "
                f"workers; {workers_without_sum} have none"
            )
    return end_ns


def largest_window(load: float, network: Network, chunk_size: int) -> int:
    """Return the largest number of packets in flight with which no queue and no inbox overflows."""
    frame_bytes = HEAD_BYTES + HEADER.size + VALUE_BYTES * chunk_size
    max_queued_packets = min(round(network.queue_kb * 1024) // frame_bytes, INBOX_FRAMES)
    return max(1, int(max_queued_packets / load))
