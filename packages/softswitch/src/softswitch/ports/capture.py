"""Pcap files of a port's frames, one for each direction, with the names and the format of BMv2's `--pcap`.

Each frame is one write, so that a reader finds whole frames at any time.
"""

import contextlib
import os
from pathlib import Path

from nativekit.compile import compiled
from nativekit.libc import writev
from nativekit.records import Records
from softswitch.errors import PortError
from softswitch.pcap import RECORD_HEADER_BYTES, create_file
from softswitch.ports.layout import FrameRecord, SwitchRecord

_NS_PER_US, _US_PER_S = 1_000, 1_000_000
NO_FILE = -1


def open_files(folder: Path, interface: str, exit_stack: contextlib.ExitStack) -> tuple[int, int]:
    """Create an interface's files; return descriptors (IN, OUT), closed by `exit_stack`. Raises PortError."""
    descriptors = []
    for name in (f"{interface}_in.pcap", f"{interface}_out.pcap"):
        path = folder / name
        try:
            descriptor = create_file(path)
        except OSError as error:
            raise PortError(f"{path}: {error.strerror}") from None
        exit_stack.callback(os.close, descriptor)
        descriptors.append(descriptor)
    return descriptors[0], descriptors[1]


@compiled
def capture(switch: SwitchRecord, p: int, direction: int, frames: Records[FrameRecord], count: int) -> None:
    """Write the first `count` frames, each with its Unix time; a failed write (full disk) ends the file."""
    port = switch.ports[p]
    record_header, vector = switch.pcap_record, switch.iovec
    vector[0], vector[1] = record_header.ctypes.data, RECORD_HEADER_BYTES
    for i in range(count):
        frame = frames[i]
        time_us = (switch.start_ns + switch.unix_offset_ns) // _NS_PER_US + frame.time
        record_header[0], record_header[1] = time_us // _US_PER_S, time_us % _US_PER_S
        record_header[2] = record_header[3] = frame.length
        vector[2], vector[3] = frame.address, frame.length
        if writev(port.capture[direction], vector.ctypes.data, 2) != RECORD_HEADER_BYTES + frame.length:
            port.capture[direction] = NO_FILE
            return
