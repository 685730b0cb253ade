"""Layout of a program's state: every region has its size, and none overlaps another."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch import ir
from softswitch.ir import MatchKind
from softswitch.memory.layout import make_layout
from softswitch.memory.rows import Row, rows
from switch_harness.effort import examples
from switch_harness.state_programs import key_field, program, table

EXACT = table("exact", [key_field(100)], 5)
RANKED = table(
    "ranked",
    [key_field(8, MatchKind.TERNARY), key_field(70, MatchKind.RANGE)],
    3,
    has_counter=True,
    meter=ir.DirectMeter(True, ir.FieldRef(0, 0)),
    has_idle_timeout=True,
)
KEYLESS = table("keyless", [], 1)
PROFILED = table("profiled", [key_field(8)], 2, profile=0, actions=(0, 2))
PROGRAM = program(
    EXACT,
    RANKED,
    KEYLESS,
    PROFILED,
    counters=(ir.Counter("c", 3),),
    meters=(ir.Meter("m", 2, False),),
    registers=(ir.Register("r", 9, 1), ir.Register("s", 2, 65)),
    value_sets=(ir.ValueSet("v", (33, 32), 2),),
    profiles=(ir.ActionProfile("p", 3, None),),
)
WIDE = 1 + 3  # words of the data of the largest action
LAYOUT = make_layout(PROGRAM)

TABLES = (
    ("exact", 2 + 1 + WIDE, 16, 5, 0),
    ("ranked", (2 + 1) + 2 + 4 + 1 + 2 + 9 + 1 + WIDE, 8, 3, 3 * (2 + 2)),
    ("keyless", 0 + 1 + WIDE, 0, 0, 0),
    ("profiled", 1 + 1, 4, 2, 0),
)
"""Words of a record, of the buckets, records, and words of the groups."""
REGIONS = [
    ("random", LAYOUT.random, 1),
    ("counters", LAYOUT.counters[0].first // 8, 2 * 3),
    ("registers of 1 bit", LAYOUT.registers[0].first // 8, 2),
    ("registers of 65 bits", LAYOUT.registers[1].first // 8, 2 * 2),
]
for name, record, *_ in TABLES:
    at = LAYOUT.tables[name]
    REGIONS += [(f"{name}: header", at.header, 4), (f"{name}: default", at.default, record)]
REGIONS += [("meters", LAYOUT.meters[0], 9 * 2), ("value set", LAYOUT.value_sets[0], 1 + 2 * 2)]
for name, record, buckets, size, groups in TABLES:
    at = LAYOUT.tables[name]
    REGIONS += [
        (f"{name}: buckets", at.buckets, buckets),
        (f"{name}: records", at.records, size * record),
        (f"{name}: groups", at.groups, groups),
        (f"{name}: order", at.order, 3 if groups else 0),
    ]
REGIONS += [
    ("members", LAYOUT.profiles[0].members, 3 * (1 + 1)),
    ("groups", LAYOUT.profiles[0].groups, 3),
    ("pool of members", LAYOUT.profiles[0].pool, 64 * 3),
    ("multicast groups", LAYOUT.replication.multicast, 1 << 16),
    ("clone sessions", LAYOUT.replication.sessions, 2 << 15),
    ("pool of replicas", LAYOUT.replication.pool, 1 << 16),
    ("work", LAYOUT.work, 0),
]


def test_regions_are_consecutive_and_buckets_begin_with_a_cache_line() -> None:
    """Buckets begin with a cache line, 13 whole ones behind what is before."""
    wanted, end = [], 0
    for name, _, words in REGIONS:
        end = (-(-end // 8) + 13) * 8 if name.endswith("buckets") else end
        wanted.append((name, end))
        end += words
    assert [(name, offset) for name, offset, _ in REGIONS] == wanted


def test_large_arrays_begin_with_different_cache_lines() -> None:
    """Of many arrays of a power of two the cells of one index would compete for one set of a cache."""
    many = program(registers=tuple(ir.Register(f"r{i}", 4096, 32) for i in range(32)))
    firsts = [cells.first for cells in make_layout(many).registers]
    assert all(first % 64 == 0 for first in firsts)
    assert len({first // 64 % 64 for first in firsts}) == 32


def accesses(first_array: int, index: int, arrays: int = 2) -> ir.Action:
    """Return an action that reads consecutive registers at the index in a field."""
    return ir.Action(
        f"read_{first_array}",
        (),
        tuple(
            ir.RegisterRead(ir.FieldRef(0, 9), first_array + i, ir.FieldRef(0, index)) for i in range(arrays)
        ),
    )


COPY = ir.Action("copy", (), (ir.Assign(ir.FieldRef(0, 1), ir.FieldRef(0, 0)),))


def firsts_of(sizes: tuple[int, ...], *actions: ir.Action, width: int = 32) -> list[tuple[int, int]]:
    """Return the first cell and the step of registers of 32 bits, relative to the first one's."""
    registers = tuple(ir.Register(f"r{i}", size, width) for i, size in enumerate(sizes))
    layout = make_layout(program(registers=registers, actions=actions)).registers
    return [(cells.first - layout[0].first, cells.step) for cells in layout]


