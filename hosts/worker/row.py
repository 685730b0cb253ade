"""One answered RPC, as the logs of all designs have it."""

from __future__ import annotations

from typing import Annotated

from nativekit.records import Octets, UInt8, UInt16, UInt32, dtype_of


class Row:
    """Times in ns, sizes of the UDP payload in bytes; of the `lanes`, which are parameters, the switch has
    `served` some."""

    t0: int
    arrival: int
    w_proc: int
    w_queue: int
    ps_proc: UInt32
    ps_queue: UInt32
    residence_us: UInt32
    iteration: UInt32
    attempts: UInt32
    ps: UInt16
    request_bytes: UInt16
    response_bytes: UInt16
    op: UInt8
    lanes: UInt8
    served: UInt8
    unused: Annotated[Octets, 3]


ROW = dtype_of(Row)
