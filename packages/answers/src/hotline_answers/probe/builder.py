"""Builder of the BPF programs of `hotline probe`, and what they share: events, maps, offsets of fields."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from llvmlite import ir as llvm

from softswitch.kernel.assembler import program_section
from softswitch.kernel.btf import Btf
from softswitch.kernel.ring import HEADER_BYTES
from softswitch.kernel.target import KERNEL_POINTER, KTIME_GET_NS, Bpf, call_helper
from softswitch.llvmir import I8, I16, I32, I64, byte_offset, integer, is_null

EVENT = np.dtype(
    {
        "names": [
            "header", "time_ns", "arrived_ns", "sock", "peer", "bytes", "local_port", "peer_port", "family",
            "is_write", "is_tcp",
        ],
        "formats": ["u4", "i8", "i8", "u8", "V16", "u4", "u2", ">u2", "u2", "u1", "u1"],
        "offsets": [offset + HEADER_BYTES for offset in (-8, 0, 8, 16, 24, 40, 44, 46, 48, 50, 51)],
        "itemsize": 56 + HEADER_BYTES,
    }
)  # fmt: skip
"""An event in the ring buffer: a read or a write. `time_ns` is monotonic. `arrived_ns` is when what was read
had arrived, in Unix time for TCP and monotonic for UDP, or 0 if unknown. `peer` is an address of IPv4, in the
first 4 bytes, or IPv6; the family is 0 if the peer is unknown."""
EVENT_BYTES = EVENT.itemsize - HEADER_BYTES
_EVENT_OFFSETS = {name: field[1] - HEADER_BYTES for name, field in (EVENT.fields or {}).items()}

PROCESSES, PORTS, RING, LOST, SEGMENTS, FRAMES, QUEUES, NEW_QUEUE = range(0x7A11BA20, 0x7A11BA28)
"""Placeholders for the file descriptors of maps, which `watch` creates. By CPU: the last segment that was
copied from a socket, and the last frame of UDP that was sent. By socket: its waiting datagrams. `NEW_QUEUE`
has an empty queue."""
PROCESS_BITS = 32
"""Processes of an element of `PROCESSES`, whose bits say which are watched: faster than a hash table."""
SEGMENT_BYTES = 16  # socket, time of arrival
# A frame has its socket and its peer; a waiting datagram has its time of arrival and its peer.
PEER_BYTES = 32
_FAMILY, _PEER_PORT, _PEER = 8, 10, 16  # offsets
QUEUE_LENGTH = 256
"""Datagrams of a socket whose arrival is known while they wait; a power of 2."""
_TAIL, _HEAD, _ENTRIES = 0, 8, 16  # offsets in a queue: numbers of datagrams that arrived and were read
_MAX_PACKET_BYTES = 48  # of a packet's headers that programs look at
QUEUE_BYTES = _ENTRIES + PEER_BYTES * QUEUE_LENGTH

INET, INET6 = 2, 10  # AF_INET, AF_INET6
TCP, MPTCP, UDP = 6, 262, 17
IPV4_FRAME, IPV6_FRAME = 0x0008, 0xDD86  # ETH_P_IP and ETH_P_IPV6 in network order
# Numbers of helper functions.
_MAP_LOOKUP, _MAP_UPDATE, _GET_CURRENT_PID_TGID = 1, 2, 14
_PROBE_READ_KERNEL, _GET_NS_CURRENT_PID_TGID, _RINGBUF_RESERVE, _RINGBUF_SUBMIT = 113, 120, 131, 132
_NO_WAKEUP = 1  # this process polls the ring buffer
_MINOR_BITS = 20  # of a device's number
_INITIAL_NAMESPACE = 0xEFFFFFFC  # inode of the machine's first PID namespace, PROC_PID_INIT_INO


def pid_namespace() -> tuple[int, int] | None:
    """Return device and inode of this process's PID namespace; None if it is the machine's first one.

    Processes have other numbers in another namespace.
    """
    namespace = Path("/proc/self/ns/pid").stat()
    device = os.major(namespace.st_dev) << _MINOR_BITS | os.minor(namespace.st_dev)  # as in the kernel
    return None if namespace.st_ino == _INITIAL_NAMESPACE else (device, namespace.st_ino)


class KernelFields:
    """Offsets of the fields that programs read."""

    def __init__(self, kernel: Btf) -> None:
        self.family = kernel.offset("sock", "__sk_common.skc_family")
        self.local_port = kernel.offset("sock", "__sk_common.skc_num")
        self.peer_port = kernel.offset("sock", "__sk_common.skc_dport")
        self.ipv4_peer = kernel.offset("sock", "__sk_common.skc_daddr")
        self.ipv6_peer = kernel.offset("sock", "__sk_common.skc_v6_daddr")
        self.protocol = kernel.offset("sock", "sk_protocol")
        self.queue_length = kernel.offset("sock", "sk_receive_queue.qlen")
        self.last_in_queue = kernel.offset("sock", "sk_receive_queue.prev")
        self.reader_queue_length = kernel.offset("udp_sock", "reader_queue.qlen")
        self.skb_sock = kernel.offset("sk_buff", "sk")
        self.skb_arrived = kernel.offset("sk_buff", "tstamp")
        self.skb_head = kernel.offset("sk_buff", "head")
        self.skb_protocol = kernel.offset("sk_buff", "protocol")
        self.skb_network = kernel.offset("sk_buff", "network_header")


class ProgramBuilder:
    """Builder of a program, whose function returns 0 wherever a requirement is not met."""

    def __init__(
        self,
        module: llvm.Module,
        target: Bpf,
        name: str,
        fields: KernelFields,
        namespace: tuple[int, int] | None,
    ) -> None:
        self.function = llvm.Function(module, llvm.FunctionType(I32, [KERNEL_POINTER]), name)
        self.function.section = program_section(name)
        self.b = llvm.IRBuilder(self.function.append_basic_block("entry"))
        self.fields, self._target, self._namespace = fields, target, namespace
        self._key, self._ids, self._scratch = (self._variable() for _ in range(3))
        self.packet = self.b.alloca(llvm.ArrayType(I8, _MAX_PACKET_BYTES))
        """Copy of a packet's headers."""
        self._end = self.function.append_basic_block("end")
        with self.b.goto_block(self._end):
            self.b.ret(integer(32, 0))

    def finish(self) -> None:
        self.b.branch(self._end)

    def _variable(self) -> llvm.Value:
        variable = self.b.alloca(I64)
        self.b.store(integer(64, 0), variable)
        return variable

    # -- values

    def argument(self, index: int, kind: llvm.Type = KERNEL_POINTER) -> llvm.Value:
        return self.load(self.function.args[0], 8 * index, kind)

    def int_argument(self, index: int) -> llvm.Value:
        return self.b.trunc(self.argument(index, I64), I32)

    def load(self, address: llvm.Value, offset: int, kind: llvm.Type) -> llvm.Value:
        return self.b.load(byte_offset(self.b, address, offset), typ=kind)

    def store(self, value: llvm.Value, address: llvm.Value, offset: int = 0) -> None:
        self.b.store(value, byte_offset(self.b, address, offset))

    def read_memory(self, address: llvm.Value, offset: int, kind: llvm.IntType) -> llvm.Value:
        """Return a number from any kernel memory, given by a 64-bit address; 0 if the address is invalid."""
        self.b.store(integer(64, 0), self._scratch)
        self.copy_memory(self._scratch, kind.width // 8, address, offset)
        return self.b.load(self._scratch, typ=kind)

    def copy_memory(self, target: llvm.Value, size: int, address: llvm.Value, offset: int) -> None:
        source = self.b.add(address, integer(64, offset))
        call_helper(self.b, _PROBE_READ_KERNEL, I64, target, integer(64, size), source)

    def is_equal(self, value: llvm.Value, number: int) -> llvm.Value:
        return self.b.icmp_unsigned("==", value, integer(value.type.width, number))

    def now(self) -> llvm.Value:
        return call_helper(self.b, KTIME_GET_NS, I64)

    # -- control flow

    def require(self, condition: llvm.Value) -> None:
        """Go on only if a condition holds."""
        accepted = self.b.append_basic_block()
        self.b.cbranch(condition, accepted, self._end)
        self.b.position_at_end(accepted)

    def require_address(self, address: llvm.Value) -> None:
        self.require(self.b.not_(is_null(self.b, address)))

    def require_watched_process(self) -> None:
        b = self.b
        if self._namespace is None:
            ids = call_helper(b, _GET_CURRENT_PID_TGID, I64)
        else:
            device, inode = (integer(64, each) for each in self._namespace)
            code = call_helper(b, _GET_NS_CURRENT_PID_TGID, I64, device, inode, self._ids, integer(64, 8))
            self.require(self.is_equal(code, 0))
            ids = b.load(self._ids, typ=I64)
        process = b.lshr(ids, integer(64, 32))
        bits = self.look_up(PROCESSES, b.lshr(process, integer(64, PROCESS_BITS.bit_length() - 1)))
        self.require_address(bits)
        place = b.and_(b.trunc(process, I32), integer(32, PROCESS_BITS - 1))
        is_watched = b.and_(b.lshr(b.load(bits, typ=I32), place), integer(32, 1))
        self.require(self.is_equal(is_watched, 1))

    def require_watched_port(self, port: llvm.Value) -> None:
        """Go on only if UDP is served at a port, given in the machine's byte order."""
        is_served = self.look_up(PORTS, self.b.zext(port, I64))
        self.require_address(is_served)
        self.require(self.b.not_(self.is_equal(self.b.load(is_served, typ=I32), 0)))

    # -- maps

    def look_up(self, placeholder: int, key: llvm.Value) -> llvm.Value:
        """Return the address of an element, or null; a map takes the bytes that it needs of the key."""
        self.b.store(key, self._key)
        return call_helper(
            self.b, _MAP_LOOKUP, KERNEL_POINTER, self._target.map(self.b, placeholder), self._key
        )

    def element(self, placeholder: int) -> llvm.Value:
        """Return the address of a map's only element, on this CPU."""
        element = self.look_up(placeholder, integer(64, 0))
        self.require_address(element)
        return element

    # -- segments and frames

    def remember_segment(self, sock: llvm.Value, arrived_ns: llvm.Value) -> None:
        element = self.element(SEGMENTS)
        self.store(self.b.ptrtoint(sock, I64), element)
        self.store(arrived_ns, element, 8)

    def take_segment(self, sock: llvm.Value) -> llvm.Value:
        """Return when the last segment arrived that was copied from a socket on this CPU; 0 if unknown.

        A thread that moved to another CPU during its read finds another socket's segment, or none.
        """
        element = self.element(SEGMENTS)
        arrived_ns = self.b.select(self.is_of(element, sock), self.load(element, 8, I64), integer(64, 0))
        self.store(integer(64, 0), element)
        return arrived_ns

    def is_of(self, element: llvm.Value, sock: llvm.Value) -> llvm.Value:
        return self.b.icmp_unsigned("==", self.b.load(element, typ=I64), self.b.ptrtoint(sock, I64))

    def store_peer(self, element: llvm.Value, family: int, address_offset: int, port: llvm.Value) -> None:
        """Store in a frame's element the peer of the copied packet."""
        self.store(integer(16, family), element, _FAMILY)
        self.store(port, element, _PEER_PORT)
        words = [
            self.load(self.packet, address_offset + 4 * n, I32) for n in range(4 if family == INET6 else 1)
        ]
        for n, word in enumerate(words + [integer(32, 0)] * (4 - len(words))):
            self.store(word, element, _PEER + 4 * n)

    # -- waiting datagrams

    def queue_of(self, sock: llvm.Value) -> llvm.Value:
        """Return the address of a socket's queue; a new one does not know arrivals of waiting datagrams."""
        b, key = self.b, self.b.ptrtoint(sock, I64)
        found = self.look_up(QUEUES, key)
        known, unknown, added = (b.append_basic_block(name) for name in ("known", "unknown", "added"))
        b.cbranch(is_null(b, found), unknown, known)
        b.position_at_end(unknown)
        empty = self.element(NEW_QUEUE)
        b.store(key, self._key)
        queues = self._target.map(b, QUEUES)
        call_helper(b, _MAP_UPDATE, I64, queues, self._key, empty, integer(64, 0))
        new = self.look_up(QUEUES, key)
        self.require_address(new)
        waiting = b.zext(self.waiting_datagrams(sock), I64)
        is_waiting = b.not_(self.is_equal(waiting, 0))
        self.store(b.select(is_waiting, b.sub(waiting, integer(64, 1)), waiting), new, _TAIL)
        unknown_end = b.block
        b.branch(added)
        b.position_at_end(known)
        b.branch(added)
        b.position_at_end(added)
        queue = b.phi(KERNEL_POINTER)
        queue.add_incoming(new, unknown_end)
        queue.add_incoming(found, known)
        return queue

    def waiting_datagrams(self, sock: llvm.Value) -> llvm.Value:
        # The second queue is not in struct sock but in struct udp_sock, which begins with it.
        received = self.load(sock, self.fields.queue_length, I32)
        address = self.b.ptrtoint(sock, I64)
        return self.b.add(received, self.read_memory(address, self.fields.reader_queue_length, I32))

    def push_datagram(self, queue: llvm.Value) -> llvm.Value:
        """Append a datagram that has just arrived, without a peer; return its entry."""
        entry = self._entry(queue, self._increment(queue))
        self.store(self.now(), entry)
        self.store(integer(16, 0), entry, _FAMILY)
        return entry

    def pop_datagram(self, queue: llvm.Value, sock: llvm.Value, event: EventRecord) -> None:
        """Store arrival and peer of the datagram that was just read; the queue then follows the socket's."""
        b = self.b
        number = self._increment(byte_offset(b, queue, _HEAD))
        tail = b.load(queue, typ=I64)
        entry = self._entry(queue, number)
        following = b.sub(b.sub(tail, number), integer(64, 1))
        is_known = b.icmp_unsigned("<", following, integer(64, QUEUE_LENGTH))
        with b.if_then(is_known):
            event.store("arrived_ns", b.load(entry, typ=I64))
            event.store_peer_of(entry)
        with (
            b.if_then(b.not_(self.is_equal(following, 0))),
            b.if_then(self.is_equal(self.waiting_datagrams(sock), 0)),
        ):
            self.store(tail, queue, _HEAD)

    def _increment(self, address: llvm.Value) -> llvm.Value:
        """Add 1 to a number in memory; return what it was."""
        # With the order "monotonic", LLVM emits an addition that does not return what it was.
        return self.b.atomic_rmw("add", address, integer(64, 1), "seq_cst")

    def _entry(self, queue: llvm.Value, number: llvm.Value) -> llvm.Value:
        index = self.b.and_(number, integer(64, QUEUE_LENGTH - 1))
        offset = self.b.mul(index, integer(64, PEER_BYTES))
        return byte_offset(self.b, byte_offset(self.b, queue, _ENTRIES), offset)

    # -- events

    @contextmanager
    def event(self) -> Iterator[EventRecord]:
        """Reserve an event, which is submitted at the end of the context; without room, count it as lost.

        Within the context nothing may be required: the kernel demands that each event is submitted.
        """
        b, ring = self.b, self._target.map(self.b, RING)
        address = call_helper(
            b, _RINGBUF_RESERVE, KERNEL_POINTER, ring, integer(64, EVENT_BYTES), integer(64, 0)
        )
        lost, reserved = (b.append_basic_block(name) for name in ("lost", "reserved"))
        b.cbranch(is_null(b, address), lost, reserved)
        b.position_at_end(lost)
        b.atomic_rmw("add", self.element(LOST), integer(64, 1), "monotonic")
        b.branch(self._end)
        b.position_at_end(reserved)
        event = EventRecord(self, address)
        event.store("time_ns", self.now())
        yield event
        call_helper(b, _RINGBUF_SUBMIT, I64, address, integer(64, _NO_WAKEUP))


class EventRecord:
    def __init__(self, builder: ProgramBuilder, address: llvm.Value) -> None:
        self._builder, self._address = builder, address

    def store(self, name: str, value: llvm.Value) -> None:
        self._builder.store(value, self._address, _EVENT_OFFSETS[name])

    def describe(self, sock: llvm.Value, size: llvm.Value, *, is_tcp: bool, is_write: bool) -> None:
        """Store what a socket says, and no peer."""
        builder = self._builder
        self.store("sock", builder.b.ptrtoint(sock, I64))
        self.store("bytes", size)
        self.store("local_port", builder.load(sock, builder.fields.local_port, I16))
        self.store("is_write", integer(8, is_write))
        self.store("is_tcp", integer(8, is_tcp))
        self.store("arrived_ns", integer(64, 0))
        for name in ("family", "peer_port"):
            self.store(name, integer(16, 0))
        self._store_address(integer(64, 0), integer(64, 0))

    def store_peer_of_socket(self, sock: llvm.Value) -> None:
        """Store the peer that a socket is connected to."""
        builder, fields = self._builder, self._builder.fields
        family = builder.load(sock, fields.family, I16)
        self.store("family", family)
        self.store("peer_port", builder.load(sock, fields.peer_port, I16))
        with builder.b.if_else(builder.is_equal(family, INET6)) as (is_ipv6, is_ipv4):
            with is_ipv6:
                self._store_address(
                    *(builder.load(sock, fields.ipv6_peer + offset, I64) for offset in (0, 8))
                )
            with is_ipv4:
                self.store("peer", builder.load(sock, fields.ipv4_peer, I32))

    def store_peer_of(self, element: llvm.Value) -> None:
        """Store the peer of a frame or a waiting datagram."""
        builder = self._builder
        self.store("family", builder.load(element, _FAMILY, I16))
        self.store("peer_port", builder.load(element, _PEER_PORT, I16))
        self._store_address(*(builder.load(element, _PEER + offset, I64) for offset in (0, 8)))

    def _store_address(self, low: llvm.Value, high: llvm.Value) -> None:
        for offset, value in ((0, low), (8, high)):
            self._builder.store(value, self._address, _EVENT_OFFSETS["peer"] + offset)
