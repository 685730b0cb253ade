"""Backpressure of shaped interfaces: a frame that an interface refuses waits, and its port's queue with it.

An interface with a shaper (tbf, htb) refuses frames beyond its rate. Its port sends packets one by one, each
after the interface has accepted the previous one. So packets wait in the port's queue, whose depth the
program sees. Compiled code.
"""

import errno

import numpy as np

from nativekit.clocks import MONOTONIC, read_clock
from nativekit.compile import carray, compiled
from nativekit.libc import errno_location, memcpy, send
from nativekit.memory import pointer
from softswitch.ports.layout import SwitchRecord
from softswitch.queues.fifo import allow_departures
from softswitch.queues.state import NEVER, Queues

RETRY_NS = 100_000  # until a refused frame is sent again
SEND_BUFFER_BYTES = 4608
"""Small SO_SNDBUF, in bytes. The kernel doubles it: room for 4 frames of 1,500 B, or 12 small ones."""
_MSG_DONTWAIT = 0x40
_EAGAIN, _ENOBUFS = errno.EAGAIN, errno.ENOBUFS


@compiled
def is_buffer_full(error: int) -> bool:
    return error in (_EAGAIN, _ENOBUFS)


@compiled
def can_store_pending(switch: SwitchRecord, p: int, length: int) -> bool:
    """Return whether a port can store a refused frame; a frame may be too large after the MTU was raised."""
    port = switch.ports[p]
    return bool(port.backpressure and not port.pending_length and length <= switch.frame_bytes)


@compiled
def store_pending(switch: SwitchRecord, p: int, address: int, length: int) -> None:
    port = switch.ports[p]
    memcpy(port.pending_frame, address, length)
    port.pending_length = length
    switch.retry_at = min(switch.retry_at, read_clock(switch, MONOTONIC) + RETRY_NS)


@compiled
def retry_pending(switch: SwitchRecord) -> None:
    if switch.retry_at == NEVER or read_clock(switch, MONOTONIC) < switch.retry_at:
        return
    switch.retry_at = NEVER
    for p in range(switch.port_count):
        port = switch.ports[p]
        if port.pending_length:
            if send(port.fd, port.pending_frame, port.pending_length, _MSG_DONTWAIT) >= 0:
                port.tx += 1
                port.pending_length = 0
            elif is_buffer_full(carray(pointer(errno_location()), 1, np.int32)[0]):  # errno
                switch.retry_at = read_clock(switch, MONOTONIC) + RETRY_NS
            else:
                port.tx_dropped += 1
                port.pending_length = 0


@compiled
def resume_departures(switch: SwitchRecord, queues: Queues) -> None:
    for p in range(switch.port_count):
        port = switch.ports[p]
        if port.backpressure and queues.ports[p].suspended and not port.pending_length:
            allow_departures(queues, p)


@compiled
def drop_pending(switch: SwitchRecord, queues: Queues) -> None:
    switch.retry_at = NEVER
    for p in range(switch.port_count):
        port = switch.ports[p]
        if port.pending_length:
            port.tx_dropped += 1
            port.pending_length = 0
    resume_departures(switch, queues)
