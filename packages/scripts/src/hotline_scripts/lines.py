"""JSON lines over a Unix socket, between scripts' workers and the rendezvous, and checks of requests."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections.abc import AsyncIterator
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foundation.errors import HotlineError
from foundation.text import show
from topologies.script_command import SOCKET_VARIABLE

if TYPE_CHECKING:
    from topologies.testbed import LineWriter

Message = dict[str, Any]  # JSON

DEFAULT_SOCKET = Path("/run/hotline/up.sock")
MAX_LINE_BYTES = 1 << 24
"""Largest line that the rendezvous reads, more than a declaration of 100,000 tables."""
_READ_BYTES = 1 << 16
_CREDENTIALS = struct.Struct("3i")  # struct ucred (unix(7)): pid, uid, gid


def socket_path(connect: str | os.PathLike[str] | None = None) -> Path:
    """Return the path of a rendezvous's socket: `connect`, or HOTLINE_CONNECT, or that of `hotline up`."""
    return Path(connect or os.environ.get(SOCKET_VARIABLE) or DEFAULT_SOCKET)


class MessageTooLong(HotlineError):
    """A message that does not fit into a line; it has not been sent."""


def encode_line(message: Message) -> bytes:
    """Return a client's message as a line; raise `MessageTooLong` for one that is not read."""
    line = json.dumps(message).encode()
    if len(line) > MAX_LINE_BYTES:
        raise MessageTooLong(
            f"{message.get('cmd')}: expected a message of at most {MAX_LINE_BYTES:,} bytes, got {len(line):,}"
        )
    return line + b"\n"


async def read_lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes | None]:
    """Yield each line without its end, or None for one that is too long, whose bytes are dropped."""
    line, length = bytearray(), 0
    while chunk := await reader.read(_READ_BYTES):
        for number, piece in enumerate(chunk.split(b"\n")):
            if number:  # an end of a line precedes it
                yield bytes(line) if length <= MAX_LINE_BYTES else None
                line.clear()
                length = 0
            length += len(piece)
            if length <= MAX_LINE_BYTES:
                line += piece
            else:
                line.clear()


def send_line(writer: LineWriter, message: Message) -> None:
    """Write a message by one call of `write`, which a writer may translate."""
    if not writer.is_closing():
        writer.write(json.dumps(message).encode() + b"\n")


class RequestRefused(HotlineError):
    """A request that is refused; the worker may send other requests."""


def check_rank(
    rank: int | None, taken_ranks: set[int], size: int, machine_ranks: frozenset[int] | None = None
) -> None:
    """Raise `RequestRefused` if the rank, or any rank if it is None, is not free.

    `machine_ranks` are those whose addresses the worker's machine has; None means all.
    """
    if rank is not None and (not isinstance(rank, int) or not 0 <= rank < size):
        raise RequestRefused(
            f"rank = {show(rank)}: expected one of 0..{size - 1} in this session; `workers` sets how many"
        )
    if rank in taken_ranks:
        raise RequestRefused(
            f"rank = {rank}: another worker has it, or had it; ranks are given once in a session"
        )
    if rank is not None and machine_ranks is not None and rank not in machine_ranks:
        raise RequestRefused(
            f"rank = {rank}: expected one of those of this machine, {list_ranks(machine_ranks)}"
        )
    if len(taken_ranks) == size:
        raise RequestRefused(
            f"all {size} ranks of this session are given; wait until its workers have left, or set `workers`"
        )

    if rank is None and machine_ranks is not None and machine_ranks <= taken_ranks:
        raise RequestRefused(
            f"the ranks of this machine, {list_ranks(machine_ranks)}, are given; start the other workers on "
            "the other machines, or set `workers`"
        )


def list_ranks(ranks: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(ranks))) or "none"


def check_metrics(metrics: object) -> Message:
    if not isinstance(metrics, dict) or "loss" not in metrics:
        raise RequestRefused(f"report: expected metrics by name, with a loss, got {show(metrics)}")
    for name, value in metrics.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
            raise RequestRefused(f"report: expected a finite number as {name}, got {show(value)}")
    return metrics


def check_owner(writer: LineWriter) -> None:
    """Raise `RequestRefused` unless the client is root or the user that started this process."""
    sock = writer.get_extra_info("socket")
    if sock.family != socket.AF_UNIX:
        raise RequestRefused(
            "`hotline up` was started on several machines: run `./hotline down MACHINES=ADDRESS`"
        )
    _, user, _ = _credentials(sock)
    if user not in (0, os.getuid()):
        raise RequestRefused("expected the user root, who started `hotline up`: run `sudo ./hotline down`")


def peer_process(writer: LineWriter) -> int | None:
    """Return the id of the client's process; None if it is on another machine, or in another container."""
    sock = writer.get_extra_info("socket")
    return _credentials(sock)[0] or None if sock.family == socket.AF_UNIX else None


def _credentials(sock: socket.socket) -> tuple[int, int, int]:
    process, user, group = _CREDENTIALS.unpack(
        sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return process, user, group
