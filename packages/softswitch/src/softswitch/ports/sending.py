"""Send batches: outgoing frames of each egress port, sent after the mutex is released. Compiled code.

`queues` is None in a switch without queues, impairments and pcap files, as in `forwarding`.
"""

import errno

import numpy as np

from nativekit.compile import carray, compiled
from nativekit.libc import MMSGHDR, errno_location, sendmmsg
from nativekit.memory import pointer
from softswitch.ports.backpressure import can_store_pending, is_buffer_full, store_pending
from softswitch.ports.capture import NO_FILE, capture
from softswitch.ports.layout import MAX_BATCH, NO_PORT, OUT, REORDER_SLOTS, SwitchRecord
from softswitch.ports.reorder_buffer import append_frame, free_leaving_slots, impair_frame
from softswitch.queues.state import Queues
from softswitch.v1model import PORT_NUMBERS

_MMSGHDR_BYTES = MMSGHDR.itemsize
_MSG_DONTWAIT = 0x40
_EAGAIN, _EMSGSIZE = errno.EAGAIN, errno.EMSGSIZE


@compiled
def send_batch(switch: SwitchRecord, queues: Queues | None, p: int) -> None:
    """Send the frames of a port's batch; drop and count refused frames, or store one (`backpressure`)."""
    port = switch.ports[p]
    messages = switch.messages[p].ctypes.data
    frame_count = switch.send_batch_size[p]
    if queues is not None and port.capture[OUT] != NO_FILE:
        capture(switch, p, OUT, switch.send_batch[p], frame_count)
    next_index = 0
    while next_index < frame_count:
        sent_count = sendmmsg(
            port.fd, messages + next_index * _MMSGHDR_BYTES, frame_count - next_index, _MSG_DONTWAIT
        )
        if sent_count > 0:
            port.tx += sent_count
            next_index += sent_count
            continue
        error = carray(pointer(errno_location()), 1, np.int32)[0]  # errno
        if error == _EMSGSIZE:
            port.tx_oversize += 1
            next_index += 1
        elif (
            queues is not None
            and can_store_pending(switch, p, switch.send_batch[p][next_index].length)
            and is_buffer_full(error)
        ):
            store_pending(
                switch, p, switch.send_batch[p][next_index].address, switch.send_batch[p][next_index].length
            )
            next_index += 1
        else:
            # A full socket buffer takes no frame of the batch; another error may be that of one frame.
            dropped_count = frame_count - next_index if error == _EAGAIN else 1
            port.tx_dropped += dropped_count
            next_index += dropped_count
    switch.send_batch_size[p] = 0
    if queues is not None and port.impaired[OUT]:
        free_leaving_slots(switch.reorder_slots[p, OUT])


@compiled
def send_all(switch: SwitchRecord, queues: Queues | None) -> None:
    for p in range(switch.port_count):
        if switch.send_batch_size[p]:
            send_batch(switch, queues, p)


@compiled
def add_to_batch(
    switch: SwitchRecord, queues: Queues | None, number: int, address: int, length: int, now: int
) -> None:
    p = switch.index_of[number] if number < PORT_NUMBERS else NO_PORT
    if p == NO_PORT:
        switch.no_such_port += 1
        return
    if switch.send_batch_size[p] + 2 + REORDER_SLOTS > MAX_BATCH:  # as many as `impair_frame` appends
        send_batch(switch, queues, p)
    batch, count = switch.send_batch[p], switch.send_batch_size[p]
    if queues is not None and switch.ports[p].impaired[OUT]:
        buffer, slots = switch.reorder_buffers[p, OUT], switch.reorder_slots[p, OUT]
        switch.send_batch_size[p] = impair_frame(buffer, slots, address, length, now, now, batch, count)
    else:
        switch.send_batch_size[p] = append_frame(batch, count, address, length, now)
