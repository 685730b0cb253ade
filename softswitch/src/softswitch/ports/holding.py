"""Frames that an interface does not take now: each waits, and behind it the queue of its port.

A shaped interface (tbf, htb) refuses what is too much for it. A port of one lets packets go one by one, and
the next when the interface has taken the one before. So they wait in the port's queue, whose depth is what
the program sees. Compiled code.
"""

import errno
from typing import Any

import numpy as np

from nativekit.compile import carray, compiled, int64
from nativekit.libc import errno_location, memcpy, send
from nativekit.memory import pointer
from softswitch.ports.departures import queue_clock
from softswitch.queues.fifo import release
from softswitch.queues.state import NEVER, Queues

RETRY_NS = 100_000
SEND_BUFFER = 4608
"""SO_SNDBUF of such a port, which the kernel doubles: room for 4 frames of 1,500 B, or 12 small ones."""
_MSG_DONTWAIT = 0x40
_EAGAIN, _ENOBUFS = errno.EAGAIN, errno.ENOBUFS

Switch = Any  # a SWITCH record


@compiled
def is_full(reason: int) -> bool:
    """Whether an errno of sending says: not now."""
    return reason in (_EAGAIN, _ENOBUFS)


@compiled
def may_keep(switch: Switch, p: int, length: int) -> bool:
    """Whether a port keeps a frame of this length, which may be larger since its MTU was raised."""
    port = switch.ports[p]
    return bool(port.holds and not port.held_length and length <= switch.frame_bytes)


@compiled
def keep(switch: Switch, p: int, base: int, length: int) -> None:
    """Keep a frame that its port did not take."""
    port = switch.ports[p]
    memcpy(port.held, base, length)
    port.held_length = length
    switch.retry_at = min(int64(switch.retry_at), queue_clock(switch) + RETRY_NS)


@compiled
def retry(switch: Switch) -> None:
    """Try the frames that were kept, when it is time to."""
    if switch.retry_at == NEVER or queue_clock(switch) < switch.retry_at:
        return
    switch.retry_at = NEVER
    for p in range(switch.port_count):
        port = switch.ports[p]
        if port.held_length:
            if send(port.fd, port.held, port.held_length, _MSG_DONTWAIT) >= 0:
                port.tx += 1
                port.held_length = 0
            elif is_full(carray(pointer(errno_location()), 1, np.int32)[0]):
                switch.retry_at = queue_clock(switch) + RETRY_NS
            else:
                port.tx_dropped += 1
                port.held_length = 0


@compiled
def go_on(switch: Switch, queues: Queues) -> None:
    """Let ports go on that have nothing to send any more."""
    for p in range(switch.port_count):
        port = switch.ports[p]
        if port.holds and queues.ports[p].held and not port.held_length:
            release(queues, p)


@compiled
def drop_held(switch: Switch, queues: Queues) -> None:
    """Drop and count what was kept."""
    switch.retry_at = NEVER
    for p in range(switch.port_count):
        port = switch.ports[p]
        if port.held_length:
            port.tx_dropped += 1
            port.held_length = 0
    go_on(switch, queues)
