"""The packet function's signature, from which `codegen`, `jit` (ctypes) and `native` (numba) build types.

    int32 process(void *state, uint32 port, const uint8 *frame, uint32 length,
                  uint64 t_in, uint64 now, uint8 *out, uint32 capacity)

It processes one frame that arrived at a port and returns the number of records it wrote to `out`
(`memory.output`). Times are in µs since the switch started.

A *buffered* function stops where a packet would enter a port's queue, and writes the packet as a record
(`memory.waiting`). Called with the port `DEPARTURE_PORT` and such a record as frame, it runs egress;
`t_in` is unused.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    ADDRESS = "address"
    INT32 = "int32"
    UINT32 = "uint32"
    UINT64 = "uint64"


class Argument(NamedTuple):
    name: str
    kind: Kind


ARGUMENTS = (
    Argument("state", Kind.ADDRESS),
    Argument("port", Kind.UINT32),
    Argument("frame", Kind.ADDRESS),
    Argument("length", Kind.UINT32),
    Argument("t_in", Kind.UINT64),
    Argument("now", Kind.UINT64),
    Argument("out", Kind.ADDRESS),
    Argument("capacity", Kind.UINT32),
)
RESULT_KIND = Kind.INT32
PACKET_FUNCTION_NAME = "process"
DEPARTURE_PORT = 1 << 31
"""Value of `port` for a packet that has left its queue."""
