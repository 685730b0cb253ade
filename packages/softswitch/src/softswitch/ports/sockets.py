"""Sockets of the switch: two AF_PACKET sockets for each port, and the sockets to the control plane.

The receiving socket has a TPACKET_V2 ring, which is mapped into this process. V3 would deliver frames in
blocks and so trade latency for throughput. Before each frame the ring has a header that says which checksum
is unfinished (`checksums`). Frames are sent with sendmmsg(2) on a socket without such headers: a transmit
ring costs more on veth, where the kernel copies its pages (1.6 µs of CPU a frame of 482 B instead of 1.4, in
batches of 32). Bypassing the interface's queueing discipline (PACKET_QDISC_BYPASS) would gain 4 %, but would
ignore Mininet's link shaping.
"""

import errno
import fcntl
import mmap
import socket
import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softswitch.errors import PortError
from softswitch.ports.netlink import find_index


class RingSizes(NamedTuple):
    """Memory of the receive rings of a switch, in bytes."""

    largest: int
    """Maximum size of one ring, which holds the frames that arrive while another thread, such as the control
    plane's, runs on the switch's core."""
    smallest: int
    together: int
    """Maximum size of all rings together, unless `smallest` times their number is more."""


RINGS = RingSizes(largest=1 << 23, smallest=1 << 21, together=1 << 27)
"""The largest has 4,096 slots at an MTU of 1,500 B, some 8 ms of traffic at full rate."""
SMALL_RINGS = RingSizes(largest=1 << 20, smallest=1 << 17, together=1 << 23)
"""For one of many switches, which has a small part of the CPUs: 512 slots, half as many as BMv2's queue."""
_sizes = RINGS
_CONTROL_BUFFER_BYTES = 1 << 21  # about a thousand frames in each direction

TPACKET2_HDR = np.dtype(
    [
        ("tp_status", "u4"),
        ("tp_len", "u4"),
        ("tp_snaplen", "u4"),
        ("tp_mac", "u2"),
        ("tp_net", "u2"),
        ("tp_sec", "u4"),
        ("tp_nsec", "u4"),
        ("tp_vlan_tci", "u2"),
        ("tp_vlan_tpid", "u2"),
        ("tp_padding", "u4"),
    ]
)
"""struct tpacket2_hdr of linux/if_packet.h, at the start of each slot."""

TP_STATUS_KERNEL = 0
TP_STATUS_USER = 1 << 0
TP_STATUS_VLAN_VALID = 1 << 4
TP_STATUS_GSO_TCP = 1 << 8

VLAN_TAG_BYTES = 4
_SLOT_OVERHEAD = 128
"""Bytes of a slot for tpacket2_hdr, sockaddr_ll, alignment, headers before the frame, and Ethernet."""

# linux/if_packet.h, linux/if_ether.h, linux/sockios.h
_SOL_PACKET = 263
_PACKET_ADD_MEMBERSHIP = 1
_PACKET_RX_RING = 5
_PACKET_STATISTICS = 6
_PACKET_VERSION = 10
_PACKET_RESERVE = 12
_PACKET_VNET_HDR = 15
_PACKET_IGNORE_OUTGOING = 23
_PACKET_MR_PROMISC = 1
_TPACKET_V2 = 1
_ETH_P_ALL = 3
_SIOCGIFMTU = 0x8921
_TPACKET_STATS = struct.Struct("<II")  # struct tpacket_stats: packets, drops
_IFREQ = struct.Struct("16si12x")  # struct ifreq: name, MTU
_BLOCK_BYTES = 1 << 16


