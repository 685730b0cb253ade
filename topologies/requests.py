"""Checks of what the clients of a rendezvous request."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from math import isfinite

from foundation.errors import HotlineError
from foundation.text import show
from topologies.lines import Message

_CREDENTIALS = struct.Struct("3i")  # struct ucred (unix(7)): pid, uid, gid


class RequestRefused(HotlineError):
    """A request that is refused; the worker may send other requests."""


def check_rank(rank: int | None, taken_ranks: set[int], size: int) -> None:
    if rank is not None and (not isinstance(rank, int) or not 0 <= rank < size):
        raise RequestRefused(
            f"rank = {show(rank)}: expected one of 0..{size - 1} in this session; `workers` sets how many"
        )
    if rank in taken_ranks:
        raise RequestRefused(
            f"rank = {rank}: another worker has it, or had it; ranks are given once in a session"
        )
    if len(taken_ranks) == size:
        raise RequestRefused(
            f"all {size} ranks of this session are given; wait until its workers have left, or set `workers`"
        )


def check_metrics(metrics: object) -> Message:
    if not isinstance(metrics, dict) or "loss" not in metrics:
        raise RequestRefused(f"report: expected metrics by name, with a loss, got {show(metrics)}")
    for name, value in metrics.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
            raise RequestRefused(f"report: expected a finite number as {name}, got {show(value)}")
    return metrics


def check_owner(writer: asyncio.StreamWriter) -> None:
    """Raise `RequestRefused` unless the client is root or the user that started this process."""
    sock = writer.get_extra_info("socket")
    _, user, _ = _CREDENTIALS.unpack(
        sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    if user not in (0, os.getuid()):
        raise RequestRefused("expected the user root, who started `hotline up`: run `sudo ./hotline down`")
