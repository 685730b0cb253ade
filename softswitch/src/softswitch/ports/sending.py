"""Frames on their way out: a list for each egress port, which is sent at once when the mutex is free.

Compiled code.
"""

import errno
from typing import Any

import numpy as np

from nativekit.compile import carray, compiled
from nativekit.libc import errno_location, sendmmsg
from nativekit.memory import pointer
from softswitch.ports.capture import NO_FILE, capture
from softswitch.ports.holding import is_full, keep, may_keep
from softswitch.ports.layout import DEPTH, MMSGHDR, NO_PORT, OUT, SHELF_SLOTS
from softswitch.ports.shelf import append, impair, recycle
from softswitch.v1model import PORT_NUMBERS

_MMSGHDR_BYTES = MMSGHDR.itemsize
_MSG_DONTWAIT = 0x40
_EAGAIN, _EMSGSIZE = errno.EAGAIN, errno.EMSGSIZE

Switch = Any  # a SWITCH record


@compiled
def send_queue(switch: Switch, p: int) -> None:
    """Send what is queued for a port, and drop what it does not take now, unless it holds that."""
    port = switch.ports[p]
    messages = switch.messages[p].ctypes.data
    queued = switch.queued[p]
    if port.capture[OUT] != NO_FILE:
        capture(switch, p, OUT, switch.queue[p], queued)
    done = 0
    while done < queued:
        sent = sendmmsg(port.fd, messages + done * _MMSGHDR_BYTES, queued - done, _MSG_DONTWAIT)
        if sent > 0:
            port.tx += sent
            done += sent
            continue
        reason = carray(pointer(errno_location()), 1, np.int32)[0]
        if reason == _EMSGSIZE:
            port.tx_oversize += 1
            done += 1
        elif may_keep(switch, p, switch.queue[p][done].length) and is_full(reason):
            keep(switch, p, switch.queue[p][done].base, switch.queue[p][done].length)
            done += 1
        else:
            lost = queued - done if reason == _EAGAIN else 1
            port.tx_dropped += lost
            done += lost
    switch.queued[p] = 0
    if port.impaired[OUT]:
        recycle(switch.shelf_slots[p, OUT])


@compiled
def send_all(switch: Switch) -> None:
    """Send what is queued for every port."""
    for p in range(switch.port_count):
        if switch.queued[p]:
            send_queue(switch, p)


@compiled
def leave(switch: Switch, number: int, base: int, length: int, now: int) -> None:
    """Queue an output for its port, through the port's shelf if it has one."""
    p = switch.index_of[number] if number < PORT_NUMBERS else NO_PORT
    if p == NO_PORT:
        switch.no_such_port += 1
        return
    if switch.queued[p] + 2 + SHELF_SLOTS > DEPTH:
        send_queue(switch, p)
    queue, count = switch.queue[p], switch.queued[p]
    if switch.ports[p].impaired[OUT]:
        shelf, slots = switch.shelves[p, OUT], switch.shelf_slots[p, OUT]
        switch.queued[p] = impair(shelf, slots, base, length, now, now, queue, count)
    else:
        switch.queued[p] = append(queue, count, base, length, now)
