"""The compiled forwarding loop: wait, read frames from the rings, run the pipeline, send.

A burst has the frames that wait at one port, 32 at most. It is processed under the pipeline's mutex; outputs
are collected by egress port (`sending`) and sent after the mutex is released. With a buffered pipeline,
packets wait in queues before egress (`departures`). Only `epoll_wait` blocks: a frame that its egress port
refuses is dropped and counted, so that a slow port never delays the others. A switch without queues,
impairments and pcap files passes None as `queues`. Then the code of all three is not compiled, which makes
the first start of an installation faster.
"""

import numpy as np

from nativekit.clocks import MONOTONIC, NS_PER_S, measure_offset, monotonic_time_of, read_clock
from nativekit.compile import carray, compiled, int64
from nativekit.libc import (
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
from softswitch.memory.process import DEPARTURE_PORT
from softswitch.native import call_process, entry_point
from softswitch.ports.backpressure import drop_pending, resume_departures, retry_pending
from softswitch.ports.capture import NO_FILE, capture
from softswitch.ports.checksums import finish_checksum
from softswitch.ports.departures import dequeue, enqueue, is_due, read_length, set_timer
from softswitch.ports.layout import (
    BURST,
    IN,
    MAX_EVENTS,
    NOTICES_LOST,
    OUT,
    OUT_BYTES,
    OUT_MARGIN,
    STOP_EVENT,
    STOPPED,
    TIMER,
    PortRecord,
    SwitchRecord,
)
from softswitch.ports.reorder_buffer import (
    append_frame,
    clear_buffer,
    free_leaving_slots,
    impair_frame,
    release_due_frames,
)
from softswitch.ports.sending import add_to_batch, send_all, send_batch
from softswitch.ports.sockets import (
    TP_STATUS_GSO_TCP,
    TP_STATUS_KERNEL,
    TP_STATUS_USER,
    TP_STATUS_VLAN_VALID,
    TPACKET2_HDR,
    VLAN_TAG_BYTES,
)
from softswitch.queues.fifo import clear as clear_queues
from softswitch.queues.state import Queues

_record_bytes = compiled(record_bytes)

_EPOLLIN = 0x001
_EPOLLERR = 0x008
_MSG_DONTWAIT = 0x40
_MSG_TRUNC = 0x20
_NS_PER_US = 1_000
_MACS_BYTES = 12  # destination and source, at the start of a frame
_SOL_SOCKET, _SO_ERROR = 1, 4
_INT_BYTES = 4


@compiled
def now_us(switch: SwitchRecord) -> int:
    """Return the time since the switch's start in µs."""
    elapsed_us: int = (read_clock(switch, MONOTONIC) - switch.start_ns) // _NS_PER_US
    return elapsed_us


@compiled
def arrival_us(switch: SwitchRecord, port: PortRecord, stamp_ns: int, now_ns: int) -> int:
    """Return when a frame of a ring arrived, in µs since the switch's start; a port's frames are in order."""
    port.arrived_ns = max(monotonic_time_of(switch, stamp_ns, now_ns), port.arrived_ns)
    elapsed_us: int = (port.arrived_ns - switch.start_ns) // _NS_PER_US
    return elapsed_us


@compiled
def restore_vlan_tag(frame: int, tci: int, tpid: int) -> int:
    """Insert, after the MACs, the VLAN tag that the kernel removed; return the frame's new address."""
    tagged_frame = frame - VLAN_TAG_BYTES
    memmove(tagged_frame, frame, _MACS_BYTES)
    tag = carray(pointer(tagged_frame + _MACS_BYTES), VLAN_TAG_BYTES, np.uint8)
    tag[0], tag[1] = tpid >> 8, tpid & 0xFF
    tag[2], tag[3] = tci >> 8, tci & 0xFF
    return tagged_frame


@compiled
def count_oversize(port: PortRecord, length: int) -> None:
    port.rx_oversize += 1
    port.largest_oversize = max(port.largest_oversize, length)


@compiled
def add_arrival(
    switch: SwitchRecord, queues: Queues | None, p: int, address: int, length: int, t_in: int, count: int
) -> int:
    """Add an arrived frame to the burst, through the port's reorder buffer if any; return the new count."""
    if queues is None or not switch.ports[p].impaired[IN]:
        return append_frame(switch.burst, count, address, length, t_in)
    buffer, slots = switch.reorder_buffers[p, IN], switch.reorder_slots[p, IN]
    return impair_frame(buffer, slots, address, length, t_in, now_us(switch), switch.burst, count)


@compiled
def take_frames_from_ring(switch: SwitchRecord, queues: Queues | None, p: int) -> int:
    """Fill the burst with the frames in the port's ring, without copying them; return their number."""
    port = switch.ports[p]
    now_ns = measure_offset(switch)
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
            count_oversize(port, length)
            continue
        address = slot + header.tp_mac
        finish_checksum(address, length)
        if status & TP_STATUS_VLAN_VALID:
            address = restore_vlan_tag(address, header.tp_vlan_tci, header.tp_vlan_tpid)
            length += VLAN_TAG_BYTES
        stamp_ns = int64(header.tp_sec) * NS_PER_S + int64(header.tp_nsec)
        t_in = arrival_us(switch, port, stamp_ns, now_ns)
        count = add_arrival(switch, queues, p, address, length, t_in, count)
    return count


@compiled
def return_slots(port: PortRecord) -> None:
    while port.tail < port.head:
        store_release(port.ring + port.tail % port.slots * port.slot_size, TP_STATUS_KERNEL)
        port.tail += 1


@compiled
def take_frames_from_socket(switch: SwitchRecord, queues: Queues | None, p: int) -> int:
    port = switch.ports[p]
    count: int = int64(0)
    for k in range(BURST):
        address = switch.cpu_frames + k * switch.frame_bytes
        length = recv(port.fd, address, switch.frame_bytes, _MSG_DONTWAIT | _MSG_TRUNC)
        if length <= 0:
            break
        port.rx += 1
        if length > switch.frame_bytes:
            count_oversize(port, length)
            continue
        count = add_arrival(switch, queues, p, address, length, now_us(switch), count)
    return count


@compiled
def take_frames(switch: SwitchRecord, queues: Queues | None, p: int) -> int:
    if switch.ports[p].ring:
        return take_frames_from_ring(switch, queues, p)
    return take_frames_from_socket(switch, queues, p)


@compiled
def lock_pipeline(switch: SwitchRecord) -> None:
    """Lock the pipeline's mutex; waiting writers take precedence."""
    if load_acquire(switch.waiting):
        sched_yield()
    pthread_mutex_lock(switch.mutex)


@compiled
def send_notice(switch: SwitchRecord, address: int, length: int) -> None:
    """Send a digest or log record to the control plane, as the pipeline wrote it; count it if that fails."""
    if send(switch.notice_fd, address, length, _MSG_DONTWAIT) < 0:
        switch.lost_notices += 1


@compiled
def run_pipeline(
    switch: SwitchRecord,
    queues: Queues | None,
    port: int,
    address: int,
    length: int,
    t_in: int,
    now: int,
    used_bytes: int,
) -> int:
    """Process a frame or departing packet and queue its outputs; return the output buffer's bytes in use."""
    output_buffer = switch.output_buffer
    output_count = call_process(
        switch.process,
        switch.state,
        port,
        address,
        length,
        t_in,
        now,
        output_buffer + used_bytes,
        OUT_BYTES - used_bytes,
    )
    for _ in range(output_count):
        record = carray(pointer(output_buffer + used_bytes), 1, HEAD)[0]
        length = int64(record.length)
        if record.kind < WAITING:  # the kind of a frame is its egress port
            add_to_batch(
                switch, queues, int64(record.kind), output_buffer + used_bytes + HEAD_BYTES, length, now
            )
        elif record.kind == WAITING:
            if queues is not None:
                enqueue(switch, queues, output_buffer + used_bytes, length)
        else:
            send_notice(switch, output_buffer + used_bytes, HEAD_BYTES + length)
        used_bytes += _record_bytes(length)
    return used_bytes


@compiled
def make_room(switch: SwitchRecord, queues: Queues | None, used_bytes: int) -> int:
    """Unlock, send and lock again if a frame's outputs might not fit; return the buffer's bytes in use."""
    if used_bytes <= OUT_BYTES - OUT_MARGIN:
        return used_bytes
    pthread_mutex_unlock(switch.mutex)
    send_all(switch, queues)
    lock_pipeline(switch)
    return int64(0)


@compiled
def process_departures(switch: SwitchRecord, queues: Queues, used_bytes: int) -> int:
    """Process up to BURST packets that may depart now (each may enqueue others); return the used bytes."""
    for _ in range(BURST):
        record = dequeue(switch, queues)
        if not record:
            break
        used_bytes = make_room(switch, queues, used_bytes)
        data, length = record + HEAD_BYTES, read_length(record)
        now = max(now_us(switch), switch.entered_at)
        t_in = int64(0)  # not used: the packet has entered before
        used_bytes = run_pipeline(switch, queues, int64(DEPARTURE_PORT), data, length, t_in, now, used_bytes)
    return used_bytes


@compiled
def process_burst(switch: SwitchRecord, queues: Queues | None, port: int, count: int) -> None:
    used_bytes: int = int64(0)
    lock_pipeline(switch)
    for k in range(count):
        used_bytes = make_room(switch, queues, used_bytes)
        frame = switch.burst[k]
        now = max(now_us(switch), frame.time)
        used_bytes = run_pipeline(
            switch, queues, port, frame.address, frame.length, frame.time, now, used_bytes
        )
        if queues is not None and switch.buffered:
            switch.entered_at = now
            used_bytes = process_departures(switch, queues, used_bytes)
    pthread_mutex_unlock(switch.mutex)
    send_all(switch, queues)
    if queues is not None and switch.backpressure:
        resume_departures(switch, queues)


@compiled
def serve_queues(switch: SwitchRecord, queues: Queues) -> None:
    if switch.backpressure:
        retry_pending(switch)
        resume_departures(switch, queues)
    for _ in range(BURST):  # a port with backpressure sends one packet in each iteration
        if not is_due(switch, queues):
            break
        lock_pipeline(switch)
        process_departures(switch, queues, int64(0))
        pthread_mutex_unlock(switch.mutex)
        send_all(switch, queues)
        if not switch.backpressure:
            break
        resume_departures(switch, queues)
    if not switch.busy_poll:
        set_timer(switch, queues)


@compiled
def serve_port(switch: SwitchRecord, queues: Queues | None, p: int) -> None:
    port = switch.ports[p]
    count = take_frames(switch, queues, p)
    if queues is not None and port.capture[IN] != NO_FILE:
        capture(switch, p, IN, switch.burst, count)
    if count:
        process_burst(switch, queues, port.number, count)
    return_slots(port)
    if queues is not None and port.impaired[IN]:
        free_leaving_slots(switch.reorder_slots[p, IN])


@compiled
def release_reordered(switch: SwitchRecord, queues: Queues) -> bool:
    now = now_us(switch)
    passing_frames = int64(0)
    remaining = 0
    for p in range(switch.port_count):
        port = switch.ports[p]
        if port.impaired[IN]:
            buffer, slots = switch.reorder_buffers[p, IN], switch.reorder_slots[p, IN]
            count = release_due_frames(buffer, slots, now, passing_frames, switch.burst, int64(0))
            if count:
                process_burst(switch, queues, port.number, count)
                free_leaving_slots(slots)
            remaining += buffer.held
        if port.impaired[OUT]:
            buffer, slots = switch.reorder_buffers[p, OUT], switch.reorder_slots[p, OUT]
            switch.send_batch_size[p] = release_due_frames(
                buffer, slots, now, passing_frames, switch.send_batch[p], int64(0)
            )
            send_batch(switch, queues, p)
            remaining += buffer.held
    return remaining > 0


@compiled
def clear_error(switch: SwitchRecord, p: int) -> None:
    """Clear a socket's pending error (its interface went down), so that epoll stops reporting it."""
    switch.error[1] = _INT_BYTES
    error = switch.error.ctypes.data
    getsockopt(switch.ports[p].receive_fd, _SOL_SOCKET, _SO_ERROR, error, error + _INT_BYTES)


@entry_point
def discard_frames(switch: SwitchRecord, queues: Queues | None) -> None:
    for p in range(switch.port_count):
        port = switch.ports[p]
        rx_before = port.rx - 1  # so that the loop is entered
        while port.rx != rx_before:
            rx_before = port.rx
            port.discarded += take_frames(switch, queues, p)
            return_slots(port)
            if queues is not None:
                free_leaving_slots(switch.reorder_slots[p, IN])
        if queues is not None:
            port.discarded += clear_buffer(switch.reorder_buffers[p, IN], switch.reorder_slots[p, IN])
            port.tx_dropped += clear_buffer(switch.reorder_buffers[p, OUT], switch.reorder_slots[p, OUT])
    if queues is not None:
        clear_queues(queues)
        drop_pending(switch, queues)


@entry_point
def run(switch: SwitchRecord, queues: Queues | None) -> int:
    """Forward until the stop event.

    Return STOPPED, or a reason for a warning, after which the caller calls again: NOTICES_LOST, or the index
    of a port that has received its first frame that was too large.
    """
    has_held_frames = switch.impaired != 0
    while True:
        if queues is not None and switch.buffered:
            serve_queues(switch, queues)
        timeout_ms = 0 if switch.busy_poll else 1 if has_held_frames else -1  # -1: without end
        ready = epoll_wait(switch.epoll, switch.events.ctypes.data, MAX_EVENTS, timeout_ms)
        for k in range(ready):
            event = switch.events[k]
            p: int = int64(event.data)
            if p == STOP_EVENT:
                return STOPPED
            if p == TIMER:
                continue
            if event.events & _EPOLLERR:
                clear_error(switch, p)
            if event.events & _EPOLLIN:
                had_no_oversize = switch.ports[p].rx_oversize == 0
                serve_port(switch, queues, p)
                if had_no_oversize and switch.ports[p].rx_oversize:
                    return p
        if queues is not None and switch.impaired:
            has_held_frames = release_reordered(switch, queues)
        if switch.lost_notices > switch.reported_notices and now_us(switch) >= switch.report_at:
            return NOTICES_LOST
