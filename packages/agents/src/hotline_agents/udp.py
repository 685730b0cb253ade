"""Bursts of datagrams for compiled loops: recvmmsg with the kernel's arrival times, and sendmmsg."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np

from foundation.protocol.rpc import BUFFER_BYTES, Rpc, rpcs
from hosts.sockets import clock_offset
from nativekit.clocks import NS_PER_S, monotonic_time_of
from nativekit.compile import compiled, int64
from nativekit.libc import MMSGHDR, recvmmsg, sendmmsg
from nativekit.records import Ints, Octets, Records, dtype_of, records

BURST = 64  # maximum number of datagrams of a burst
NAME_BYTES = 16  # size of a struct sockaddr_in

_DONT_WAIT = 0x40  # Linux, MSG_DONTWAIT
_MMSGHDR_BYTES = MMSGHDR.itemsize
_CONTROL_WORDS = 4
"""CMSG_SPACE(sizeof(struct timespec)), in words: length, level and type, seconds, nanoseconds."""
_CONTROL_BYTES = 8 * _CONTROL_WORDS
_SECONDS, _NANOSECONDS = 2, 3  # indexes of these words


class _IoVector:
    start: int
    length: int


class MessageHeader:
    msg_name: int
    msg_namelen: int
    msg_iov: int
    msg_iovlen: int
    msg_control: int
    msg_controllen: int
    msg_flags: int
    msg_len: int


class _Buffers:
    timespec: Annotated[Ints, 2]  # this field and the next two are `nativekit.clocks.ClockFields`
    unix_offset_ns: int
    offset_since_ns: int
    queued: int  # number of datagrams to send with the next `flush`
    unsent: int  # number of datagrams that the kernel did not accept
    vectors_in: Annotated[Records[_IoVector], BURST]
    vectors_out: Annotated[Records[_IoVector], BURST]
    names: Annotated[Octets, (BURST, NAME_BYTES)]  # sources of the inbox
    control: Annotated[Ints, (BURST, _CONTROL_WORDS)]
    messages_in: Annotated[Records[MessageHeader], MMSGHDR, BURST]
    messages_out: Annotated[Records[MessageHeader], MMSGHDR, BURST]


_STATE, _VECTOR = dtype_of(_Buffers), dtype_of(_IoVector)


class Udp(NamedTuple):
    state: _Buffers
    inbox: Records[Rpc]  # [BURST]
    outbox: Records[Rpc]  # [BURST]


def make_udp() -> Udp:
    states = records(1, _Buffers)
    state = states[0]
    udp = Udp(state, rpcs(BURST), rpcs(BURST))
    state.unix_offset_ns = clock_offset()
    start = states.ctypes.data
    fields = _STATE.fields
    assert fields is not None
    addresses = {name: start + int(fields[name][1]) for name in fields}
    k = np.arange(BURST)
    for direction, box in (("in", udp.inbox), ("out", udp.outbox)):
        vectors: Records[_IoVector] = getattr(state, f"vectors_{direction}")
        vectors["start"] = box.ctypes.data + BUFFER_BYTES * k
        vectors["length"] = BUFFER_BYTES
        messages: Records[MessageHeader] = getattr(state, f"messages_{direction}")
        messages["msg_iov"] = addresses[f"vectors_{direction}"] + _VECTOR.itemsize * k
        messages["msg_iovlen"] = 1
        messages["msg_namelen"] = NAME_BYTES
    state.messages_in["msg_name"] = addresses["names"] + NAME_BYTES * k
    state.messages_in["msg_control"] = addresses["control"] + _CONTROL_BYTES * k
    state.messages_in["msg_controllen"] = _CONTROL_BYTES
    return udp


@compiled
def take(udp: Udp, fd: int, limit: int) -> int:
    """Read up to `limit` waiting datagrams into the inbox, without blocking; return the number."""
    state = udp.state
    n = int64(recvmmsg(fd, state.messages_in.ctypes.data, limit, _DONT_WAIT, 0))
    for k in range(n):  # recvmmsg has overwritten these lengths
        message = state.messages_in[k]
        message.msg_namelen = NAME_BYTES
        message.msg_controllen = _CONTROL_BYTES
    return max(n, 0)


@compiled
def length_of(udp: Udp, k: int) -> int:
    return udp.state.messages_in[k].msg_len


@compiled
def arrival(udp: Udp, k: int, read_ns: int) -> int:
    """Return when the kernel received datagram k of the inbox (monotonic, ns), which was read at `read_ns`.

    The reader of the burst calls `measure_offset` after `take`.
    """
    stamp = udp.state.control[k]
    stamp_ns = int64(stamp[_SECONDS]) * NS_PER_S + int64(stamp[_NANOSECONDS])
    return monotonic_time_of(udp.state, stamp_ns, read_ns)


@compiled
def name_of(udp: Udp, k: int) -> int:
    """Return the memory address of the source address of datagram k of the inbox, for `queue`."""
    return int64(udp.state.names.ctypes.data) + k * NAME_BYTES


@compiled
def queue(udp: Udp, datagram: int, length: int, name: int) -> None:
    """Queue `length` bytes at `datagram` for the struct sockaddr_in at `name`, both memory addresses."""
    state = udp.state
    vector, message = state.vectors_out[state.queued], state.messages_out[state.queued]
    vector.start, vector.length = datagram, length
    message.msg_name = name
    state.queued += 1


@compiled
def flush(udp: Udp, fd: int) -> None:
    """Send the queued datagrams; count those that the kernel does not accept in `unsent`."""
    state = udp.state
    first = int64(state.messages_out.ctypes.data)
    n_done = 0
    while n_done < state.queued:
        n_sent = int64(sendmmsg(fd, first + n_done * _MMSGHDR_BYTES, state.queued - n_done, _DONT_WAIT))
        if n_sent <= 0:
            state.unsent += 1
            n_sent = 1  # skip the datagram that failed
        n_done += n_sent
    state.queued = 0


def socket_name(address: tuple[str, int]) -> bytes:
    host, port = address
    family = socket.AF_INET.to_bytes(2, "little")
    return (family + port.to_bytes(2, "big") + socket.inet_aton(host)).ljust(NAME_BYTES, b"\0")


def socket_names(addresses: Sequence[tuple[str, int]]) -> Octets:
    return np.frombuffer(b"".join(map(socket_name, addresses)), np.uint8).reshape(-1, NAME_BYTES).copy()


def datagram_of(udp: Udp, k: int) -> bytes:
    octets = udp.inbox.view(np.uint8).reshape(BURST, BUFFER_BYTES)
    return bytes(octets[k, : udp.state.messages_in[k].msg_len])


def address_of(udp: Udp, k: int) -> tuple[str, int]:
    name = bytes(udp.state.names[k])
    # struct sockaddr_in: family, port and address, as `socket_name` writes them.
    return socket.inet_ntoa(name[4:8]), int.from_bytes(name[2:4], "big")
