"""System calls of compiled functions."""

from __future__ import annotations

from typing import Any

from numba import types

from softswitch.native import clock_gettime, epoll_wait, memcpy, sendmmsg

__all__ = ["clock_gettime", "epoll_wait", "memcpy", "ppoll", "recvmmsg", "sendmmsg"]


def _libc(name: str, result: Any, *arguments: Any) -> Any:
    return types.ExternalFunction(name, result(*arguments))


recvmmsg = _libc("recvmmsg", types.int32, types.int32, types.intp, types.uint32, types.int32, types.intp)
ppoll = _libc("ppoll", types.int32, types.intp, types.intp, types.intp, types.intp)
