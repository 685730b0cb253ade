"""Frames of a port in pcap files, one for each direction, named and written as BMv2's `--pcap` does.

Each frame is one write, so that a reader finds whole frames at any time.
"""

import contextlib
import os
import struct
from pathlib import Path
from typing import Any

from nativekit.compile import compiled, int64
from nativekit.libc import writev
from softswitch.ports.ring import PortError

_HEADER = struct.Struct("<IHHiIII")
_MAGIC, _MAJOR, _MINOR, _SNAPLEN, _ETHERNET = 0xA1B2C3D4, 2, 4, 262_144, 1
_RECORD_BYTES = 16
NO_FILE = -1

Switch = Any  # a SWITCH record


def open_files(folder: Path, interface: str, opened: contextlib.ExitStack) -> tuple[int, int]:
    """New files for what comes in and goes out, by descriptor, open as long as `opened`; raises PortError."""
    made = []
    for name in (f"{interface}_in.pcap", f"{interface}_out.pcap"):
        path = folder / name
        try:
            descriptor = os.open(
                path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644
            )
            opened.callback(os.close, descriptor)
            os.write(descriptor, _HEADER.pack(_MAGIC, _MAJOR, _MINOR, 0, 0, _SNAPLEN, _ETHERNET))
        except OSError as error:
            raise PortError(f"{path}: {error.strerror}") from None
        made.append(descriptor)
    return made[0], made[1]


@compiled
def capture(switch: Switch, p: int, direction: int, frames: Any, count: int) -> None:
    """Write the first `count` frames, each with its own time.

    A file that takes no more (the disk is full) ends there.
    """
    port = switch.ports[p]
    head, vector = switch.pcap_record, switch.iovec
    vector[0], vector[1] = head.ctypes.data, _RECORD_BYTES
    for k in range(count):
        frame = frames[k]
        time = int64(switch.start_ns) // 1_000 + int64(frame.time)
        head[0], head[1] = time // 1_000_000, time % 1_000_000
        head[2] = head[3] = frame.length
        vector[2], vector[3] = frame.base, frame.length
        if writev(port.capture[direction], vector.ctypes.data, 2) != _RECORD_BYTES + frame.length:
            port.capture[direction] = NO_FILE
            return
