"""The BPF programs of `hotline probe`: one event for each read and each write of a watched process's sockets.

They run at tracepoints, which the kernel passes:

| program   | tracepoint              | passed                             | does                            |
|-----------|-------------------------|------------------------------------|---------------------------------|
| segment   | skb_copy_datagram_iovec | before data is copied to a process | keeps the time of TCP's data    |
| frame_in  | netif_receive_skb       | when a frame arrives               | keeps a UDP datagram's peer     |
| datagram  | sk_data_ready           | when a socket gets data            | keeps the time of a datagram    |
| read      | sock_recv_length        | after a read                       | emits an event                  |
| frame_out | net_dev_queue           | before a frame is sent             | keeps a UDP datagram's peer     |
| write     | sock_send_length        | after a write                      | emits an event                  |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from llvmlite import ir as llvm

from hotline_answers.probe.builder import (
    FRAMES_IN,
    FRAMES_OUT,
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
# Offsets in packets.
_IPV4_PROTOCOL, _IPV4_SOURCE, _IPV4_DESTINATION = 9, 12, 16
_IPV6_NEXT_HEADER, _IPV6_SOURCE, _IPV6_DESTINATION, _IPV6_BYTES = 6, 8, 24, 40
_SOURCE_PORT, _DESTINATION_PORT = 0, 2


def compiled_programs(kernel: Btf) -> dict[str, tuple[bytes, bpf.TracingHook]]:
    """Return each program's instructions, with placeholders for maps, and its hook."""
    module, target = llvm.Module("probe"), Bpf(reads_clock=True)
    fields, namespace = KernelFields(kernel), pid_namespace()
    for name, (emit, _) in _PROGRAMS.items():
        builder = ProgramBuilder(module, target, name, fields, namespace)
        emit(builder)
        builder.finish()
    code = compile_programs(str(module), list(_PROGRAMS))
    return {
        name: (code[name], kernel.tracepoint_hook(tracepoint)) for name, (_, tracepoint) in _PROGRAMS.items()
    }


def _emit_segment(p: ProgramBuilder) -> None:
    # Arguments: skb, length. Only skbs that TCP has received have a socket of TCP.
    skb = p.argument(0)
    sock = p.load(skb, p.fields.skb_sock, KERNEL_POINTER)
    p.require_address(sock)
    p.require_watched_process()
    p.remember_segment(sock, p.load(skb, p.fields.skb_arrived, I64))


def _emit_frame_in(p: ProgramBuilder) -> None:
    # Argument: skb, whose data begins with the packet.
    skb, b = p.argument(0), p.b
    packet, protocol = p.load(skb, p.fields.skb_data, I64), p.load(skb, p.fields.skb_protocol, I16)
    is_ipv4 = p.is_equal(protocol, IPV4_FRAME)
    p.require(b.or_(is_ipv4, p.is_equal(protocol, IPV6_FRAME)))
    with b.if_else(is_ipv4) as (ipv4, ipv6):
        with ipv4:
            header_words = b.and_(p.read_memory(packet, 0, I8), integer(8, 15))
            header_bytes = b.mul(b.zext(header_words, I64), integer(64, 4))
            _remember_frame_in(p, INET, packet, _IPV4_PROTOCOL, header_bytes, _IPV4_SOURCE)
        with ipv6:
            _remember_frame_in(p, INET6, packet, _IPV6_NEXT_HEADER, integer(64, _IPV6_BYTES), _IPV6_SOURCE)


def _remember_frame_in(
    p: ProgramBuilder, family: int, packet: llvm.Value, protocol: int, header_bytes: llvm.Value, source: int
) -> None:
    p.require(p.is_equal(p.read_memory(packet, protocol, I8), UDP))
    datagram = p.b.add(packet, header_bytes)
    p.require_watched_port(_host_order(p, p.read_memory(datagram, _DESTINATION_PORT, I16)))
    port = p.read_memory(datagram, _SOURCE_PORT, I16)
    p.store_peer(p.element(FRAMES_IN), family, packet, source, port)


def _host_order(p: ProgramBuilder, port: llvm.Value) -> llvm.Value:
    return p.b.or_(p.b.shl(port, integer(16, 8)), p.b.lshr(port, integer(16, 8)))


def _emit_datagram(p: ProgramBuilder) -> None:
    # Argument: socket. The datagram's frame was the last to arrive on this CPU.
    sock = p.argument(0)
    p.require(p.is_equal(p.load(sock, p.fields.protocol, I16), UDP))
    p.require_watched_port(p.load(sock, p.fields.local_port, I16))
    frame = p.element(FRAMES_IN)
    p.push_datagram(p.queue_of(sock), frame)


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
    frame = p.element(FRAMES_OUT)
    with p.event() as event:
        event.describe(sock, size, is_tcp=False, is_write=True)
        with p.b.if_then(p.is_of(frame, sock)):
            event.store_peer_of(frame)
            p.store(integer(64, 0), frame)
        _store_peer_if_connected(p, sock, event)


def _store_peer_if_connected(p: ProgramBuilder, sock: llvm.Value, event: EventRecord) -> None:
    with p.b.if_then(p.b.not_(p.is_equal(p.load(sock, p.fields.peer_port, I16), 0))):
        event.store_peer_of_socket(sock)


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


def _emit_frame_out(p: ProgramBuilder) -> None:
    # Argument: skb, with offsets of its headers. If a tunnel wraps the datagram, its own frame comes first.
    skb, b = p.argument(0), p.b
    sock = p.load(skb, p.fields.skb_sock, KERNEL_POINTER)
    p.require_address(sock)
    p.require(p.is_equal(p.load(sock, p.fields.protocol, I16), UDP))
    p.require_watched_process()
    frame = p.element(FRAMES_OUT)
    p.require(b.not_(p.is_of(frame, sock)))
    head = p.load(skb, p.fields.skb_head, I64)
    packet, datagram = (
        b.add(head, b.zext(p.load(skb, offset, I16), I64))
        for offset in (p.fields.skb_network, p.fields.skb_transport)
    )
    port = p.read_memory(datagram, _DESTINATION_PORT, I16)
    p.store(b.ptrtoint(sock, I64), frame)
    with b.if_else(p.is_equal(p.load(skb, p.fields.skb_protocol, I16), IPV4_FRAME)) as (ipv4, ipv6):
        with ipv4:
            p.store_peer(frame, INET, packet, _IPV4_DESTINATION, port)
        with ipv6:
            p.store_peer(frame, INET6, packet, _IPV6_DESTINATION, port)


_PROGRAMS: Mapping[str, tuple[Callable[[ProgramBuilder], None], str]] = {
    "segment": (_emit_segment, "skb_copy_datagram_iovec"),
    "frame_in": (_emit_frame_in, "netif_receive_skb"),
    "datagram": (_emit_datagram, "sk_data_ready"),
    "read": (_emit_read, "sock_recv_length"),
    "frame_out": (_emit_frame_out, "net_dev_queue"),
    "write": (_emit_write, "sock_send_length"),
}
