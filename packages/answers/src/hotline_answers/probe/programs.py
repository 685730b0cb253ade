"""The BPF programs of `hotline probe`: one event for each read and each write of a watched process's sockets.

They run at tracepoints, which the kernel passes:

| program   | tracepoint              | passed                             | does                            |
|-----------|-------------------------|------------------------------------|---------------------------------|
| segment   | skb_copy_datagram_iovec | before data is copied to a process | keeps the time of TCP's data    |
| datagram  | sk_data_ready           | when a socket gets data            | keeps a datagram's time, peer   |
| read      | sock_recv_length        | after a read                       | emits an event                  |
| frame     | net_dev_queue           | before a frame is sent             | keeps a UDP datagram's peer     |
| write     | sock_send_length        | after a write                      | emits an event                  |
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import NamedTuple

from llvmlite import ir as llvm

from hotline_answers.probe.builder import (
    FRAMES,
    INET,
    INET6,
    IPV4_FRAME,
    IPV6_FRAME,
    MPTCP,
    TCP,
    UDP,
    EventRecord,
    KernelFields,
    ProgramBuilder,
    pid_namespace,
)
from softswitch.kernel import bpf
from softswitch.kernel.assembler import compile_programs
from softswitch.kernel.btf import Btf
from softswitch.kernel.target import KERNEL_POINTER, Bpf
from softswitch.llvmir import I8, I16, I64, integer

_NOT_TAKEN = 0x2002  # MSG_ERRQUEUE, MSG_PEEK


class _Headers(NamedTuple):
    """Headers of UDP over a version of IP: the type of frames, and sizes and offsets in bytes."""

    family: int
    protocol: int  # offset of the number of UDP
    source: int  # offsets of addresses
    destination: int
    ip_bytes: int


_IPV4 = _Headers(INET, protocol=9, source=12, destination=16, ip_bytes=20)
_IPV6 = _Headers(INET6, protocol=6, source=8, destination=24, ip_bytes=40)
_SOURCE_PORT, _DESTINATION_PORT, _PORTS_BYTES = 0, 2, 4  # in the header of UDP
_IPV4_WITHOUT_OPTIONS = 0x45  # first byte of a packet


def compiled_programs(kernel: Btf, protocols: Set[bool]) -> dict[str, tuple[bytes, bpf.TracingHook]]:
    """Return each program's instructions, with placeholders for maps, and its hook.

    Those of TCP are left out if `protocols` lacks True, those of UDP if it lacks False: each takes time of
    all processes.
    """
    module, target = llvm.Module("probe"), Bpf(reads_clock=True)
    fields, namespace = KernelFields(kernel), pid_namespace()
    for name, program in _PROGRAMS.items():
        builder = ProgramBuilder(module, target, name, fields, namespace)
        program.emit(builder)
        builder.finish()
    code = compile_programs(str(module), list(_PROGRAMS))
    return {
        name: (code[name], kernel.tracepoint_hook(program.tracepoint))
        for name, program in _PROGRAMS.items()
        if program.protocols & protocols
    }


def _emit_segment(p: ProgramBuilder) -> None:
    # Arguments: skb, length. Only skbs that TCP has received have a socket of TCP.
    skb = p.argument(0)
    sock = p.load(skb, p.fields.skb_sock, KERNEL_POINTER)
    p.require_address(sock)
    p.require_watched_process()
    p.remember_segment(sock, p.load(skb, p.fields.skb_arrived, I64))


def _emit_for_datagrams(p: ProgramBuilder, skb: llvm.Value, emit: Callable[[_Headers], None]) -> None:
    """Go on with a copy of the packet's headers, if it is of UDP and has no IP options."""
    head, network = p.load(skb, p.fields.skb_head, I64), p.load(skb, p.fields.skb_network, I16)
    packet = p.b.add(head, p.b.zext(network, I64))
    protocol = p.load(skb, p.fields.skb_protocol, I16)
    is_ipv4 = p.is_equal(protocol, IPV4_FRAME)
    p.require(p.b.or_(is_ipv4, p.is_equal(protocol, IPV6_FRAME)))
    with p.b.if_else(is_ipv4) as branches:
        for branch, headers in zip(branches, (_IPV4, _IPV6), strict=True):
            with branch:
                p.copy_memory(p.packet, headers.ip_bytes + _PORTS_BYTES, packet, 0)
                p.require(p.is_equal(p.load(p.packet, headers.protocol, I8), UDP))
                if headers is _IPV4:
                    p.require(p.is_equal(p.load(p.packet, 0, I8), _IPV4_WITHOUT_OPTIONS))
                emit(headers)


def _host_order(p: ProgramBuilder, port: llvm.Value) -> llvm.Value:
    return p.b.or_(p.b.shl(port, integer(16, 8)), p.b.lshr(port, integer(16, 8)))


def _emit_datagram(p: ProgramBuilder) -> None:
    # Argument: socket, whose queue ends with the datagram, unless a process has just taken it.
    sock = p.argument(0)
    p.require(p.is_equal(p.load(sock, p.fields.protocol, I16), UDP))
    port = p.load(sock, p.fields.local_port, I16)
    p.require_watched_port(port)
    entry = p.push_datagram(p.queue_of(sock))

    def remember(headers: _Headers) -> None:
        # If the kernel uses its memory again, there may be anything by now.
        destination = p.load(p.packet, headers.ip_bytes + _DESTINATION_PORT, I16)
        p.require(p.b.icmp_unsigned("==", _host_order(p, destination), port))
        source_port = p.load(p.packet, headers.ip_bytes + _SOURCE_PORT, I16)
        p.store_peer(entry, headers.family, headers.source, source_port)

    _emit_for_datagrams(p, p.load(sock, p.fields.last_in_queue, KERNEL_POINTER), remember)


