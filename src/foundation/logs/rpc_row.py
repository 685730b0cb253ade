"""The row of an answered RPC, without Polars, which workers of scripts need not import."""

from __future__ import annotations

from typing import Annotated

from nativekit.records import Octets, UInt8, UInt16, UInt32, dtype_of


class RpcRow:
    """An answered RPC in the memory of a worker, before it is logged.

    Times are in ns, sizes in bytes of the UDP payload. The switch has served `served` of the `lanes`.
    """

    t0: int
    arrival: int
    w_proc: int
    w_queue: int
    ps_proc: UInt32
    ps_queue: UInt32
    residence_us: UInt32  # in µs, as in the header
    iteration: UInt32
    attempts: UInt32
    ps: UInt16
    request_bytes: UInt16
    response_bytes: UInt16
    op: UInt8
    lanes: UInt8
    served: UInt8
    unused: Annotated[Octets, 3]  # to a multiple of 8 bytes


ROW = dtype_of(RpcRow)
