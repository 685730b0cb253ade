"""Layout of a program's state: every region has its size, and none overlaps another."""

from __future__ import annotations

from softswitch import ir
from softswitch.ir import MatchKind
from softswitch.memory.layout import make_layout
from softswitch.memory.rows import Row, rows
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


def test_regions_follow_one_another() -> None:
    """Buckets begin with a cache line, 13 whole ones behind what is before."""
    wanted, end = [], 0
    for name, _, words in REGIONS:
        end = (-(-end // 8) + 13) * 8 if name.endswith("buckets") else end
        wanted.append((name, end))
        end += words
    assert [(name, offset) for name, offset, _ in REGIONS] == wanted


def test_large_arrays_begin_with_lines_that_are_not_those_of_others() -> None:
    """Of many arrays of a power of two the cells of one index would compete for one set of a cache."""
    many = program(registers=tuple(ir.Register(f"r{i}", 4096, 32) for i in range(32)))
    firsts = [cells.first for cells in make_layout(many).registers]
    assert all(first % 64 == 0 for first in firsts)
    assert len({first // 64 % 64 for first in firsts}) == 32


def test_a_million_entries_take_what_index_and_records_need() -> None:
    """8 bytes a bucket, and key, action and data of each record: within 1.5 times of that, whatever moves."""
    table_of = make_layout(program(table("t", [key_field(48)], 1_000_000, actions=(0,))))
    at = table_of.tables["t"]
    assert (at.end - at.body) * 8 == 8 * 2**21 + 8 * 3 * 1_000_000


def test_words_of_a_ranked_record_and_of_a_group() -> None:
    at = LAYOUT.tables["ranked"]
    offsets = [at.rank, at.link, at.bounds, at.action, at.counter, at.meter, at.last_hit, at.parameters]
    assert offsets == [3, 4, 5, 9, 10, 12, 21, 22]
    assert (at.stride, at.field_words, at.key_words, at.bound_words, at.ranges) == (26, 2, 3, 4, (1,))
    assert (at.group_rank, at.group_entries, at.group_stride) == (2, 3, 4)


def test_words_of_members() -> None:
    at = LAYOUT.profiles[0]
    assert (at.action, at.parameters, at.stride, at.pool_size) == (0, 1, 2, 192)


def test_there_are_twice_as_many_buckets_as_entries_at_least() -> None:
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
