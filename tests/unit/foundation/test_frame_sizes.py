"""All packets of a run fit into a VXLAN over Ethernet, so that none is fragmented."""

from __future__ import annotations

import numpy as np
import pytest

from foundation.protocol.control import (
    MAX_KEYS,
    MAX_VALUES_KEYS,
    WITH_VALUES,
    Command,
    Control,
    Status,
    build,
    max_values_keys,
)
from foundation.protocol.header import (
    DIMS,
    FIRST,
    HEADER_BYTES,
    KEY_BYTES,
    KEYS,
    SECOND,
    VALUE_BYTES,
    VALUES,
    lane_bytes,
    lanes_of_dim,
)

INNER_MTU = 1450
HEADERS_BYTES = 20 + 8  # of IPv4 and UDP


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize(
    "flags", [KEYS, VALUES, KEYS | VALUES, KEYS | VALUES | FIRST, KEYS | VALUES | SECOND]
)
def test_rpcs_of_all_dims_fit_into_a_vxlan_frame(dim: int, flags: int) -> None:
    datagram = HEADER_BYTES + lanes_of_dim(dim) * lane_bytes(flags, dim)
    assert datagram + HEADERS_BYTES <= INNER_MTU


@pytest.mark.parametrize("dim", DIMS)
def test_answers_with_rows_fit_and_an_additional_row_would_not(dim: int) -> None:
    fixed = HEADERS_BYTES + len(build(Control(Command.HELLO, 1, 0, 1, 1, np.empty(0, np.uint64))))
    row_bytes = KEY_BYTES + VALUE_BYTES * dim
    rows = max_values_keys(dim)
    assert fixed + rows * row_bytes <= INNER_MTU < fixed + (rows + 1) * row_bytes


@pytest.mark.parametrize("command", Command)
def test_commands_and_their_answers_fit(command: Command) -> None:
    number = MAX_VALUES_KEYS if command in WITH_VALUES else MAX_KEYS
    keys = np.arange(number, dtype=np.uint64)
    datagram = Control(command, job=1, ps=0, epoch=1, seq=1, keys=keys)
    answer = datagram.answer(
        Status.OK, np.arange(number, dtype=np.uint32) if command in WITH_VALUES else None
    )
    assert all(len(build(each)) + HEADERS_BYTES <= INNER_MTU for each in (datagram, answer))
