"""The echo server that agents are compared with: recvmmsg, sendmmsg, answers as long as an agent's."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from foundation.compiled import entry_point
from foundation.protocol.rpc import BUFFER_BYTES
from hosts.sockets import Address, open_udp
from hotline_agents.udp import BURST, Udp, flush, make_udp, name_of, queue, take
from hotline_agents.worker.compiled_loop import Wire, make_wire, wait
from nativekit.compile import int64
from nativekit.records import record, records
from nativekit.reference import as_ref
from switch_bench.processes import pinned, thread_cpu_seconds
from tools.bench.callers import NO_FD

_WAIT_NS = 1_000_000_000
_ECHO = record("octets")  # bytes of each answer


class Echo:
    def __init__(self, thread: threading.Thread, state: Any) -> None:
        self._thread = thread
        self._state = state

    def answer_with(self, octets: int) -> None:
        self._state.octets = octets

    def cpu_seconds(self) -> float:
        return thread_cpu_seconds(self._thread.native_id or 0)


@contextmanager
def echo_server(address: Address, core: int) -> Iterator[Echo]:
    state, stop = records(1, _ECHO)[0], os.eventfd(0, os.EFD_CLOEXEC)
    try:
        with closing(open_udp(address)) as sock:
            udp, wire = make_udp(), make_wire(sock.fileno(), [], stop, NO_FD)
            # This call ends at once. It compiles the loop, or loads it from the cache.
            os.eventfd_write(stop, 1)
            echo(state, udp, wire)
            os.eventfd_read(stop)
            thread = threading.Thread(target=echo, args=(state, udp, wire))
            with pinned({core}):
                thread.start()
            try:
                yield Echo(thread, state)
            finally:
                os.eventfd_write(stop, 1)
                thread.join()
    finally:
        os.close(stop)


@entry_point
def echo(state: Any, udp: Udp, wire: Wire) -> None:
    udp, wire = as_ref(udp), as_ref(wire)
    fd, inbox = int64(wire.state.fd), int64(udp.inbox.ctypes.data)
    while True:
        received = take(udp, fd, BURST)
        for index in range(received):
            queue(udp, inbox + index * BUFFER_BYTES, int64(state.octets), name_of(udp, index))
        if received:
            flush(udp, fd)
        elif wait(wire, _WAIT_NS):  # `stop` was written
            return