def _emit_read(p: ProgramBuilder) -> None:
    # Arguments: socket, result, flags.
    sock, size, flags = p.argument(0), p.int_argument(1), p.int_argument(2)
    p.require(p.b.icmp_signed(">=", size, integer(32, 0)))
    p.require(p.is_equal(p.b.and_(flags, integer(32, _NOT_TAKEN)), 0))
    protocol = p.load(sock, p.fields.protocol, I16)
    _emit_for_protocol(
        p, protocol, lambda: _emit_tcp_read(p, sock, size), lambda: _emit_udp_read(p, sock, size)
    )


def _emit_tcp_read(p: ProgramBuilder, sock: llvm.Value, size: llvm.Value) -> None:
    p.require(p.b.not_(p.is_equal(size, 0)))  # the peer has closed the connection
    p.require_watched_process()
    arrived_ns = p.take_segment(sock)
    with p.event() as event:
        event.describe(sock, size, is_tcp=True, is_write=False)
        event.store("arrived_ns", arrived_ns)
        event.store_peer_of_socket(sock)


def _emit_udp_read(p: ProgramBuilder, sock: llvm.Value, size: llvm.Value) -> None:
    p.require_watched_process()
    p.require_watched_port(p.load(sock, p.fields.local_port, I16))
    queue = p.queue_of(sock)
    with p.event() as event:
        event.describe(sock, size, is_tcp=False, is_write=False)
        p.pop_datagram(queue, sock, event)
        _store_peer_if_connected(p, sock, event)


def _emit_write(p: ProgramBuilder) -> None:
    # Arguments: socket, result, flags.
    sock, size = p.argument(0), p.int_argument(1)
    p.require(p.b.icmp_signed(">=", size, integer(32, 0)))
    protocol = p.load(sock, p.fields.protocol, I16)
    _emit_for_protocol(
        p, protocol, lambda: _emit_tcp_write(p, sock, size), lambda: _emit_udp_write(p, sock, size)
    )


def _emit_tcp_write(p: ProgramBuilder, sock: llvm.Value, size: llvm.Value) -> None:
    p.require_watched_process()
    with p.event() as event:
        event.describe(sock, size, is_tcp=True, is_write=True)
        event.store_peer_of_socket(sock)


def _emit_udp_write(p: ProgramBuilder, sock: llvm.Value, size: llvm.Value) -> None:
    p.require_watched_process()
    frame = p.element(FRAMES)
    with p.event() as event:
        event.describe(sock, size, is_tcp=False, is_write=True)
        with p.b.if_then(p.is_of(frame, sock)):
            event.store_peer_of(frame)
            p.store(integer(64, 0), frame)
        _store_peer_if_connected(p, sock, event)


def _store_peer_if_connected(p: ProgramBuilder, sock: llvm.Value, event: EventRecord) -> None:
    with p.b.if_then(_is_connected(p, sock)):
        event.store_peer_of_socket(sock)


def _is_connected(p: ProgramBuilder, sock: llvm.Value) -> llvm.Value:
    return p.b.not_(p.is_equal(p.load(sock, p.fields.peer_port, I16), 0))


def _emit_for_protocol(
    p: ProgramBuilder, protocol: llvm.Value, emit_tcp: Callable[[], None], emit_udp: Callable[[], None]
) -> None:
    is_tcp = p.b.or_(p.is_equal(protocol, TCP), p.is_equal(protocol, MPTCP))
    with p.b.if_else(is_tcp) as (tcp, other):
        with tcp:
            emit_tcp()
        with other:
            p.require(p.is_equal(protocol, UDP))
            emit_udp()


def _emit_frame(p: ProgramBuilder) -> None:
    # Argument: skb, with offsets of its headers. If a tunnel wraps the datagram, its own frame comes first.
    skb, b = p.argument(0), p.b
    sock = p.load(skb, p.fields.skb_sock, KERNEL_POINTER)
    p.require_address(sock)
    p.require(p.is_equal(p.load(sock, p.fields.protocol, I16), UDP))
    p.require(b.not_(_is_connected(p, sock)))
    p.require_watched_process()
    frame = p.element(FRAMES)
    p.require(b.not_(p.is_of(frame, sock)))

    def remember(headers: _Headers) -> None:
        port = p.load(p.packet, headers.ip_bytes + _DESTINATION_PORT, I16)
        p.store(b.ptrtoint(sock, I64), frame)
        p.store_peer(frame, headers.family, headers.destination, port)

    _emit_for_datagrams(p, skb, remember)


class _TracingProgram(NamedTuple):
    emit: Callable[[ProgramBuilder], None]
    tracepoint: str
    protocols: Set[bool] = frozenset({True, False})
    """Whether it is for TCP (True) or UDP (False), or both."""


_OF_TCP, _OF_UDP = frozenset({True}), frozenset({False})
_PROGRAMS = {
    "segment": _TracingProgram(_emit_segment, "skb_copy_datagram_iovec", _OF_TCP),
    "datagram": _TracingProgram(_emit_datagram, "sk_data_ready", _OF_UDP),
    "read": _TracingProgram(_emit_read, "sock_recv_length"),
    "frame": _TracingProgram(_emit_frame, "net_dev_queue", _OF_UDP),
    "write": _TracingProgram(_emit_write, "sock_send_length"),
}
