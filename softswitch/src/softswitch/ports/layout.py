"""The memory of the forwarding loop: one struct that Python fills in and the compiled code works on."""

import platform

import numpy as np

from softswitch.v1model import PORT_NUMBERS

FRAME = np.dtype([("base", "i8"), ("length", "i8"), ("time", "i8")])
"""A frame by its address, with its arrival in us; the first two fields are a struct iovec."""

SHELF_SLOTS = 16
"""Frames that one shelf can hold; when it is full, frames pass in order."""

BURST = 32
DEPTH = 128
"""Frames queued for one egress port before they are sent, or taken from one ingress port with duplicates."""

OUT_BYTES = 1 << 21
OUT_MARGIN = 1 << 20
"""Room that each frame's outputs find in the output buffer; a burst is cut where there is less."""

MAX_PORTS = 65
"""64, and the CPU port."""

STOPPED = -1
NOTICES_LOST = -2
"""Why the loop returns, where it does not because of a port (by its index)."""

NO_PORT = -1
TIMER = -2
"""What epoll reports besides ports: the stop event, and that a packet may leave its queue."""
IN, OUT = 0, 1

PORT = np.dtype(
    [
        ("number", "i8"),
        ("fd", "i8"),
        ("ring", "i8"),  # address of the first slot; 0 for the CPU port, which has no ring
        ("slots", "i8"),
        ("slot_size", "i8"),
        ("head", "i8"),  # next slot to read
        ("tail", "i8"),  # next slot to give back to the kernel
        ("impaired", "i8", (2,)),  # by direction: IN, OUT
        ("capture", "i8", (2,)),  # likewise: descriptor of the pcap file, -1 for none
        ("holds", "i8"),  # a frame that the interface does not take now is kept for later
        ("held", "i8"),  # address of that frame's memory, and its length; 0 where there is none
        ("held_length", "i8"),
        ("rx", "i8"),
        ("tx", "i8"),
        ("discarded", "i8"),  # received, and given to no pipeline
        ("tx_dropped", "i8"),
        ("rx_oversize", "i8"),
        ("tx_oversize", "i8"),
        ("largest", "i8"),  # bytes of the largest frame that was too large to receive
    ]
)
MMSGHDR = np.dtype(
    [
        ("msg_name", "i8"),
        ("msg_namelen", "i8"),
        ("msg_iov", "i8"),
        ("msg_iovlen", "i8"),
        ("msg_control", "i8"),
        ("msg_controllen", "i8"),
        ("msg_flags", "i8"),
        ("msg_len", "i8"),
    ]
)
"""struct mmsghdr of recvmmsg(2), with its padding (LP64)."""

EPOLL_EVENT = np.dtype({
    "names": ["events", "data"],
    "formats": ["u4", "i4"],
    "offsets": [0, 4 if platform.machine() == "x86_64" else 8],
    "itemsize": 12 if platform.machine() == "x86_64" else 16,
})  # fmt: skip
"""struct epoll_event, which is packed on x86-64 only; `data` is the index of a port, NO_PORT or TIMER."""

FREE, HELD, LEAVING = 0, 1, 2
"""States of a slot on a shelf."""

SHELF = np.dtype(
    [
        ("loss", "f8"),
        ("duplicate", "f8"),
        ("reorder", "f8"),
        ("random", "u8"),
        ("held", "i8"),
        ("lost", "i8"),
        ("duplicated", "i8"),
        ("reordered", "i8"),
    ]
)
SHELF_SLOT = np.dtype(
    [("state", "i8"), ("base", "i8"), ("length", "i8"), ("time", "i8"), ("passes", "i8"), ("deadline", "i8")]
)

SWITCH = np.dtype(
    [
        ("epoll", "i8"),
        ("busy_poll", "i8"),
        ("impaired", "i8"),  # any port, either direction
        ("start_ns", "i8"),  # CLOCK_REALTIME at the switch's start
        ("process", "i8"),  # the pipeline's function, state, mutex and number of waiting writers, by address
        ("state", "i8"),
        ("mutex", "i8"),
        ("waiting", "i8"),
        ("out", "i8"),  # address of OUT_BYTES that the pipeline writes to
        ("cpu_frames", "i8"),  # address of BURST * frame_bytes for what comes from the CPU port
        ("frame_bytes", "i8"),
        ("no_such_port", "i8"),  # frames for a port that the switch does not have
        ("buffered", "i8"),  # the pipeline has queues between ingress and egress
        ("entered", "i8"),  # us; when the last frame came to its ingress: no egress is before
        ("records", "i8"),  # address of what waits in them, `record_bytes` for each slot
        ("record_bytes", "i8"),
        ("timer", "i8"),  # timerfd, and the time in ns that it is set to
        ("alarm", "i8"),
        ("holds", "i8"),  # any port does
        ("retry_at", "i8"),  # ns of the queues' clock; when held frames are tried again, NEVER without any
        ("itimerspec", "i8", (4,)),
        ("notice_fd", "i8"),  # where digests and log records go, one a datagram
        ("lost_notices", "i8"),  # those that nobody took in time
        ("told_notices", "i8"),  # as many of them as the user has been told of
        ("tell_at", "i8"),  # us; not before, the user is told of more
        ("clock", "i8", (2,)),  # struct timespec
        ("pcap_record", "u4", (4,)),  # the head of a frame in a pcap file, and what writev(2) is given
        ("iovec", "i8", (4,)),
        ("error", "i4", (2,)),  # SO_ERROR and its size
        ("port_count", "i8"),
        ("ports", PORT, (MAX_PORTS,)),
        ("index_of", "i8", (PORT_NUMBERS,)),
        ("queued", "i8", (MAX_PORTS,)),
        ("burst", FRAME, (DEPTH,)),  # what is about to be processed
        ("queue", FRAME, (MAX_PORTS, DEPTH)),  # what is about to be sent
        ("messages", MMSGHDR, (MAX_PORTS, DEPTH)),  # each points to its FRAME in `queue`
        ("shelves", SHELF, (MAX_PORTS, 2)),
        ("shelf_slots", SHELF_SLOT, (MAX_PORTS, 2, SHELF_SLOTS)),
        ("events", EPOLL_EVENT, (MAX_PORTS + 2,)),
    ]
)
"""All that the loop works on, in one struct. A port's index is its position in `ports`."""
