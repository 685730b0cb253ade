"""The agents' state machines alone, in this process: CPU time of an RPC or an operation, without sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from foundation.compiled import entry_point
from foundation.optimisers import TableOptimiser, parse
from foundation.protocol.codec import Caller
from foundation.protocol.header import KEY_BYTES, WINDOW, Op, lanes_of_dim
from foundation.protocol.rows import RowRange
from foundation.protocol.rpc import BUFFER_BYTES, rpcs
from hosts.keys import KeySpace
from hotline_agents.hotset.ps.rpc import handle
from hotline_agents.hotset.ps.state import HotsetServer, make_server
from hotline_agents.hotset.worker.answers import end_call
from hotline_agents.hotset.worker.requests import start, transmit
from hotline_agents.hotset.worker.state import Calls, make_calls
from hotline_agents.interface import NOTHING
from hotline_agents.ps.compiled_loop import prefetch_next_datagrams
from hotline_agents.ps.share import cells_of_row, table_bits
from hotline_agents.ps.values import CELL
from hotline_agents.udp import BURST, Udp, make_udp
from nativekit.bits import swap32
from nativekit.clocks import THREAD_CPU, read_clock
from nativekit.compile import int64
from nativekit.libc import memcpy
from nativekit.reference import as_ref
from switch_bench.errors import BenchError
from tools.bench.requests import EPOCH, FIRST_WORKER, JOB, Requests

_REPEATS = 9
_SCALE = 2.0**20
_OPERATIONS = 50
_MAX_GAP = 1 << 36  # between two hashed keys


def bytes_needed(parameters: int, hashed: bool, dim: int = 1) -> int:
    """Return the memory of a server's rows, and of its keys if they are hashed."""
    row_bytes = CELL.itemsize * cells_of_row(dim)
    if not hashed:
        return row_bytes * parameters
    places = 1 << table_bits(parameters)
    return (row_bytes + KEY_BYTES) * places + KEY_BYTES * parameters


def space_of(parameters: int, hashed: bool, dim: int = 1) -> KeySpace:
    rows = (RowRange(0, dim),)
    if not hashed:
        return KeySpace(parameters, None, rows)
    max_gap = min(_MAX_GAP, 2**63 // parameters)
    gaps = np.random.default_rng(1).integers(1, max_gap, parameters, dtype=np.uint64)
    return KeySpace(parameters, np.cumsum(gaps, out=gaps), rows)


def server_of(space: KeySpace, optimiser: str | None = None) -> HotsetServer:
    tables = [] if optimiser is None else [TableOptimiser(first=0, scale=_SCALE, optimiser=parse(optimiser))]
    server = make_server(ps=0, n_ps=1, space=space, jobs=[JOB], tables=tables)
    # Allocate the pages now, and not while the time is measured: new cells are 0.
    server.cells["word"][0, : server.share.header.outside_cell] = 0
    return server


def available_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def us_per_rpc(server: HotsetServer, requests: Requests) -> list[float]:
    """Return the CPU time of `handle` per RPC in µs, for each repeat; every request must be answered."""
    udp, inbox, times_us = make_udp(), rpcs(BURST), []
    count = len(requests.rpcs)
    for _ in range(1 + _REPEATS):  # the first warms up
        first = int(server.jobs[0].rpcs)  # sequence numbers continue those of the previous repeat
        server.header.n_connection_records = 0  # empty the connection log, which would fill up
        answered, ns = handle_all(server, requests.rpcs, requests.octets, inbox, rpcs(1), first, udp)
        if answered != count:
            raise BenchError(f"{answered} of {count} RPCs were answered")
        times_us.append(ns / count / 1e3)
    return times_us[1:]


@entry_point
def handle_all(
    server: HotsetServer, requests: Any, octets: int, inbox: Any, answers: Any, first: int, udp: Udp
) -> tuple[int, int]:
    """Handle requests from number `first` on; return how many were answered, and the CPU time in ns."""
    # Requests are copied to the inbox in bursts, so they are in the CPU's cache as after recvmmsg. The
    # parameters' values are not, unless the loop has prefetched them.
    server, requests, inbox, udp = as_ref(server), as_ref(requests), as_ref(inbox), as_ref(udp)
    answered, ns, done = int64(0), int64(0), int64(0)
    while done < len(requests):
        n = min(BURST, len(requests) - done)
        memcpy(inbox.ctypes.data, requests.ctypes.data + done * BUFFER_BYTES, n * BUFFER_BYTES)
        for k in range(n):
            # The first turn of a slot is 1.
            inbox[k].seq = swap32(WINDOW + first + done + k)
        begin = read_clock(udp.state, THREAD_CPU)
        for k in range(n):
            prefetch_next_datagrams(server, inbox, k, n)
            # Any number does as time of arrival, which is only logged.
            answered += handle(server, inbox[k], octets, done, answers[0]) > 0
        ns += read_clock(udp.state, THREAD_CPU) - begin
        done += n
    return answered, ns


def us_per_operation(op: Op, parameters: int, lanes: int, dim: int = 1) -> list[float]:
    """Return the CPU time in µs to hash, pack and encode an operation's RPCs for one PS, with cold keys.

    An operation has `lanes` rows of `dim` values.
    """
    space = space_of(parameters, hashed=False, dim=dim)
    calls = make_calls(Caller(JOB, FIRST_WORKER, EPOCH), n_ps=1, space=space, max_keys=lanes)
    udp, batches, times_us = make_udp(), batches_of(parameters, lanes), []
    for _ in range(1 + _REPEATS):  # the first warms up
        issued, ns = issue_all(calls, op, batches, udp)
        expected = len(batches) * -(-lanes // lanes_of_dim(dim))  # rounded up
        if issued != expected:
            raise BenchError(f"{issued} RPCs were issued, not {expected}")
        times_us.append(ns / len(batches) / 1e3)
    return times_us[1:]


def batches_of(parameters: int, lanes: int) -> Any:
    """Return distinct parameters of a few operations, ascending in each: int64[operations, lanes]."""
    rng = np.random.default_rng(1)
    positions = [np.sort(rng.choice(parameters, lanes, replace=False)) for _ in range(_OPERATIONS)]
    return np.array(positions, np.int64)


@entry_point
def issue_all(calls: Calls, op: int, batches: Any, udp: Udp) -> tuple[int, int]:
    """Issue an operation for each batch, ending each RPC at once; return their number and CPU time in ns."""
    calls, udp = as_ref(calls), as_ref(udp)
    begin, issued = read_clock(udp.state, THREAD_CPU), int64(0)
    for operation in range(len(batches)):
        for i in range(batches.shape[1]):
            calls.positions[i] = batches[operation, i]
        start(calls, op, operation, batches.shape[1])
        while True:
            slot = transmit(calls, begin)
            if slot == NOTHING:
                break
            end_call(calls, calls.slots[slot])
            issued += 1
        calls.header.pending = 0  # the lanes of RPCs that end without an answer stay pending
    return issued, read_clock(udp.state, THREAD_CPU) - begin
