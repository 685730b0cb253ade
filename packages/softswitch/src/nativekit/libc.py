"""Functions of the C library that compiled functions call, and the structures that they take."""

from __future__ import annotations

import platform

import numpy as np
from numba import types

from nativekit.llvm import Compiled, Kind


def _declare(name: str, result: Kind, *arguments: Kind) -> Compiled:
    return types.ExternalFunction(name, result(*arguments))


clock_gettime = _declare("clock_gettime", types.int32, types.int32, types.intp)
epoll_wait = _declare("epoll_wait", types.int32, types.int32, types.intp, types.int32, types.int32)
errno_location = _declare("__errno_location", types.intp)
getsockopt = _declare(
    "getsockopt", types.int32, types.int32, types.int32, types.int32, types.intp, types.intp
)
memcpy = _declare("memcpy", types.intp, types.intp, types.intp, types.intp)
memmove = _declare("memmove", types.intp, types.intp, types.intp, types.intp)
nanosleep = _declare("nanosleep", types.int32, types.intp, types.intp)
ppoll = _declare("ppoll", types.int32, types.intp, types.intp, types.intp, types.intp)
pthread_mutex_lock = _declare("pthread_mutex_lock", types.int32, types.intp)
pthread_mutex_unlock = _declare("pthread_mutex_unlock", types.int32, types.intp)
recv = _declare("recv", types.intp, types.int32, types.intp, types.intp, types.int32)
recvmmsg = _declare("recvmmsg", types.int32, types.int32, types.intp, types.uint32, types.int32, types.intp)
send = _declare("send", types.intp, types.int32, types.intp, types.intp, types.int32)
sched_yield = _declare("sched_yield", types.int32)
sendmmsg = _declare("sendmmsg", types.int32, types.int32, types.intp, types.uint32, types.int32)
timerfd_settime = _declare("timerfd_settime", types.int32, types.int32, types.int32, types.intp, types.intp)
writev = _declare("writev", types.intp, types.int32, types.intp, types.int32)

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
"""struct epoll_event, packed on x86-64 only; `data` is the low half of what the kernel returns as it is."""
