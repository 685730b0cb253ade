"""A worker's compiled loop: from the state machine to the socket and back, until Python is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import loop
from foundation.protocol.rpc import BUFFER_BYTES
from hotline_agents.interface import NOTHING, WORKER_OPS, WorkerState
from hotline_agents.udp import (
    BURST,
    NAME_BYTES,
    Udp,
    arrival,
    flush,
    length_of,
    queue,
    socket_names,
    take,
)
from hotline_agents.worker.ops import worker_states
from nativekit.clocks import MONOTONIC, NS_PER_S, measure_offset, read_clock
from nativekit.compile import compiled, int64
from nativekit.libc import ppoll
from nativekit.records import Ints, Octets, one_record
from nativekit.reference import as_ref

octets, peer, receive = WORKER_OPS.octets, WORKER_OPS.peer, WORKER_OPS.receive
transmit, wake = WORKER_OPS.transmit, WORKER_OPS.wake

ENDED, TIMED_OUT, LOG_FULL, INTERRUPTED = 0, 1, 2, 3
"""Why the loop returned: operation ended; deadline reached; log full; a signal or command came."""
SEND_BURST = 8
"""Maximum size of a burst: small, so that answers wait briefly and requests leave soon after taking `t0`."""
_CHECK_NS = 1_000_000  # interval, in ns, of checks for signals and commands while the loop is busy
_POLLIN = 1  # Linux, <poll.h>
_N_POLLFDS = 3
_COMMANDS, _SIGNALS = 3, 5  # indexes of the second words of their struct pollfd


class _WireState:
    """Arguments of ppoll, the socket, and the time of the last check, in ns."""

    pollfds: Annotated[NDArray[np.int32], 2 * _N_POLLFDS]
    """Three struct pollfd: socket, commands, signals."""
    timeout: Annotated[Ints, 2]  # a struct timespec
    fd: int
    last_check: int


class Wire(NamedTuple):
    state: _WireState
    peers: Octets  # uint8[peers, NAME_BYTES]: a struct sockaddr_in each


def make_wire(fd: int, peers: Sequence[tuple[str, int]], commands: int, signals: int) -> Wire:
    """Make the wire of a non-blocking socket; `commands` and `signals` end the loop when readable."""
    state = one_record(_WireState)
    state.fd = fd
    state.pollfds[::2] = fd, commands, signals
    return Wire(state, socket_names(peers))


@loop(worker_states)
def operate(calls: WorkerState, udp: Udp, wire: Wire, deadline_ns: int) -> int:
    """Run the current operation, if any, until it ends or `deadline_ns` comes; return the reason."""
    calls, udp, wire = as_ref(calls), as_ref(udp), as_ref(wire)
    header = calls.header
    is_running = header.pending != 0
    while True:
        if header.rows + BURST > len(calls.log):
            return LOG_FULL
        now = read_clock(udp.state, MONOTONIC)
        wake(calls, now)
        n_datagrams = send_burst(calls, udp, wire) + receive_burst(calls, udp, wire)
        if is_running and header.pending == 0:
            return ENDED
        if now >= deadline_ns:
            return TIMED_OUT
        if n_datagrams == 0:
            if wait(wire, min(header.due, deadline_ns) - read_clock(udp.state, MONOTONIC)):
                return INTERRUPTED
        elif now - wire.state.last_check >= _CHECK_NS:
            wire.state.last_check = now
            if wait(wire, 0):
                return INTERRUPTED


@compiled
def send_burst(calls: WorkerState, udp: Udp, wire: Wire) -> int:
    datagrams, names = int64(calls.sent.ctypes.data), int64(wire.peers.ctypes.data)
    n = 0
    while n < SEND_BURST:
        s = transmit(calls, read_clock(udp.state, MONOTONIC))
        if s == NOTHING:
            break
        queue(udp, datagrams + s * BUFFER_BYTES, octets(calls, s), names + peer(calls, s) * NAME_BYTES)
        n += 1
    if n:
        flush(udp, wire.state.fd)
    return n


@compiled
def receive_burst(calls: WorkerState, udp: Udp, wire: Wire) -> int:
    n = take(udp, wire.state.fd, BURST)
    if n:
        read_ns = measure_offset(udp.state)
        for k in range(n):
            row = receive(calls, udp.inbox[k], length_of(udp, k), arrival(udp, k, read_ns), read_ns)
            handled_ns = read_clock(udp.state, MONOTONIC)
            if row != NOTHING:
                calls.log[row].w_proc = handled_ns - read_ns
            read_ns = handled_ns
    return n


@compiled
def wait(wire: Wire, timeout_ns: int) -> bool:
    """Sleep until a datagram comes, at most `timeout_ns`; return whether a signal or command came."""
    state = wire.state
    pollfds = state.pollfds
    for k in range(_N_POLLFDS):
        pollfds[2 * k + 1] = _POLLIN
    timeout_ns = max(timeout_ns, 0)
    state.timeout[0], state.timeout[1] = timeout_ns // NS_PER_S, timeout_ns % NS_PER_S
    ready = int64(ppoll(pollfds.ctypes.data, _N_POLLFDS, state.timeout.ctypes.data, 0))
    # The second word of a struct pollfd has `events`, and `revents` in its upper half.
    return ready < 0 or pollfds[_COMMANDS] >> 16 != 0 or pollfds[_SIGNALS] >> 16 != 0
