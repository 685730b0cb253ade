"""epoll and timers through libc; `select.epoll` reports a descriptor, not a number chosen by the caller."""

import ctypes
import os
import select
import time

import numpy as np

from nativekit.libc import EPOLL_EVENT
from softswitch import libc

_EPOLL_CTL_ADD = 1
_TFD_NONBLOCK, _TFD_CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC


def watch(epoll: int, descriptor: int, number: int) -> None:
    """Make `epoll` report a 32-bit number while the descriptor is readable; raises OSError."""
    event = np.zeros(1, EPOLL_EVENT)
    event["events"], event["data"] = select.EPOLLIN, number
    libc.call("epoll_ctl", epoll, _EPOLL_CTL_ADD, descriptor, ctypes.c_void_p(event.ctypes.data))


def make_timer() -> int:
    """Return a new timer's descriptor (`os.timerfd_create` needs Python 3.13); raises OSError."""
    return libc.call("timerfd_create", time.CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC)
