"""Wait for many descriptors, each reported by a number of one's own (`select.epoll` reports descriptors)."""

import ctypes
import os
import select
import time

import numpy as np

from softswitch.ports.layout import EPOLL_EVENT

_EPOLL_CTL_ADD = 1
_TFD_NONBLOCK, _TFD_CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)


def watch(epoll: int, descriptor: int, number: int) -> None:
    """Let `epoll` report `number`, a 32-bit one, whenever the descriptor can be read; raises OSError."""
    event = np.zeros(1, EPOLL_EVENT)
    event["events"], event["data"] = select.EPOLLIN, number
    _check(_libc.epoll_ctl(epoll, _EPOLL_CTL_ADD, descriptor, ctypes.c_void_p(event.ctypes.data)))


def make_timer() -> int:
    """A timer's descriptor (`os.timerfd_create` is Python 3.13's); raises OSError."""
    return _check(_libc.timerfd_create(time.CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC))


def _check(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
