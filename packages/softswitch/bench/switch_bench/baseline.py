"""Baselines of the switch: loops that do only the work that moving frames from ring to ring needs.

`C_LOOP` is what an engineer would write in C for that work alone (numba's machine code is LLVM's, as clang's
is): wait, take the frames in the ring, send them without copying. `PORT_LOOP` is the switch's own loop around
a packet function that only copies. Both read a frame's egress port from the frame.
"""

import ctypes
import os
import select
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from typing import Any

import numpy as np
from numba import cfunc

from nativekit.compile import carray, compiled, int64
from nativekit.libc import EPOLL_EVENT, MMSGHDR, epoll_wait, memcpy, sendmmsg
from nativekit.memory import load_acquire, pointer, store_release
from softswitch.memory.output import HEAD_BYTES
from softswitch.native import PROCESS_SIGNATURE, entry_point
from softswitch.ports.epoll import watch
from softswitch.ports.layout import BURST
from softswitch.ports.loop import PortLoop
from softswitch.ports.sockets import (
    TP_STATUS_KERNEL,
    TP_STATUS_USER,
    TPACKET2_HDR,
    PortSocket,
    ring_bytes_per_port,
)
from switch_bench.network import switch_interface
from switch_bench.processes import pinned

C_LOOP = "C loop"
PORT_LOOP = "port loop"

_MSG_DONTWAIT = 0x40
_NO_TIMEOUT = -1
_MAX_PORTS = 65  # 64 ports, and number 0 for the stop event
_MUTEX_BYTES = 64  # at least sizeof(pthread_mutex_t)
_VECTOR = np.dtype([("base", "i8"), ("length", "i8")])
_PORT = np.dtype(
    [
        ("fd", "i8"),  # of the socket that sends
        ("ring", "i8"),  # address of the slots
        ("slots", "i8"),  # number of slots
        ("slot_size", "i8"),
        ("head", "i8"),  # frames received so far
        ("queued_frames", "i8"),  # to be sent by `flush`
        ("vectors", _VECTOR, (BURST,)),
        ("messages", MMSGHDR, (BURST,)),
    ]
)
_LOOP = np.dtype(
    [
        ("epoll", "i8"),
        ("egress_at", "i8"),  # byte offset of the egress port in a frame
        ("max_port", "i8"),
        ("ports", _PORT, (_MAX_PORTS,)),  # by port number, the data of an event; 0 is the stop event
        ("events", EPOLL_EVENT, (_MAX_PORTS,)),
    ]
)
Loop = Any  # a _LOOP record
Port = Any  # a _PORT record


@compiled
def flush(port: Port) -> None:
    """Send the queued frames; frames that the interface does not accept are lost."""
    sendmmsg(port.fd, port.messages.ctypes.data, port.queued_frames, _MSG_DONTWAIT)
    port.queued_frames = 0


@compiled
def move_burst(loop: Loop, port: Port) -> None:
    """Send the frames that wait in a port's ring, at most `BURST`, and return their slots to the kernel."""
    count = 0
    while count < BURST:
        slot = port.ring + (port.head + count) % port.slots * port.slot_size
        if load_acquire(slot) & TP_STATUS_USER == 0:
            break
        header = carray(pointer(slot), 1, TPACKET2_HDR)[0]
        frame = slot + header.tp_mac
        egress = carray(pointer(frame + loop.egress_at), 2, np.uint8)
        out = loop.ports[int64(egress[0]) << 8 | egress[1]]
        vector = out.vectors[out.queued_frames]
        vector.base, vector.length = frame, header.tp_snaplen
        out.queued_frames += 1
        count += 1
    for number in range(1, loop.max_port + 1):
        if loop.ports[number].queued_frames:
            flush(loop.ports[number])
    # The slots are returned only now, since `flush` reads the frames from them.
    for _ in range(count):
        store_release(port.ring + port.head % port.slots * port.slot_size, TP_STATUS_KERNEL)
        port.head += 1


@entry_point
def move(loop: Loop) -> None:
    while True:
        ready = epoll_wait(loop.epoll, loop.events.ctypes.data, _MAX_PORTS, _NO_TIMEOUT)
        for k in range(ready):
            if loop.events[k].data == 0:
                return
            move_burst(loop, loop.ports[loop.events[k].data])


@contextmanager
def c_loop(ports: Mapping[int, str], egress_at: int, core: int) -> Iterator[None]:
    """Move frames between interfaces by port number, on one core, until the block ends."""
    loop = np.zeros(1, _LOOP)[0]
    loop["egress_at"], loop["max_port"] = egress_at, max(ports)
    with ExitStack() as stack:
        epoll = stack.enter_context(select.epoll())
        stop = os.eventfd(0, os.EFD_CLOEXEC)
        stack.callback(os.close, stop)
        sockets = {
            number: stack.enter_context(closing(PortSocket(number, name, ring_bytes_per_port(len(ports)))))
            for number, name in ports.items()
        }
        loop["epoll"] = epoll.fileno()
        for number, packet_socket in sockets.items():
            _fill(loop["ports"][number], packet_socket)
            watch(epoll.fileno(), packet_socket.receiver.fileno(), number)
        watch(epoll.fileno(), stop, 0)
        # A call that the stop event ends at once compiles `move`, or loads it from the cache.
        os.eventfd_write(stop, 1)
        move(loop)
        os.eventfd_read(stop)
        thread = threading.Thread(target=move, args=(loop,))
        with pinned({core}):
            thread.start()
        try:
            yield
        finally:
            os.eventfd_write(stop, 1)
            thread.join()


def _fill(port: Port, packet_socket: PortSocket) -> None:
    port["fd"], port["ring"] = packet_socket.sender.fileno(), packet_socket.address
    port["slots"], port["slot_size"] = packet_socket.slots, packet_socket.slot_size
    port["messages"]["msg_iov"] = port["vectors"].ctypes.data + _VECTOR.itemsize * np.arange(BURST)
    port["messages"]["msg_iovlen"] = 1


def _copy(
    egress_at: int, port: int, frame: int, length: int, t_in: int, now: int, out: int, capacity: int
) -> int:
    egress = carray(pointer(frame + egress_at), 2, np.uint8)
    record = carray(pointer(out), 2, np.uint32)  # the head of an output record: port and length
    record[0], record[1] = np.uint32(egress[0]) << np.uint32(8) | np.uint32(egress[1]), length
    memcpy(out + HEAD_BYTES, frame, int64(length))
    return 1  # output record


@cache
def _copy_in_machine_code() -> Any:
    """Compile at the first use, because tests and other benches import this module."""
    return cfunc(PROCESS_SIGNATURE)(_copy)


class _Copier:
    """A pipeline without P4, whose state address is the offset of the egress port in a frame."""

    queue_record_bytes = 0

    def __init__(self, egress_at: int) -> None:
        self._lock = ctypes.create_string_buffer(_MUTEX_BYTES)  # all zeros: PTHREAD_MUTEX_INITIALIZER
        self._waiting = ctypes.c_uint32(0)
        self.process_address = int(_copy_in_machine_code().address or 0)
        self.state_address = egress_at
        self.mutex_address = ctypes.addressof(self._lock)
        self.waiting_address = ctypes.addressof(self._waiting)


@contextmanager
def port_loop(ports: Mapping[int, str], egress_at: int, core: int) -> Iterator[None]:
    """Run the switch's own loop without P4, on one core, until the block ends."""
    with PortLoop(ports) as loop:
        with pinned({core}):
            loop.start(_Copier(egress_at))
        yield


def interfaces(ports: range) -> dict[int, str]:
    return {port: switch_interface(port) for port in ports}
