"""Checksums that senders on this machine leave to their interfaces, finished as an interface would.

A frame from a local socket crosses a veth with the sum of its pseudo-header where its checksum belongs, and
where to sum from beside it. On a wire there are no such frames, so programs do not see them either. Compiled
code.
"""

import numpy as np

from nativekit.compile import carray, compiled, int64
from nativekit.memory import pointer
from nativekit.records import UInt8, UInt16, dtype_of


class VnetHeader:
    """struct virtio_net_hdr, which the kernel writes before each frame in a ring (PACKET_VNET_HDR)."""

    status: UInt8
    gso_type: UInt8
    hdr_len: UInt16
    gso_size: UInt16
    csum_start: UInt16  # offset in the frame from which to sum
    csum_offset: UInt16  # offset of the checksum from there


VNET_HEADER = dtype_of(VnetHeader)
VNET_HEADER_BYTES = VNET_HEADER.itemsize
NEEDS_CHECKSUM = 1
_SCTP_OFFSET = 8
"""Offset of SCTP's checksum, which is a CRC: it is left as it is."""


@compiled
def finish_checksum(frame: int, length: int) -> None:
    """Store the checksum of a frame in a ring if the header before it says that it has none yet."""
    header: VnetHeader = carray(pointer(frame - VNET_HEADER_BYTES), 1, VNET_HEADER)[0]
    if header.status & NEEDS_CHECKSUM == 0 or header.csum_offset == _SCTP_OFFSET:
        return
    start, position = int64(header.csum_start), int64(header.csum_start) + int64(header.csum_offset)
    if position + 2 > length:
        return
    data = carray(pointer(frame), length, np.uint8)
    total: int = 0
    for i in range(start, length - 1, 2):
        total += int64(data[i]) << 8 | int64(data[i + 1])
    if (length - start) & 1:
        total += int64(data[length - 1]) << 8
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    checksum = ~total & 0xFFFF
    if checksum == 0:  # which would mean that there is none
        checksum = 0xFFFF
    data[position], data[position + 1] = checksum >> 8, checksum & 0xFF
