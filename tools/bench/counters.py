"""The processor's counters of cache and TLB misses, where there are any: a virtual machine often has none."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}  # numbers of the system call
# Constants of linux/perf_event.h: types of events, an event of each, and the rest of a cache event.
_HARDWARE, _CACHE = 0, 3
_CACHE_MISSES = 3
_DTLB, _READ, _MISS = 3, 0, 1
EVENTS = {
    "cache misses": (_HARDWARE, _CACHE_MISSES),
    "TLB misses": (_CACHE, _DTLB | _READ << 8 | _MISS << 16),
}
_ATTRIBUTE_BYTES = 128
_FLAGS_OFFSET = 40  # of the flags in struct perf_event_attr
_DISABLED, _EXCLUDE_KERNEL = 1 << 0, 1 << 5
_ENABLE, _DISABLE = 0x2400, 0x2401  # requests of ioctl
_THIS_THREAD, _ANY_CPU, _NO_GROUP, _NO_FLAGS = 0, -1, -1, 0
_libc = ctypes.CDLL(None, use_errno=True)


def missing(events: Mapping[str, tuple[int, int]] = EVENTS) -> str:
    """Return why the counters are not available; empty if they are."""
    for name, event in events.items():
        try:
            os.close(_open(event))
        except OSError as error:
            why = "this machine has none" if error.errno == errno.ENOENT else os.strerror(error.errno or 0)
            return f"{name}: {why}"
    return ""


@contextmanager
def count_events(
    is_enabled: bool, events: Mapping[str, tuple[int, int]] = EVENTS
) -> Iterator[dict[str, int]]:
    """Count the events of this thread in the block; the dictionary has the counts after its end."""
    counts: dict[str, int] = {}
    descriptors = {name: _open(event) for name, event in events.items()} if is_enabled else {}
    try:
        for descriptor in descriptors.values():
            fcntl.ioctl(descriptor, _ENABLE)
        yield counts
        for name, descriptor in descriptors.items():
            fcntl.ioctl(descriptor, _DISABLE)
            [counts[name]] = struct.unpack("Q", os.read(descriptor, 8))
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)


def _open(event: tuple[int, int]) -> int:
    kind, config = event
    attribute = bytearray(_ATTRIBUTE_BYTES)
    struct.pack_into("IIQ", attribute, 0, kind, _ATTRIBUTE_BYTES, config)
    struct.pack_into("Q", attribute, _FLAGS_OFFSET, _DISABLED | _EXCLUDE_KERNEL)
    buffer = (ctypes.c_char * _ATTRIBUTE_BYTES).from_buffer(attribute)
    number = _PERF_EVENT_OPEN.get(platform.machine(), -1)
    descriptor = int(_libc.syscall(number, buffer, _THIS_THREAD, _ANY_CPU, _NO_GROUP, _NO_FLAGS))
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return descriptor
