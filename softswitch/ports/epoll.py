"""Wait for many descriptors, each reported by a number of one's own (`select.epoll` reports descriptors)."""

import ctypes
import os
import select

import numpy as np

from softswitch.ports.layout import EPOLL_EVENT

_EPOLL_CTL_ADD = 1
_libc = ctypes.CDLL(None, use_errno=True)


def watch(epoll: int, descriptor: int, number: int) -> None:
    """Let `epoll` report `number`, a 32-bit one, whenever the descriptor can be read; raises OSError."""
    event = np.zeros(1, EPOLL_EVENT)
    event["events"], event["data"] = select.EPOLLIN, number
    if _libc.epoll_ctl(epoll, _EPOLL_CTL_ADD, descriptor, ctypes.c_void_p(event.ctypes.data)) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
