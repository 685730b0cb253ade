"""Memory of the receive rings of a switch, by its number of ports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch.ports import sockets
from softswitch.ports.layout import MAX_PORTS
from softswitch.ports.sockets import RINGS, SMALL_RINGS, RingSizes, ring_bytes_per_port

BLOCK_BYTES = 1 << 16


@pytest.mark.parametrize("sizes", [RINGS, SMALL_RINGS], ids=["rings", "small rings"])
@given(ports=st.integers(1, MAX_PORTS - 1))
def test_rings_fill_blocks_and_their_sum_is_limited(sizes: RingSizes, ports: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sockets, "_sizes", sizes)
        size = ring_bytes_per_port(ports)
    assert size % BLOCK_BYTES == 0 and size & (size - 1) == 0
    assert sizes.smallest <= size <= sizes.largest
    assert ports * size <= sizes.together
    if size < sizes.largest:
        assert 2 * ports * size > sizes.together or size == sizes.smallest
