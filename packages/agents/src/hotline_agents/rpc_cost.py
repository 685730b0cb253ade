"""Measure an RPC's CPU time at a compiled worker's and server's thread over the loopback, without switch."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import numpy as np

from foundation.compiled import pinned
from foundation.designs.interface import Design
from foundation.protocol.codec import Caller
from foundation.protocol.header import LANES
from hosts.keys import KeySpace
from hosts.rpc_cost import RpcCost
from hosts.sockets import Address, open_udp
from hotline_agents.designs import agents_of
from hotline_agents.ps.compiled_loop import make_sources, serve
from hotline_agents.ps.ops import pinned as pinned_server
from hotline_agents.ps.service_time import make_service
from hotline_agents.udp import make_udp
from hotline_agents.worker.client import NO_ITERATION, BaseClient
from hotline_agents.worker.compiled_loop import ENDED, make_wire, operate

_JOB, _EPOCH, _WORKER, _PS, _N_PS = 0, 0, 1, 0, 1
_ANY_PORT = ("127.0.0.1", 0)
_NO_FILE = -1
_KEYS = 64 * LANES  # keys of an operation: they take 64 RPCs or a few more
_STOP_CHECK_NS = 5_000_000  # interval in ns at which the server checks whether to stop
TIMEOUT_S = 20.0  # of an operation
_PARTS = 20
"""Parts of a timeout: while this process is stopped, not more than one of them passes."""


def measure_rpc_cost(design: Design, window: int, steps: int, timeout_s: float = TIMEOUT_S) -> RpcCost | None:
    """Return the mean cost of a full RPC; None if no answer comes, as from servers that need the switch."""
    space = KeySpace(_KEYS)
    with closing(open_udp(_ANY_PORT)) as server_socket, closing(open_udp(_ANY_PORT)) as worker_socket:
        server_address, worker_address = server_socket.getsockname(), worker_socket.getsockname()
        client: BaseClient = agents_of(design).client(
            Caller(_JOB, _WORKER, _EPOCH), _N_PS, space, time.monotonic_ns, window
        )
        udp = pinned(make_udp())
        peers = [server_address, worker_address]
        wire = pinned(make_wire(worker_socket.fileno(), peers, commands=_NO_FILE, signals=_NO_FILE))

        def run_part() -> bool:
            deadline_ns = time.monotonic_ns() + int(timeout_s / _PARTS * 1e9)
            return operate(client.reference, udp, wire, deadline_ns) == ENDED

        def run_operation() -> bool:
            return any(run_part() for _ in range(_PARTS))

        with _server_thread(design, space, server_socket.fileno(), [worker_address]) as cpu_s:
            if not _run_step(client, run_operation):  # the first step is not measured
                return None
            worker_start_s, server_start_s, rpcs = time.thread_time(), cpu_s(), 0
            for _ in range(steps):
                step_rpcs = _run_step(client, run_operation)
                if not step_rpcs:
                    return None
                rpcs += step_rpcs
            worker_s, server_s = time.thread_time() - worker_start_s, cpu_s() - server_start_s
    return RpcCost(worker_us=worker_s / rpcs * 1e6, server_us=server_s / rpcs * 1e6)


def _run_step(client: BaseClient, run_operation: Callable[[], bool]) -> int:
    positions, deltas = np.arange(_KEYS), np.ones(_KEYS, np.uint32)
    client.pull(NO_ITERATION, positions)
    if not run_operation():
        return 0
    rpcs = client.rpcs_of_operation
    client.push(NO_ITERATION, positions, deltas, np.zeros(_KEYS, np.bool_))
    if not run_operation():
        return 0
    rpcs += client.rpcs_of_operation
    client.take_records()  # empty the log for the next step; its rows are not needed
    return rpcs


@contextmanager
def _server_thread(
    design: Design, space: KeySpace, fd: int, workers: list[Address]
) -> Iterator[Callable[[], float]]:
    """Run a server at a socket in a thread; yield a function that returns the thread's CPU time in s."""
    state = pinned_server(agents_of(design).server(_PS, _N_PS, space, [_JOB]))
    service, udp = pinned(make_service()), pinned(make_udp())
    stop = threading.Event()
    with closing(select.epoll()) as poll:
        poll.register(fd, select.EPOLLIN)
        sources = pinned(make_sources(poll.fileno(), workers))

        def serve_until_stopped() -> None:
            while not stop.is_set():
                serve(state, service, udp, sources, time.monotonic_ns() + _STOP_CHECK_NS)

        thread = threading.Thread(target=serve_until_stopped, daemon=True)
        thread.start()
        assert thread.ident is not None
        clock = time.pthread_getcpuclockid(thread.ident)
        try:
            yield lambda: time.clock_gettime(clock)
        finally:
            stop.set()
            thread.join()
