"""Functions of the C library that compiled functions call, and the structures that they take."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterable

import numpy as np

from nativekit.installed import HAS_NUMBA
from nativekit.llvm import Compiled, Function

if HAS_NUMBA:
    from numba import types


_C_TYPES = {"int64": ctypes.c_ssize_t, "int32": ctypes.c_int32, "uint32": ctypes.c_uint32}
_INTP = "int64"  # numba's intp: of an address, or a size


def _declare(name: str, result: str, *arguments: str) -> Compiled:
    """Return a function of the C library, by the names of numba's types."""
    if HAS_NUMBA:
        return types.ExternalFunction(
            name, getattr(types, result)(*(getattr(types, each) for each in arguments))
        )
    return plain_function(name, result, arguments)


def plain_function(name: str, result: str, arguments: Iterable[str]) -> Function:
    """Return a function of the C library that Python calls."""
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.argtypes = [_C_TYPES[kind] for kind in arguments]
    function.restype = _C_TYPES[result]
    return lambda *args: function(*map(int, args))


clock_gettime = _declare("clock_gettime", "int32", "int32", _INTP)
epoll_wait = _declare("epoll_wait", "int32", "int32", _INTP, "int32", "int32")
errno_location = _declare("__errno_location", _INTP)
getsockopt = _declare("getsockopt", "int32", "int32", "int32", "int32", _INTP, _INTP)
memcpy = _declare("memcpy", _INTP, _INTP, _INTP, _INTP)
memmove = _declare("memmove", _INTP, _INTP, _INTP, _INTP)
nanosleep = _declare("nanosleep", "int32", _INTP, _INTP)
ppoll = _declare("ppoll", "int32", _INTP, _INTP, _INTP, _INTP)
pthread_mutex_lock = _declare("pthread_mutex_lock", "int32", _INTP)
pthread_mutex_unlock = _declare("pthread_mutex_unlock", "int32", _INTP)
recv = _declare("recv", _INTP, "int32", _INTP, _INTP, "int32")
recvmmsg = _declare("recvmmsg", "int32", "int32", _INTP, "uint32", "int32", _INTP)
send = _declare("send", _INTP, "int32", _INTP, _INTP, "int32")
sched_yield = _declare("sched_yield", "int32")
sendmmsg = _declare("sendmmsg", "int32", "int32", _INTP, "uint32", "int32")
timerfd_settime = _declare("timerfd_settime", "int32", "int32", "int32", _INTP, _INTP)
writev = _declare("writev", _INTP, "int32", _INTP, "int32")

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
