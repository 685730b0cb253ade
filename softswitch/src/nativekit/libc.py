"""Functions of the C library that compiled functions call, and the structures that they take."""

from __future__ import annotations

import platform

import numpy as np
from numba import types

from nativekit.llvm import Compiled, Kind


def _libc(name: str, result: Kind, *arguments: Kind) -> Compiled:
    return types.ExternalFunction(name, result(*arguments))


clock_gettime = _libc("clock_gettime", types.int32, types.int32, types.intp)
epoll_wait = _libc("epoll_wait", types.int32, types.int32, types.intp, types.int32, types.int32)
errno_location = _libc("__errno_location", types.intp)
getsockopt = _libc("getsockopt", types.int32, types.int32, types.int32, types.int32, types.intp, types.intp)
memcpy = _libc("memcpy", types.intp, types.intp, types.intp, types.intp)
memmove = _libc("memmove", types.intp, types.intp, types.intp, types.intp)
nanosleep = _libc("nanosleep", types.int32, types.intp, types.intp)
ppoll = _libc("ppoll", types.int32, types.intp, types.intp, types.intp, types.intp)
pthread_mutex_lock = _libc("pthread_mutex_lock", types.int32, types.intp)
pthread_mutex_unlock = _libc("pthread_mutex_unlock", types.int32, types.intp)
recv = _libc("recv", types.intp, types.int32, types.intp, types.intp, types.int32)
recvmmsg = _libc("recvmmsg", types.int32, types.int32, types.intp, types.uint32, types.int32, types.intp)
send = _libc("send", types.intp, types.int32, types.intp, types.intp, types.int32)
sched_yield = _libc("sched_yield", types.int32)
sendmmsg = _libc("sendmmsg", types.int32, types.int32, types.intp, types.uint32, types.int32)
timerfd_settime = _libc("timerfd_settime", types.int32, types.int32, types.int32, types.intp, types.intp)
writev = _libc("writev", types.intp, types.int32, types.intp, types.int32)

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
"""struct epoll_event, which is packed on x86-64 only; the kernel returns `data` unchanged."""
