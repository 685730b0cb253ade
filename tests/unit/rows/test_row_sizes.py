"""The published sizes of rows (docs/design.md), counted from the format of an RPC."""

from __future__ import annotations

from controller.sizes import SLOTS
from foundation.protocol.frames import FRAME_OVERHEAD
from foundation.protocol.header import DIMS, HEADER_BYTES, KEYS, LANES, QUAD, VALUES, lane_bytes, lanes_of_dim
from tools.evidence.result import published_table


def test_published_sizes_of_rows_follow_from_the_format_of_an_rpc() -> None:
    expected = {}
    for dim in DIMS:
        lanes = lanes_of_dim(dim)
        push = FRAME_OVERHEAD + HEADER_BYTES + lanes * lane_bytes(KEYS | VALUES, dim)
        banks = -(-dim // QUAD)
        expected[str(dim)] = lanes, push, push / (lanes * dim), LANES // banks * SLOTS
    assert {row.name: row.cells for row in published_table("row-sizes").rows} == expected
