"""Memory of the forwarding loop: one record that Python fills in and compiled code works on.

Compiled code uses the dtypes; the classes declare the same fields for type checkers (`nativekit.records`).
All addresses are addresses in this process.
"""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from nativekit.libc import EPOLL_EVENT, MMSGHDR
from nativekit.records import Ints, Records, RecordTable, dtype_of
from softswitch.v1model import PORT_NUMBERS

REORDER_SLOTS = 16
"""Frames that one reorder buffer can hold; while it is full, frames pass in order."""

BURST = 32
"""Maximum number of frames that are received from one port before the next port is served."""
MAX_BATCH = 128
"""Maximum frames in an egress port's send batch, and in an ingress port's burst with its duplicates."""

OUT_BYTES = 1 << 21  # size of the output buffer
OUT_MARGIN = 1 << 20
"""Bytes of the output buffer that are free before each frame; with fewer, the burst is sent first."""

MAX_PORTS = 65
"""64 interfaces and the CPU port."""
MAX_EVENTS = MAX_PORTS + 2  # the stop event and the timer, too

STOPPED = -1
NOTICES_LOST = -2
"""Return values of the loop that are not the index of a port."""

NO_PORT = -1
STOP_EVENT, TIMER = -1, -2  # what epoll reports instead of the index of a port
IN, OUT = 0, 1  # directions of a port


class FrameRecord:
    """Address, length and arrival time of a frame. The first two fields are a struct iovec."""

    address: int
    length: int
    time: int  # time of arrival, µs since start


class PortRecord:
    number: int
    fd: int  # of the socket that sends
    receive_fd: int  # of the socket that receives; the CPU port has one for both
    ring: int  # address of the first slot; 0 for the CPU port, which has no ring
    slots: int  # number of slots of the ring
    slot_size: int  # bytes
    head: int  # next slot to read
    tail: int  # next slot to return to the kernel
    arrived_ns: int  # CLOCK_MONOTONIC at the arrival of the last frame of the ring
    impaired: Annotated[Ints, 2]  # whether there is a reorder buffer, by direction
    capture: Annotated[Ints, 2]  # descriptor of the pcap file by direction, or `capture.NO_FILE`
    backpressure: int
    """Whether a frame that the interface refuses waits until it is accepted (`ports.backpressure`)."""
    pending_frame: int  # address of the memory for the frame that waits
    pending_length: int  # bytes of the frame that waits; 0 if no frame waits
    rx: int  # frames
    tx: int  # frames
    discarded: int  # frames received while no pipeline ran
    tx_dropped: int  # frames, as those below (`report.PortCounters`)
    rx_oversize: int
    tx_oversize: int
    largest_oversize: int  # length of the largest oversize frame received, bytes


class EpollEvent:
    """The fields of EPOLL_EVENT; `data` is the index of a port, STOP_EVENT or TIMER."""

    events: int
    data: int


FREE, HELD, LEAVING = 0, 1, 2  # states of a slot of a reorder buffer


class ReorderBuffer:
    loss: float
    duplicate: float
    reorder: float
    random: np.uint64  # state of the generator
    held: int  # frames in the buffer now
    lost: int
    duplicated: int
    reordered: int


class ReorderSlot:
    state: int  # FREE, HELD or LEAVING
    address: int
    length: int
    time: int  # time of arrival, µs since start
    passes: int  # later frames that still have to pass
    deadline: int  # time at which the frame leaves in any case, µs since start


FRAME, PORT = dtype_of(FrameRecord), dtype_of(PortRecord)
REORDER_BUFFER, REORDER_SLOT = dtype_of(ReorderBuffer), dtype_of(ReorderSlot)


class SwitchRecord:
    """The memory that the loop works on. A port's index is its position in `ports`."""

    epoll: int  # descriptor
    busy_poll: int
    impaired: int  # whether any port has an impairment
    start_ns: int  # CLOCK_MONOTONIC at the switch's start
    process: int  # address of the pipeline's packet function
    state: int  # address of the pipeline's state
    mutex: int  # address of its pthread_mutex_t
    waiting: int  # address of the number of threads that wait for the mutex
    output_buffer: int  # address of OUT_BYTES for the outputs of a burst
    cpu_frames: int  # address of BURST * frame_bytes for frames from the CPU port
    frame_bytes: int  # maximum length of a frame
    no_such_port: int  # frames sent to ports that do not exist
    buffered: int  # whether the pipeline has queues before egress
    entered_at: int  # arrival of the last frame in ingress, µs since start; no egress is earlier
    records: int  # address of the packets in the queues, `record_bytes` for each slot
    record_bytes: int
    timer: int  # descriptor of a timerfd
    alarm: int  # time that the timer is set to, ns of the queues' clock
    backpressure: int  # whether any port has backpressure
    retry_at: int
    """Time at which pending frames are sent again, ns of the queues' clock; NEVER if no frame waits."""
    itimerspec: Annotated[Ints, 4]  # struct itimerspec: seconds and ns of the interval and of the expiry
    notice_fd: int
    lost_notices: int  # notices that the control plane did not read in time
    reported_notices: int  # those of `lost_notices` that a warning has reported
    report_at: int  # earliest time of the next report, µs since start
    timespec: Annotated[Ints, 2]  # this field and the next two are `nativekit.clocks.ClockFields`
    unix_offset_ns: int
    offset_since_ns: int
    pcap_record: Annotated[NDArray[np.uint32], 4]  # header: seconds, µs, captured bytes, bytes
    iovec: Annotated[Ints, 4]  # two struct iovec: address and length of the record's header and of the frame
    error: Annotated[NDArray[np.int32], 2]  # arguments of getsockopt(2): a socket's error, bytes of it
    port_count: int
    ports: Annotated[Records[PortRecord], MAX_PORTS]
    index_of: Annotated[Ints, PORT_NUMBERS]
    """Index of a port by its number; NO_PORT if there is none."""
    send_batch_size: Annotated[Ints, MAX_PORTS]  # frames in `send_batch`, by port
    burst: Annotated[Records[FrameRecord], MAX_BATCH]
    send_batch: Annotated[RecordTable[FrameRecord], FRAME, (MAX_PORTS, MAX_BATCH)]
    messages: Annotated[NDArray[np.void], MMSGHDR, (MAX_PORTS, MAX_BATCH)]
    """Arguments of sendmmsg(2); each points to its frame in `send_batch`."""
    reorder_buffers: Annotated[RecordTable[ReorderBuffer], REORDER_BUFFER, (MAX_PORTS, 2)]
    reorder_slots: Annotated[RecordTable[Records[ReorderSlot]], REORDER_SLOT, (MAX_PORTS, 2, REORDER_SLOTS)]
    events: Annotated[Records[EpollEvent], EPOLL_EVENT, MAX_EVENTS]


SWITCH = dtype_of(SwitchRecord)
