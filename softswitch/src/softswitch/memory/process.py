"""The packet function's signature: `codegen` (LLVM), `jit` (ctypes) and `native` (numba) make theirs of it.

    int32 process(void *state, uint32 port, const uint8 *frame, uint32 length,
                  uint64 t_in, uint64 now, uint8 *out, uint32 capacity)

It runs one frame that came in by a port and returns the number of records that it wrote to `out`
(`memory.output`). Times are in µs since the switch started.

A *buffered* function ends where a queue of a port begins: what goes to egress is a record (`memory.waiting`).
Called with the port `DEPARTS` and such a record as the frame, it does the rest; `t_in` has no meaning then.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """Types of arguments and result."""

    ADDRESS = "address"
    INT32 = "int32"
    UINT32 = "uint32"
    UINT64 = "uint64"


class Argument(NamedTuple):
    """One argument of the packet function."""

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
RESULT = Kind.INT32
NAME = "process"
DEPARTS = 1 << 31
"""The `port` of a packet that has left its queue."""
