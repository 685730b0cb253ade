"""Packing where each switch holds rows of some servers, and a row travels only in RPCs to these."""

from __future__ import annotations

import numpy as np
import pytest

from hotline_paper import packing_by_switch
from hotline_paper.packing import SKEW, choose_operations, hot_rows_of, make_trace, pack_trace
from hotline_paper.packing_by_switch import (
    DIMS,
    KEYS,
    SERVERS,
    SWITCHES,
    pack_by_switch,
    packings,
    switches_of,
)
from tools.evidence.result import published_table


@pytest.mark.parametrize("dim", DIMS)
def test_rows_of_a_single_switch_are_packed_as_without_a_division(dim: int) -> None:
    trace, top_k = make_trace(SKEW, 500, dim), hot_rows_of(dim)
    packed = pack_trace(trace, top_k, SERVERS)
    expected = packed.rpcs_with_offload, packed.server_rpcs_with_offload
    assert pack_by_switch(trace, choose_operations(trace, top_k), 1) == pytest.approx(expected)


def test_each_server_belongs_to_one_switch_and_switches_have_equal_numbers_of_servers() -> None:
    trace = make_trace(SKEW, 500)
    rows = np.arange(20_000)
    servers = switches_of(rows, trace, SERVERS)
    for switches in SWITCHES:
        found = switches_of(rows, trace, switches)
        pairs = {*zip(servers.tolist(), found.tolist(), strict=True)}
        assert len(pairs) == SERVERS
        assert np.bincount([switch for _, switch in pairs]).tolist() == [SERVERS // switches] * switches


def test_more_switches_need_more_rpcs_and_at_least_as_many_packets_to_servers() -> None:
    found = list(packings(1, 500))
    assert [each.switches for each in found] == list(SWITCHES)
    assert sorted(each.rpcs for each in found) == [each.rpcs for each in found]
    assert min(each.server_rpcs for each in found) == found[0].server_rpcs


@pytest.mark.parametrize(("dim", "keys"), [(dim, keys) for dim in DIMS for keys in KEYS[:1]])
def test_the_published_table_has_the_numbers_of_the_module(dim: int, keys: int) -> None:
    table = published_table("packing-by-switch")
    [row] = [row for row in table.rows if row.names == (f"{dim}", f"{keys:,}")]
    found = list(packings(dim, keys))
    expected = [each.rpcs for each in found] + [each.server_rpcs for each in found]
    assert list(row.cells) == pytest.approx(expected)
    assert packing_by_switch.SERVERS == 20
