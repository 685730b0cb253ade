"""The compiled loop: wait -> take frames from the rings -> run the pipeline -> send.

A burst is what one port has waiting, 32 frames at most. It runs under the pipeline's mutex; its outputs are
queued by egress port (`sending`) and sent when the mutex is free again. A buffered pipeline's packets wait
between ingress and egress (`departures`) and go on as soon as their queues let them. Nothing here blocks but
`epoll_wait`: what an egress port does not take at once is dropped and counted, so one slow port never holds
up the others.
"""

from typing import Any

import numpy as np

from nativekit.compile import carray, compiled, int64
from nativekit.libc import (
    clock_gettime,
    epoll_wait,
    getsockopt,
    memmove,
    pthread_mutex_lock,
    pthread_mutex_unlock,
    recv,
    sched_yield,
    send,
)
from nativekit.memory import load_acquire, pointer, store_release
from softswitch.memory.output import HEAD, HEAD_BYTES, WAITING, record_bytes
from softswitch.memory.process import DEPARTS
from softswitch.native import call_process, entry_point
from softswitch.ports.capture import NO_FILE, capture
from softswitch.ports.departures import dequeue, enqueue, is_due, length_of, set_timer
from softswitch.ports.holding import drop_held, go_on, retry
from softswitch.ports.layout import (
    BURST,
    IN,
    MAX_PORTS,
    NO_PORT,
    NOTICES_LOST,
    OUT,
    OUT_BYTES,
    OUT_MARGIN,
    STOPPED,
    TIMER,
)
from softswitch.ports.ring import (
    TP_STATUS_GSO_TCP,
    TP_STATUS_KERNEL,
    TP_STATUS_USER,
    TP_STATUS_VLAN_VALID,
    TPACKET2_HDR,
    VLAN_TAG,
)
from softswitch.ports.sending import leave, send_all, send_queue
from softswitch.ports.shelf import append, clear, impair, recycle, release
from softswitch.queues.fifo import clear as clear_queues
from softswitch.queues.state import Queues

_record_bytes = compiled(record_bytes)

_EPOLLIN = 0x001
_EPOLLERR = 0x008
_MSG_DONTWAIT = 0x40
_MSG_TRUNC = 0x20
_CLOCK_REALTIME = 0  # the clock of the ring's timestamps
_SOL_SOCKET, _SO_ERROR = 1, 4

Port = Any  # a PORT record
Switch = Any  # a SWITCH record


@compiled
def now_us(switch: Switch) -> int:
    """Time since the switch's start."""
    clock = switch.clock
    clock_gettime(_CLOCK_REALTIME, clock.ctypes.data)
    us: int = (clock[0] * 1_000_000_000 + clock[1] - switch.start_ns) // 1_000
    return us


@compiled
def restore_vlan_tag(frame: int, tci: int, tpid: int) -> int:
    """Put the tag that the kernel took out back behind the MAC addresses; returns the frame's new start."""
    tagged = frame - VLAN_TAG
    memmove(tagged, frame, 12)
    tag = carray(pointer(tagged + 12), VLAN_TAG, np.uint8)
    tag[0], tag[1] = tpid >> 8, tpid & 0xFF
    tag[2], tag[3] = tci >> 8, tci & 0xFF
    return tagged


@compiled
def note_oversize(port: Port, length: int) -> None:
    """Count a frame that is larger than what the port can receive."""
    port.rx_oversize += 1
    port.largest = max(port.largest, length)


@compiled
def enter(switch: Switch, p: int, base: int, length: int, t_in: int, count: int) -> int:
    """Add an arrived frame to the burst, through the port's shelf if it has one."""
    if not switch.ports[p].impaired[IN]:
        return append(switch.burst, count, base, length, t_in)
    shelf, slots = switch.shelves[p, IN], switch.shelf_slots[p, IN]
    return impair(shelf, slots, base, length, t_in, now_us(switch), switch.burst, count)