def test_arrays_with_the_same_index_lie_side_by_side() -> None:
    both = accesses(0, 0), accesses(2, 1)
    assert firsts_of((4096,) * 4, *both, COPY) == [(0, 16), (4, 16), (8, 16), (12, 16)]
    apart = firsts_of((4096,) * 4, *both)  # without the copy
    assert [step for _, step in apart] == [8] * 4 and apart[2][0] >= 8 * 4096
    of_sizes = firsts_of((4096, 4096, 512, 512), *both, COPY)
    assert [step for _, step in of_sizes] == [8] * 4
    # An array with an index of its own stays outside, and a chain of copies joins all of it.
    chain = ir.Action("chain", (), (ir.Assign(ir.FieldRef(0, 2), ir.FieldRef(0, 1)),))
    three = firsts_of((4096,) * 7, *both, COPY, chain, accesses(4, 2), accesses(6, 3, arrays=1))
    assert [step for _, step in three] == [24] * 6 + [4]


@pytest.mark.parametrize(("groups", "is_joined"), [(64, True), (65, False)])
def test_arrays_with_the_same_index_are_interleaved_up_to_2048_bytes_a_step(
    groups: int, is_joined: bool
) -> None:
    """Each group has 32 bytes; 2,048 are a step."""
    copies = ir.Action(
        "copy", (), tuple(ir.Assign(ir.FieldRef(0, k), ir.FieldRef(0, 0)) for k in range(1, groups))
    )
    actions = [accesses(8 * k, k, arrays=8) for k in range(groups)]
    steps = {step for _, step in firsts_of((4096,) * (8 * groups), *actions, copies)}
    assert steps == {32 * groups if is_joined else 32}


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_no_two_cells_overlap(data: st.DataObject) -> None:
    """Arrays of any widths and sizes, indices and copies."""
    fields = st.integers(0, 5).map(lambda k: ir.FieldRef(0, k))
    declared = data.draw(st.lists(st.tuples(st.sampled_from([1, 3]), st.sampled_from([1, 9, 32, 65]))))
    counters = tuple(
        ir.Counter(f"c{i}", n) for i, n in enumerate(data.draw(st.lists(st.sampled_from([1, 3]))))
    )
    registers = tuple(ir.Register(f"r{i}", size, width) for i, (size, width) in enumerate(declared))
    statements: list[st.SearchStrategy[ir.Statement]] = [st.builds(ir.Assign, fields, fields)]
    if registers:
        number = st.integers(0, len(registers) - 1)
        statements.append(st.builds(ir.RegisterRead, st.just(ir.FieldRef(0, 9)), number, fields))
    if counters:
        statements.append(st.builds(ir.Count, st.integers(0, len(counters) - 1), fields))
    bodies = data.draw(st.lists(st.lists(st.one_of(statements), max_size=6), max_size=6))
    actions = tuple(ir.Action(f"a{i}", (), tuple(body)) for i, body in enumerate(bodies))
    layout = make_layout(program(counters=counters, registers=registers, actions=actions))
    arrays = [(cells, 16, each.size) for cells, each in zip(layout.counters, counters, strict=True)]
    for cells, register in zip(layout.registers, registers, strict=True):
        arrays.append((cells, layout.register_bytes(register.width), register.size))
    taken = [
        octet
        for cells, size, count in arrays
        for index in range(count)
        for octet in range(cells.at(index), cells.at(index) + size)
    ]
    assert len(set(taken)) == len(taken)
    for cells, size, _ in arrays:
        assert cells.first % min(size, 8) == cells.step % min(size, 8) == 0


def test_a_million_entries_take_only_the_words_of_index_and_records() -> None:
    """8 bytes a bucket, and key, action and data of each record: within 1.5 times of that, whatever moves."""
    table_of = make_layout(program(table("t", [key_field(48)], 1_000_000, actions=(0,))))
    at = table_of.tables["t"]
    assert (at.end - at.body) * 8 == 8 * 2**21 + 8 * 3 * 1_000_000


def test_a_ranked_record_and_a_group_have_the_documented_words() -> None:
    at = LAYOUT.tables["ranked"]
    offsets = [at.rank, at.link, at.bounds, at.action, at.counter, at.meter, at.last_hit, at.parameters]
    assert offsets == [3, 4, 5, 9, 10, 12, 21, 22]
    assert (at.stride, at.field_words, at.key_words, at.bound_words, at.ranges) == (26, 2, 3, 4, (1,))
    assert (at.group_rank, at.group_entries, at.group_stride) == (2, 3, 4)


def test_members_have_the_documented_words() -> None:
    at = LAYOUT.profiles[0]
    assert (at.action, at.parameters, at.stride, at.pool_size) == (0, 1, 2, 192)


def test_a_table_has_at_least_twice_as_many_buckets_as_entries() -> None:
    sizes = [make_layout(program(table("t", [key_field(8)], size))).tables["t"] for size in (0, 1, 2, 4, 5)]
    assert [at.bucket_count for at in sizes] == [2, 2, 4, 8, 16]
    assert [at.mask for at in sizes] == [1, 1, 3, 7, 15]


def test_a_row_has_the_layouts_numbers() -> None:
    [row] = rows([LAYOUT.tables["ranked"]], log=5)
    at = LAYOUT.tables["ranked"]
    *names, log = Row.__annotations__
    assert {name: int(getattr(row, name)) for name in names} == {
        name: int(getattr(at, name)) for name in names
    }
    assert (row.max_entries, row.is_ranked, log, row.log) == (3, 1, "log", 5)
    assert len(rows([])) == 0