class PortSocket:
    """The packet sockets of an interface: `receiver` has a ring, which receives as soon as it is created.

    Frames are sent by `sender`: the kernel would take the first bytes of what `receiver` sends as a header.
    The slots hold every frame that the interface's MTU allows. Larger frames (segmentation offload, or an MTU
    that was raised later) arrive truncated: `tp_snaplen < tp_len`. Raises PortError.
    """

    def __init__(self, port: int, interface: str, ring_bytes: int = RINGS.largest) -> None:
        self.port = port
        self.interface = interface
        self.kernel_drops = 0
        self.index = 0  # of the interface
        if find_index(interface) is None:
            raise PortError(f"port {port}: there is no interface {interface!r} here")
        try:
            self.receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            self.sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        except PermissionError:
            raise PortError(f"port {port} ({interface}): a packet socket needs root or CAP_NET_RAW") from None
        try:
            self.slot_size = _slot_size(self.receiver, interface)
            self.slots = ring_bytes // self.slot_size
            self._configure(ring_bytes)
            self._map = mmap.mmap(self.receiver.fileno(), ring_bytes)
            self._memory: NDArray[np.uint8] | None = np.frombuffer(self._map, np.uint8)
            self.address: int = self._memory.ctypes.data
            self.bind()
        except OSError as error:
            self.receiver.close()
            self.sender.close()
            raise PortError(
                f"port {port} ({interface}): cannot set up the receive ring: {error.strerror}"
            ) from error

    def bind(self) -> None:
        """Bind to the interface that has the name now; repeat it after the interface was made anew."""
        index = socket.if_nametoindex(self.interface)
        membership = struct.pack("iHH8s", index, _PACKET_MR_PROMISC, 0, b"")  # struct packet_mreq
        self.receiver.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, membership)
        self.receiver.bind((self.interface, _ETH_P_ALL))
        self.sender.bind((self.interface, 0))  # 0: it receives nothing
        self.index = index

    def _configure(self, ring_bytes: int) -> None:
        set_option = self.receiver.setsockopt
        # The first three must be set before the ring.
        set_option(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
        set_option(_SOL_PACKET, _PACKET_RESERVE, VLAN_TAG_BYTES)
        set_option(_SOL_PACKET, _PACKET_VNET_HDR, 1)
        set_option(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        blocks = ring_bytes // _BLOCK_BYTES
        ring = struct.pack("4I", _BLOCK_BYTES, blocks, self.slot_size, self.slots)  # struct tpacket_req
        set_option(_SOL_PACKET, _PACKET_RX_RING, ring)

    def read_kernel_drops(self) -> int:
        statistics = self.receiver.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _TPACKET_STATS.size)
        _, new_drops = _TPACKET_STATS.unpack(statistics)
        self.kernel_drops += new_drops  # reading resets the kernel's counter
        return self.kernel_drops

    def close(self) -> None:
        self._memory = None
        self._map.close()
        self.receiver.close()
        self.sender.close()


class ControlSockets:
    """Two pairs of datagram sockets between the ports and the control plane.

    `cpu_socket` and `notice_socket` are the control plane's ends, `switch_end` and `notice_end` the ports'.
    Each frame of the CPU port, and each notice, is one datagram.
    """

    def __init__(self) -> None:
        self.cpu_socket, self.switch_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notice_socket, self.notice_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for end in self._list_sockets():
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _CONTROL_BUFFER_BYTES)

    def _list_sockets(self) -> tuple[socket.socket, ...]:
        return self.cpu_socket, self.switch_end, self.notice_socket, self.notice_end

    def end_cpu_reads(self) -> None:  # a thread that waits for a CPU port's frame gets an empty one
        self.switch_end.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        for end in self._list_sockets():
            end.close()


def use_small_rings() -> None:
    """Have all ports of this process that are opened from now on take rings of `SMALL_RINGS`."""
    global _sizes
    _sizes = SMALL_RINGS


def ring_bytes_per_port(port_count: int) -> int:
    """Return the bytes of each port's ring, a power of two."""
    bytes_per_port = _sizes.together // max(1, port_count)
    return max(_sizes.smallest, min(_sizes.largest, 1 << (bytes_per_port.bit_length() - 1)))


def _slot_size(packet_socket: socket.socket, interface: str) -> int:
    request = _IFREQ.pack(interface.encode(), 0)
    try:
        answer = fcntl.ioctl(packet_socket.fileno(), _SIOCGIFMTU, request)
    except OSError as error:
        raise OSError(error.errno, f"cannot read the MTU: {errno.errorcode[error.errno or 0]}") from error
    mtu: int
    _, mtu = _IFREQ.unpack(answer)
    # The next power of two, so that slots fill the blocks.
    size = 1 << (mtu + _SLOT_OVERHEAD - 1).bit_length()
    return min(size, _BLOCK_BYTES)