@compiled
def take_from_ring(switch: Switch, p: int) -> int:
    """Fill the burst with what the kernel has put into the port's ring; the frames stay where they are."""
    port = switch.ports[p]
    count: int = int64(0)
    while port.head - port.tail < BURST:
        slot = port.ring + port.head % port.slots * port.slot_size
        status = load_acquire(slot)
        if status & TP_STATUS_USER == 0:
            break
        port.head += 1
        port.rx += 1
        header = carray(pointer(slot), 1, TPACKET2_HDR)[0]
        length = int64(header.tp_len)
        if header.tp_snaplen < header.tp_len or status & TP_STATUS_GSO_TCP:
            note_oversize(port, length)
            continue
        base = slot + header.tp_mac
        if status & TP_STATUS_VLAN_VALID:
            base = restore_vlan_tag(base, header.tp_vlan_tci, header.tp_vlan_tpid)
            length += VLAN_TAG
        arrival = int64(header.tp_sec) * 1_000_000_000 + int64(header.tp_nsec)
        count = enter(switch, p, base, length, (arrival - switch.start_ns) // 1_000, count)
    return count


@compiled
def give_back(port: Port) -> None:
    """Return the slots that were read to the kernel; nothing to do for the CPU port."""
    while port.tail < port.head:
        store_release(port.ring + port.tail % port.slots * port.slot_size, TP_STATUS_KERNEL)
        port.tail += 1


@compiled
def take_from_socket(switch: Switch, p: int) -> int:
    """Fill the burst with datagrams that wait at the CPU port."""
    port = switch.ports[p]
    count: int = int64(0)
    for k in range(BURST):
        base = switch.cpu_frames + k * switch.frame_bytes
        length = recv(port.fd, base, switch.frame_bytes, _MSG_DONTWAIT | _MSG_TRUNC)
        if length <= 0:
            break
        port.rx += 1
        if length > switch.frame_bytes:
            note_oversize(port, length)
            continue
        count = enter(switch, p, base, length, now_us(switch), count)
    return count


@compiled
def take(switch: Switch, p: int) -> int:
    """Fill the burst from port `p`; returns the number of frames."""
    if switch.ports[p].ring:
        return take_from_ring(switch, p)
    return take_from_socket(switch, p)


@compiled
def lock(switch: Switch) -> None:
    """Take the pipeline's mutex; a writer that waits for it goes first."""
    if load_acquire(switch.waiting):
        sched_yield()
    pthread_mutex_lock(switch.mutex)


@compiled
def notify(switch: Switch, base: int, length: int) -> None:
    """Hand over a digest or log record as the pipeline wrote it."""
    if send(switch.notice_fd, base, length, _MSG_DONTWAIT) < 0:
        switch.lost_notices += 1


@compiled
def run_pipeline(
    switch: Switch, queues: Queues, port: int, base: int, length: int, t_in: int, now: int, used: int
) -> int:
    """Run a frame, or a packet that departs, and queue its outputs; how far the output buffer is used now."""
    out = switch.out
    outputs = call_process(
        switch.process, switch.state, port, base, length, t_in, now, out + used, OUT_BYTES - used
    )
    for _ in range(outputs):
        record = carray(pointer(out + used), 1, HEAD)[0]
        length = int64(record.length)
        if record.kind < WAITING:
            leave(switch, int64(record.kind), out + used + HEAD_BYTES, length, now)
        elif record.kind == WAITING:
            enqueue(switch, queues, out + used, length)
        else:
            notify(switch, out + used, HEAD_BYTES + length)
        used += _record_bytes(length)
    return used


@compiled
def make_room(switch: Switch, used: int) -> int:
    """Send what the output buffer has where another frame's outputs might not fit; how far it is used now."""
    if used <= OUT_BYTES - OUT_MARGIN:
        return used
    pthread_mutex_unlock(switch.mutex)
    send_all(switch)
    lock(switch)
    return int64(0)


@compiled
def depart(switch: Switch, queues: Queues, used: int) -> int:
    """Run packets on that may leave their queues now, BURST at most: they may put others there."""
    for _ in range(BURST):
        record = dequeue(switch, queues)
        if not record:
            break
        used = make_room(switch, used)
        data, length = record + HEAD_BYTES, length_of(record)
        now = max(now_us(switch), int64(switch.entered))
        used = run_pipeline(switch, queues, DEPARTS, data, length, 0, now, used)
    return used


@compiled
def process_burst(switch: Switch, queues: Queues, port: int, count: int) -> None:
    """Run the burst under the mutex, then send what came out."""
    used: int = int64(0)
    lock(switch)
    for k in range(count):
        used = make_room(switch, used)
        frame = switch.burst[k]
        now = max(now_us(switch), frame.time)
        used = run_pipeline(switch, queues, port, frame.base, frame.length, frame.time, now, used)
        if switch.buffered:
            switch.entered = now
            used = depart(switch, queues, used)
    pthread_mutex_unlock(switch.mutex)
    send_all(switch)
    if switch.holds:
        go_on(switch, queues)


@compiled
def serve_queues(switch: Switch, queues: Queues) -> None:
    """Let packets go whose time has come, and have the timer tell of the next one."""
    if switch.holds:
        retry(switch)
        go_on(switch, queues)
    for _ in range(BURST):  # a port that holds lets one go in each turn
        if not is_due(switch, queues):
            break
        lock(switch)
        depart(switch, queues, 0)
        pthread_mutex_unlock(switch.mutex)
        send_all(switch)
        if not switch.holds:
            break
        go_on(switch, queues)
    if not switch.busy_poll:
        set_timer(switch, queues)


@compiled
def serve(switch: Switch, queues: Queues, p: int) -> None:
    """Take one burst from a port and process it."""
    port = switch.ports[p]
    count = take(switch, p)
    if port.capture[IN] != NO_FILE:
        capture(switch, p, IN, switch.burst, count)
    if count:
        process_burst(switch, queues, port.number, count)
    give_back(port)
    if port.impaired[IN]:
        recycle(switch.shelf_slots[p, IN])


@compiled
def release_held(switch: Switch, queues: Queues) -> bool:
    """Let frames go that have been held long enough; tells whether any are still held."""
    now = now_us(switch)
    still = 0
    for p in range(switch.port_count):
        port = switch.ports[p]
        if port.impaired[IN]:
            shelf, slots = switch.shelves[p, IN], switch.shelf_slots[p, IN]
            count = release(shelf, slots, now, 0, switch.burst, 0)
            if count:
                process_burst(switch, queues, port.number, count)
                recycle(slots)
            still += shelf.held
        if port.impaired[OUT]:
            shelf, slots = switch.shelves[p, OUT], switch.shelf_slots[p, OUT]
            switch.queued[p] = release(shelf, slots, now, 0, switch.queue[p], 0)
            send_queue(switch, p)
            still += shelf.held
    return still > 0


@compiled
def clear_error(switch: Switch, p: int) -> None:
    """Read a socket's pending error (its interface went down), so that epoll stops reporting it."""
    switch.error[1] = 4
    error = switch.error.ctypes.data
    getsockopt(switch.ports[p].fd, _SOL_SOCKET, _SO_ERROR, error, error + 4)


@entry_point
def discard(switch: Switch, queues: Queues) -> None:
    """Drop and count what waits on any port or in a queue, and what is held: no pipeline will see it."""
    for p in range(switch.port_count):
        port = switch.ports[p]
        before = port.rx - 1
        while port.rx != before:
            before = port.rx
            port.discarded += take(switch, p)
            give_back(port)
            recycle(switch.shelf_slots[p, IN])
        port.discarded += clear(switch.shelves[p, IN], switch.shelf_slots[p, IN])
        port.tx_dropped += clear(switch.shelves[p, OUT], switch.shelf_slots[p, OUT])
    clear_queues(queues)
    drop_held(switch, queues)


@entry_point
def run(switch: Switch, queues: Queues) -> int:
    """Forward until the stop event.

    Returns STOPPED; or NOTICES_LOST, or the index of a port that has just had its first frame that was too
    large: the caller tells the user and calls again.
    """
    held = switch.impaired != 0
    while True:
        if switch.buffered:
            serve_queues(switch, queues)
        timeout = 0 if switch.busy_poll else 1 if held else -1
        ready = epoll_wait(switch.epoll, switch.events.ctypes.data, MAX_PORTS + 2, timeout)
        for k in range(ready):
            event = switch.events[k]
            p: int = int64(event.data)
            if p == NO_PORT:  # the stop event
                return STOPPED
            if p == TIMER:
                continue
            if event.events & _EPOLLERR:
                clear_error(switch, p)
            if event.events & _EPOLLIN:
                silent = switch.ports[p].rx_oversize == 0
                serve(switch, queues, p)
                if silent and switch.ports[p].rx_oversize:
                    return p
        if switch.impaired:
            held = release_held(switch, queues)
        if switch.lost_notices > switch.told_notices and now_us(switch) >= switch.tell_at:
            return NOTICES_LOST
