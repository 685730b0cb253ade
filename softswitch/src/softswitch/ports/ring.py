"""One AF_PACKET socket a port: a TPACKET_V2 receive ring mapped into this process, and the way out.

V2 and not V3, because V3 hands frames over by the block and so trades latency for throughput. Frames are
sent with sendmmsg(2) on the same socket and not from a transmit ring, whose pages the kernel must copy on
veth: of 482 B in batches of 32, 1.4 µs of CPU a frame against 1.6. Nor past the interface's queueing
discipline (PACKET_QDISC_BYPASS): that gains 4 %, and Mininet's link shaping would be ignored.
"""

import errno
import fcntl
import mmap
import socket
import struct

import numpy as np
from numpy.typing import NDArray

from softswitch.errors import SwitchError

RING_BYTES = 1 << 23
"""Memory of one receive ring at most: 4,096 slots at an MTU of 1,500 B, some 8 ms at full speed.

So much, since another thread on the switch's core, as the control plane's, may have it for some ms.
"""
_LEAST_RING_BYTES = 1 << 21
_ALL_RINGS_BYTES = 1 << 27

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

VLAN_TAG = 4
_SLOT_OVERHEAD = 128  # tpacket2_hdr, sockaddr_ll, alignment, PACKET_RESERVE, Ethernet, two VLAN tags

# linux/if_packet.h, linux/if_ether.h, linux/sockios.h
_SOL_PACKET = 263
_PACKET_ADD_MEMBERSHIP = 1
_PACKET_RX_RING = 5
_PACKET_STATISTICS = 6
_PACKET_VERSION = 10
_PACKET_RESERVE = 12
_PACKET_IGNORE_OUTGOING = 23
_PACKET_MR_PROMISC = 1
_TPACKET_V2 = 1
_ETH_P_ALL = 3
_SIOCGIFMTU = 0x8921
_BLOCK_BYTES = 1 << 16


class PortError(SwitchError):
    """A port that cannot be opened or described; the text names the port and its interface."""


class PortSocket:
    """The packet socket of interface `interface`, with its receive ring; frames come in at once.

    The slots hold every frame that the interface's MTU allows; larger ones (segmentation offload, an MTU
    raised later) arrive cut, `tp_snaplen < tp_len`. Raises PortError.
    """

    def __init__(self, port: int, interface: str, ring_bytes: int = RING_BYTES) -> None:
        self.port = port
        self.interface = interface
        self.kernel_drops = 0
        try:
            index = socket.if_nametoindex(interface)
        except OSError:
            raise PortError(f"port {port}: there is no interface {interface!r} here") from None
        try:
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        except PermissionError:
            raise PortError(f"port {port} ({interface}): a packet socket needs root or CAP_NET_RAW") from None
        try:
            self.slot_size = _slot_size(self.socket, interface)
            self.slots = ring_bytes // self.slot_size
            self._configure(index, ring_bytes)
            self._map = mmap.mmap(self.socket.fileno(), ring_bytes)
            self._memory: NDArray[np.uint8] | None = np.frombuffer(self._map, np.uint8)
            self.address: int = self._memory.ctypes.data
            self.socket.bind((interface, _ETH_P_ALL))
        except OSError as error:
            self.socket.close()
            raise PortError(f"port {port} ({interface}): no receive ring: {error.strerror}") from error

    def _configure(self, index: int, ring_bytes: int) -> None:
        option = self.socket.setsockopt
        option(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
        option(_SOL_PACKET, _PACKET_RESERVE, VLAN_TAG)
        option(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        blocks = ring_bytes // _BLOCK_BYTES
        ring = struct.pack("4I", _BLOCK_BYTES, blocks, self.slot_size, self.slots)
        option(_SOL_PACKET, _PACKET_RX_RING, ring)
        membership = struct.pack("iHH8s", index, _PACKET_MR_PROMISC, 0, b"")
        option(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, membership)

    def fileno(self) -> int:
        """File descriptor of the socket."""
        return self.socket.fileno()

    def read_kernel_drops(self) -> int:
        """Frames that found the ring full, since the port was opened."""
        statistics = self.socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
        self.kernel_drops += int.from_bytes(statistics[4:8], "little")  # the kernel counts from 0 again
        return self.kernel_drops

    def close(self) -> None:
        """Give the ring and the socket back; harmless when repeated."""
        self._memory = None
        self._map.close()
        self.socket.close()


def share_of(ports: int) -> int:
    """Bytes of each ring where there are so many: a power of two, 128 MiB for all of 64 ports."""
    share = _ALL_RINGS_BYTES // max(1, ports)
    return max(_LEAST_RING_BYTES, min(RING_BYTES, 1 << (share.bit_length() - 1)))


def _slot_size(any_socket: socket.socket, interface: str) -> int:
    request = struct.pack("16s16x", interface.encode())
    try:
        answer = fcntl.ioctl(any_socket.fileno(), _SIOCGIFMTU, request)
    except OSError as error:
        raise OSError(error.errno, f"cannot read the MTU: {errno.errorcode[error.errno or 0]}") from error
    mtu: int = struct.unpack_from("i", answer, 16)[0]
    size = 1 << (mtu + _SLOT_OVERHEAD - 1).bit_length()
    return min(size, _BLOCK_BYTES)
