"""Packing where hot rows ride only in RPCs to servers behind the same switch."""

from __future__ import annotations

import numpy as np
import pytest

from hotline_paper import packing_by_home
from hotline_paper.packing import SKEW, choose_operations, hot_rows_of, make_trace, pack_trace
from hotline_paper.packing_by_home import DIMS, HOMES, KEYS, SERVERS, homes_of, pack_by_home, packings
from tools.evidence.result import published_table


@pytest.mark.parametrize("dim", DIMS)
def test_one_home_is_packed_as_one_switch(dim: int) -> None:
    trace, top_k = make_trace(SKEW, 500, dim), hot_rows_of(dim)
    packed = pack_trace(trace, top_k, SERVERS)
    expected = packed.rpcs_with_offload, packed.server_rpcs_with_offload
    assert pack_by_home(trace, choose_operations(trace, top_k), 1) == pytest.approx(expected)


def test_each_server_has_one_home_and_homes_have_as_many_servers() -> None:
    trace = make_trace(SKEW, 500)
    rows = np.arange(20_000)
    servers = homes_of(rows, trace, SERVERS)
    for homes in HOMES:
        found = homes_of(rows, trace, homes)
        pairs = {*zip(servers.tolist(), found.tolist(), strict=True)}
        assert len(pairs) == SERVERS
        assert np.bincount([home for _, home in pairs]).tolist() == [SERVERS // homes] * homes


def test_more_homes_need_more_rpcs_and_at_least_as_many_packets_to_servers() -> None:
    found = list(packings(1, 500))
    assert [each.homes for each in found] == list(HOMES)
    assert sorted(each.rpcs for each in found) == [each.rpcs for each in found]
    assert min(each.server_rpcs for each in found) == found[0].server_rpcs


@pytest.mark.parametrize(("dim", "keys"), [(dim, keys) for dim in DIMS for keys in KEYS[:1]])
def test_the_published_table_has_the_numbers_of_the_module(dim: int, keys: int) -> None:
    table = published_table("packing-by-home")
    [row] = [row for row in table.rows if row.names == (f"{dim}", f"{keys:,}")]
    found = list(packings(dim, keys))
    expected = [each.rpcs for each in found] + [each.server_rpcs for each in found]
    assert list(row.cells) == pytest.approx(expected)
    assert packing_by_home.SERVERS == 20
