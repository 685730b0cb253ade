"""Rows in the switch: which slots they take, quotas in slots, and what a controller knows of a job's rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.errors import HotSetError
from controller.hotset.migrate import plan
from controller.hotset.quotas import first_per_lane, remaining_keys, slots_of, slots_of_entries
from controller.hotset.rules import TOP_K
from controller.sizes import SLOTS
from controller.tables import Change, HotParam, JobRow, RowEncoder, Update
from experiment.design_parts import initial_rows
from experiment.errors import ConfigError
from experiment.run_config import Config, load_config, max_top_k
from foundation.designs.registry import design
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import DIMS, LANES, QUAD, lanes_of_dim, padded_dim
from foundation.protocol.rows import ONE_VALUE, RowRange, RowRanges, banks_of_row, dims_in, lanes_of_rows
from switch_harness.wording import mentions

JOB, OTHER = 4, 6
FEW_SLOTS = 6
dims = st.sampled_from(DIMS)


@st.composite
def ranges(draw: st.DrawFn) -> RowRanges:
    firsts = [0, *sorted(draw(st.sets(st.integers(1, 199), max_size=4)))]
    return tuple(RowRange(first, draw(dims)) for first in firsts)


keys = st.lists(st.integers(0, 199), unique=True, max_size=40)


def registers_of(param: HotParam) -> list[tuple[int, int, int]]:
    """Return the registers (bank, number, slot) of an entry's values, as the program has them."""
    return [
        (param.lane * max(param.dim, QUAD) // QUAD + value // QUAD, value % QUAD, param.slot)
        for value in range(param.dim)
    ]


@given(ranges(), keys, keys, ranges(), keys)
@settings(deadline=None)
def test_no_two_rows_of_any_dims_share_a_register(
    rows: RowRanges, first: list[int], then: list[int], rows_of_other: RowRanges, others: list[int]
) -> None:
    entries: dict[tuple[int, int], HotParam] = {}
    for job, wanted, of_job in ((OTHER, others, rows_of_other), (JOB, first, rows), (JOB, then, rows)):
        try:
            moves = plan(entries.values(), job, wanted, True, slots=FEW_SLOTS, ranges=of_job)
        except HotSetError:
            # A row finds no slot that is free in all of its banks.
            continue
        for move in moves.leaving:
            del entries[job, move.param.key]
        for move in moves.arriving:
            entries[job, move.param.key] = move.param
        assert {key for of, key in entries if of == job} == set(wanted)
        for (of, key), param in entries.items():
            if of == job:
                assert param.dim == dims_in(of_job, np.array([key]))[0]
                assert param.lane == lane_of(key, lanes_of_dim(param.dim))
        registers = [register for param in entries.values() for register in registers_of(param)]
        assert len(set(registers)) == len(registers)
        assert all(bank < LANES and slot < FEW_SLOTS for bank, _, slot in registers)


@pytest.mark.parametrize("dim", DIMS)
def test_as_many_rows_fit_as_the_banks_have_registers_for(dim: int) -> None:
    lanes, rows = lanes_of_dim(dim), (RowRange(0, dim),)
    fitting = {lane: [key for key in range(3000) if lane_of(key, lanes) == lane][:2] for lane in range(lanes)}
    wanted = [key for of_lane in fitting.values() for key in of_lane]
    assert len(plan([], JOB, wanted, True, slots=2, ranges=rows).arriving) == len(wanted) == 2 * lanes
    assert lanes * banks_of_row(dim) == LANES
    with pytest.raises(HotSetError, match=mentions("lane 0", 1, 2)):
        plan([], JOB, wanted, True, slots=1, ranges=rows)


@given(ranges(), keys)
def test_slots_are_counted_by_bank(rows: RowRanges, wanted: list[int]) -> None:
    moves = plan([], JOB, wanted, True, ranges=rows).arriving
    expected = np.zeros(LANES, np.int64)
    for move in moves:
        for bank in {bank for bank, _, _ in registers_of(move.param)}:
            expected[bank] += 1
    np.testing.assert_array_equal(slots_of(wanted, rows), expected)
    np.testing.assert_array_equal(slots_of_entries([move.param for move in moves]), expected)


@given(ranges(), keys, st.integers(0, 3))
def test_the_first_rows_that_find_room_are_kept(rows: RowRanges, wanted: list[int], slots: int) -> None:
    room, kept = [slots] * LANES, []
    for key in wanted:
        dim = int(dims_in(rows, np.array([key]))[0])
        lane = int(lanes_of_rows(np.array([key], np.uint64), np.array([dim]))[0])
        banks = range(lane * banks_of_row(dim), (lane + 1) * banks_of_row(dim))
        if all(room[bank] > 0 for bank in banks):
            kept.append(key)
            for bank in banks:
                room[bank] -= 1
    assert first_per_lane(wanted, np.full(LANES, slots), rows) == kept


def test_a_job_gives_back_wide_rows_for_the_quota_of_another_job() -> None:
    wide = (RowRange(0, 128),)
    entries = [move.param for move in plan([], OTHER, range(3), True, slots=3, ranges=wide).arriving]
    quotas = {JOB: 2 * LANES, OTHER: LANES}
    remaining = remaining_keys(entries, JOB, range(60), quotas, slots=3, ranges={OTHER: wide})
    assert remaining == {OTHER: [0]}


@pytest.mark.parametrize("quota", [0, 64, 2**17])
@pytest.mark.parametrize(
    "rows", [ONE_VALUE, (RowRange(0, 64),), (RowRange(0, 1), RowRange(7, 16), RowRange(2**63, 128))]
)
def test_a_jobs_rows_and_quota_are_kept_in_its_entry(rows: RowRanges, quota: int) -> None:
    from finsy import P4Schema, P4TableEntry

    row, p4info = JobRow(JOB, True, False, quota, rows), design("hotset").p4info
    schema = P4Schema(p4info)
    entity = RowEncoder(schema.p4info).update(Update(Change.INSERT, row)).entity
    assert JobRow.from_entry(P4TableEntry.decode(entity, schema)) == row


# -- the setting


@pytest.mark.parametrize("dim", [2, 10, 16, 64, 100, 128])
def test_a_run_with_rows_has_sizes_that_fit(dim: int) -> None:
    config = load_config([f"DIM={dim}"])
    assert config.top_k == min(20_000, max_top_k(3, dim)) and config.has_room_for_profile
    assert config.workload.parameters == min(900_000, 2**24 // padded_dim(dim))
    found = {row.ranges for row in initial_rows(config) if isinstance(row, JobRow)}
    assert found == {(RowRange(0, padded_dim(dim)),)}
    assert config.rule == TOP_K
    assert max_top_k(1, dim) == LANES * SLOTS // banks_of_row(padded_dim(dim)) * 7 // 8


@pytest.mark.parametrize(
    ("variables", "reported"),
    [
        (["DIM=0"], "DIM=0: "),
        (["DIM=129"], "DIM=129: "),
        (["DIM=16", "TOP_K=20000"], r"TOP_K|top_k \(20000\) must be at most 14,336 .* of rows of 16 values"),
        (["DIM=4", "SCRIPT=train.py"], r"dim \(4\) and script"),
        (
            ["DIM=4", "DESIGN=switchml"],
            r"dim \(4\) and design switchml: .* expected design hotset, collect, none",
        ),
    ],
)
def test_rows_that_a_run_cannot_have_are_refused(variables: list[str], reported: str) -> None:
    with pytest.raises(ConfigError, match=reported):
        load_config(variables)


@pytest.mark.parametrize("codec", ["scapy", "mixed"])
@pytest.mark.parametrize("variables", [["DIM=16"], ["DIM=128"], ["TABLES=criteo"]], ids=str)
def test_agents_of_scapy_take_rows_with_their_default_sizes(codec: str, variables: list[str]) -> None:
    config, of_ones = load_config([*variables, f"CODEC={codec}"]), load_config([f"CODEC={codec}"])
    assert config.max_dim > 1 and config.codec == codec
    assert (config.top_k, config.workload) == (of_ones.top_k, of_ones.workload)
    assert config.window == of_ones.window and config.has_room_for_profile


def test_rows_of_one_value_are_the_default() -> None:
    assert Config().dim == 1 and Config(dim=1) == Config()
