"""Prefix, ternary, range and optional matches over P4Runtime: identity, form, filters and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import finsy as fy
import pytest
from finsy.proto import p4i, p4r

from softswitch.ir import Masked, MatchKind
from softswitch.p4runtime.codecs.matches import MatchField, MatchKey
from softswitch.p4runtime.status import Refusal
from switch_harness import p4runtime as harness
from switch_harness.foreign import read_p4info
from switch_harness.match_kinds import MALFORMED, MATCH_KINDS, probe, replace_match
from switch_harness.p4runtime import (
    DELETE,
    DEVICE,
    INSERT,
    MODIFY,
    Control,
    asynchronous,
    config,
    read,
    refused,
    rig,
    write,
)
from switch_harness.wording import mentions, says_in_one_line

SCHEMA = fy.P4Schema(read_p4info(MATCH_KINDS))
TABLES = {table.alias: table.id for table in SCHEMA.tables}
FIRST_CONST = (1 << 31) - 2
"""What BMv2's P4Runtime server says is the priority of a table's first constant entry."""


def entry(kind: str, priority: int = 0, value: int = 1, **matches: Any) -> fy.P4TableEntry:
    action = fy.Action(f"{kind}_hit", value=value)
    return fy.P4TableEntry(f"{kind}_table", match=fy.Match(**matches), action=action, priority=priority)


def update(wanted: fy.P4TableEntry, kind: int = INSERT) -> p4r.Update:
    return harness.update(wanted, kind, SCHEMA)


ENTRIES = {
    "lpm": entry("lpm", exact_part=1, prefix="10.0.0.0/8"),
    "ternary": entry("ternary", priority=5, wide=(1 << 90, 3 << 90), small=4),
    "range": entry("range", priority=5, ranged=(5, 70), small=(1, 3), wide=(2, 1 << 80)),
}


@pytest.fixture
def control() -> Control:
    control = harness.controlled(MATCH_KINDS)
    assert not any(write(control, *(update(wanted) for wanted in ENTRIES.values())))
    return control


def found(control: Control, query: p4r.TableEntry) -> list[fy.P4TableEntry]:
    return [fy.P4TableEntry.decode(e, SCHEMA) for e in read(control, p4r.Entity(table_entry=query))]


def values(control: Control, table: str, **query: Any) -> list[int]:
    entities = read(control, p4r.Entity(table_entry=p4r.TableEntry(table_id=TABLES[table], **query)))
    return [int.from_bytes(e.table_entry.action.action.params[0].value, "big") for e in entities]


# ---- what is accepted


@pytest.mark.parametrize("kind", ENTRIES)
def test_an_entry_of_each_match_kind_is_read_as_written(control: Control, kind: str) -> None:
    written = ENTRIES[kind].encode(SCHEMA)
    assert read(control, written) == [written]
    by_table = p4r.TableEntry(table_id=written.table_entry.table_id)
    assert read(control, p4r.Entity(table_entry=by_table)) == [written]


@pytest.mark.parametrize("kind", ENTRIES)
def test_leading_zeros_are_accepted_and_reads_are_canonical(control: Control, kind: str) -> None:
    assert write(control, update(ENTRIES[kind], DELETE)) == [None]
    long = update(ENTRIES[kind])
    for match in long.entity.table_entry.match:
        given = getattr(match, match.WhichOneof("field_match_type") or "")
        for name in {"value", "mask", "low", "high"} & {field.name for field in given.DESCRIPTOR.fields}:
            setattr(given, name, bytes(3) + getattr(given, name))
    assert write(control, long) == [None]
    assert read(control, long.entity) == [ENTRIES[kind].encode(SCHEMA)]


@pytest.mark.parametrize(
    "anything", [entry("lpm", exact_part=7), entry("ternary", priority=9), entry("range", priority=9)]
)
def test_match_fields_that_match_anything_are_left_out(control: Control, anything: fy.P4TableEntry) -> None:
    def hits() -> int:
        (output,) = control.pipeline.process(0, probe(0xDEADBEEF, 7, 500, 200, 77), 0, 0)
        return sum(output.frame[-8:])

    assert hits() == 0
    assert write(control, update(anything)) == [None]
    assert hits() == 1
    written = anything.encode(SCHEMA).table_entry
    assert written in [e.table_entry for e in read(control, p4r.Entity(table_entry=p4r.TableEntry()))]
    assert write(control, update(anything, MODIFY), update(anything, DELETE)) == [None, None]
    assert hits() == 0


def test_the_priority_is_part_of_the_identity_of_an_entry(control: Control) -> None:
    match: dict[str, Any] = {"wide": (1 << 90, 3 << 90), "small": 4}
    assert write(control, update(entry("ternary", priority=6, value=6, **match))) == [None]
    assert values(control, "ternary_table") == [1, 6]
    assert write(control, update(entry("ternary", priority=5, value=9, **match), MODIFY)) == [None]
    assert values(control, "ternary_table") == [9, 6]
    (output,) = control.pipeline.process(0, probe(0, 0, 500, 4, 1 << 90), 0, 0)
    assert output.frame[-6:-4] == b"\0\6"
    assert write(control, update(entry("ternary", priority=6, **match), DELETE)) == [None]
    assert values(control, "ternary_table") == [9]


# ---- reads


def test_reads_filter_entries_by_match_and_priority(control: Control) -> None:
    match = {"ranged": (5, 70), "small": (1, 3), "wide": (2, 1 << 80)}
    more = [entry("range", priority=6, value=6, **match), entry("range", priority=6, value=7)]
    assert not any(write(control, *map(update, more)))
    given = more[0].encode(SCHEMA).table_entry.match
    assert values(control, "range_table") == [1, 6, 7]
    assert values(control, "range_table", priority=6) == [6, 7]
    assert values(control, "range_table", match=given) == [1, 6]
    assert values(control, "range_table", match=given, priority=6) == [6]
    assert values(control, "range_table", match=given, priority=7) == []
    assert values(control, "lpm_table", priority=5) == []


def test_constant_entries_have_bmv2s_priorities(control: Control) -> None:
    query = p4r.TableEntry(table_id=TABLES["const_table"])
    assert [(e.priority, e.is_const, e.match) for e in found(control, query)] == [
        (FIRST_CONST, True, {"prefix": (0x0A000000, 0xFF000000), "ranged": (0, 100)}),
        (FIRST_CONST - 1, True, {"prefix": (0x0A000000, 0xFFFF0000)}),
        (FIRST_CONST - 2, True, {"ranged": (50, 60)}),
        (FIRST_CONST - 3, True, {"prefix": (0x0A0B0000, 0xFFFF0000), "ranged": (5, 5)}),
    ]
    query.priority = FIRST_CONST - 2
    assert [e.action for e in found(control, query)] == [fy.Action("const_hit", value=3)]


def test_direct_counters_are_of_a_match_and_a_priority(control: Control) -> None:
    other = entry("ternary", priority=6, wide=(1 << 90, 3 << 90), small=4)
    anything = entry("ternary", priority=4)
    assert not any(write(control, update(other), update(anything)))
    control.pipeline.process(0, probe(0, 0, 500, 4, 1 << 90), 0, 0)

    def counted(wanted: fy.P4TableEntry) -> list[int]:
        query = p4r.DirectCounterEntry(table_entry=wanted.encode_entry(SCHEMA))
        entities = read(control, p4r.Entity(direct_counter_entry=query))
        return [e.direct_counter_entry.data.packet_count for e in entities]

    assert (counted(ENTRIES["ternary"]), counted(other), counted(anything)) == ([0], [1], [0])
    data = fy.P4CounterData(packet_count=8, byte_count=0)
    change = fy.P4DirectCounterEntry("ternary_table", table_entry=anything, data=data)
    assert write(control, harness.update(change, MODIFY, SCHEMA)) == [None]
    assert (counted(ENTRIES["ternary"]), counted(other), counted(anything)) == ([0], [1], [8])
    with pytest.raises(Refusal, match=mentions("small=0x4", 7)):
        counted(entry("ternary", priority=7, wide=(1 << 90, 3 << 90), small=4))


def test_a_modify_with_counter_data_counts_for_its_priority(control: Control) -> None:
    with_data = update(ENTRIES["ternary"], MODIFY)
    with_data.entity.table_entry.counter_data.packet_count = 3
    assert write(control, with_data) == [None]
    query = p4r.TableEntry(table_id=TABLES["ternary_table"], counter_data=p4r.CounterData())
    (answer,) = read(control, p4r.Entity(table_entry=query))
    assert answer.table_entry.counter_data.packet_count == 3


async def listed(client: Any, query: fy.P4TableEntry) -> list[p4r.Entity]:
    """Return the entries that finsy reads. The annotation of its `read` promises a coroutine, hence `Any`."""
    return [found.encode(SCHEMA) async for found in client.read(query)]


@asynchronous
async def test_finsy_inserts_reads_and_deletes_entries_of_all_match_kinds() -> None:
    blob, p4info = MATCH_KINDS.with_suffix(".json"), MATCH_KINDS.with_suffix(".p4info.txtpb")
    options = fy.SwitchOptions(p4info=p4info, p4blob=blob, device_id=DEVICE, fail_fast=True)
    wanted = list(ENTRIES.values())
    async with rig() as switch, fy.Switch("s1", switch.address, options) as client:
        await client.insert(wanted)
        for one in wanted:
            assert await listed(client, one) == [one.encode(SCHEMA)]
        assert len(await listed(client, fy.P4TableEntry())) == len(wanted) + 4
        await client.delete(wanted)
        assert len(await listed(client, fy.P4TableEntry())) == 4


# ---- what is refused


@pytest.mark.parametrize("change", [INSERT, MODIFY, DELETE])
@pytest.mark.parametrize(("kind", "match", "message"), MALFORMED, ids=[text for _, _, text in MALFORMED])
def test_a_malformed_match_is_an_invalid_argument(
    control: Control, kind: str, match: p4r.FieldMatch, message: str, change: int
) -> None:
    malformed = update(ENTRIES[kind], change)
    replace_match(malformed.entity.table_entry, match)
    refused(control, malformed, "INVALID_ARGUMENT", f"table Pick.{kind}_table, match field {message}")


NEED = "ternary, range and optional matches need a priority of at least 1, not"
Change = Callable[[p4r.TableEntry], object]
BAD: list[tuple[str, Change, str]] = [
    ("ternary", lambda e: setattr(e, "priority", 0), f"table Pick.ternary_table: {NEED} 0"),
    ("range", lambda e: setattr(e, "priority", -1), f"table Pick.range_table: {NEED} -1"),
    (
        "lpm",
        lambda e: setattr(e, "priority", 5),
        "table Pick.lpm_table: exact and lpm matches have priority 0, not 5",
    ),
    (
        "lpm",
        lambda e: e.match.pop(0),
        "table Pick.lpm_table, match field hdr.probe.exact_part is missing; "
        "expected hdr.probe.exact_part (ID 1), hdr.probe.prefix (ID 2)",
    ),
    (
        "range",
        lambda e: e.match.add(field_id=4),
        "table Pick.range_table, match field with ID 4 does not exist; "
        "expected hdr.probe.ranged (ID 1), hdr.probe.small (ID 2), hdr.probe.wide (ID 3)",
    ),
    (
        "range",
        lambda e: e.match.append(e.match[0]),
        "table Pick.range_table, match field hdr.probe.ranged is given twice",
    ),
]


@pytest.mark.parametrize("change", [INSERT, MODIFY, DELETE])
@pytest.mark.parametrize(("kind", "spoil", "message"), BAD, ids=[text for _, _, text in BAD])
def test_a_malformed_key_is_an_invalid_argument(
    control: Control, kind: str, spoil: Change, message: str, change: int
) -> None:
    malformed = update(ENTRIES[kind], change)
    spoil(malformed.entity.table_entry)
    refused(control, malformed, "INVALID_ARGUMENT", message)


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (
            update(ENTRIES["lpm"]),
            "ALREADY_EXISTS",
            "table Pick.lpm_table: entry hdr.probe.exact_part=0x1, hdr.probe.prefix=0xa000000/8 "
            "is already there",
        ),
        (
            update(entry("lpm", exact_part=1, prefix="10.0.0.0/9"), DELETE),
            "NOT_FOUND",
            "table Pick.lpm_table: entry hdr.probe.exact_part=0x1, hdr.probe.prefix=0xa000000/9 is not there",
        ),
        (
            update(entry("ternary", priority=6, small=4), MODIFY),
            "NOT_FOUND",
            "table Pick.ternary_table: entry hdr.probe.wide=any, hdr.probe.small=0x4, priority 6 "
            "is not there",
        ),
        (
            update(entry("range", priority=7, ranged=(5, 70), small=(1, 3)), DELETE),
            "NOT_FOUND",
            "table Pick.range_table: entry hdr.probe.ranged=0x5..0x46, hdr.probe.small=0x1&&&0x3, "
            "hdr.probe.wide=any, priority 7 is not there",
        ),
        (
            update(entry("const", priority=7, ranged=(5, 70))),
            "PERMISSION_DENIED",
            "table Pick.const_table has constant entries",
        ),
    ],
)
def test_an_update_that_does_not_fit_the_table_is_refused_with_its_code(
    control: Control, change: p4r.Update, code: str, message: str
) -> None:
    refused(control, change, code, message)


def test_a_malformed_query_is_refused(control: Control) -> None:
    for kind, match, message in MALFORMED:
        query = ENTRIES[kind].encode(SCHEMA)
        replace_match(query.table_entry, match)
        with pytest.raises(Refusal) as refusal:
            read(control, query)
        assert says_in_one_line(str(refusal.value), f"Pick.{kind}_table", message)


def test_a_full_table_exhausts_its_resource(control: Control) -> None:
    room = 64 - 1
    assert not any(write(control, *(update(entry("ternary", priority=n + 10)) for n in range(room))))
    one_more = update(entry("ternary", priority=9))
    refused(control, one_more, "RESOURCE_EXHAUSTED", "table Pick.ternary_table is full with 64 entries")


def test_a_table_of_another_kind_is_of_another_program() -> None:
    other = config(program=MATCH_KINDS)
    other.p4info.tables[0].match_fields[1].match_type = p4i.MatchField.TERNARY
    with pytest.raises(Refusal, match=mentions("Pick.lpm_table", "differ")):
        harness.controlled_by(other)
    other.p4info.tables[0].match_fields[1].other_match_type = "custom"
    with pytest.raises(Refusal, match=mentions("hdr.probe.prefix", "supported")):
        harness.controlled_by(other)


def test_a_keyless_table_that_p4c_left_out_does_not_exist() -> None:
    other = config(program=MATCH_KINDS)
    other.p4info.tables.add().preamble.id = 9
    control = harness.controlled_by(other)
    with pytest.raises(Refusal, match="no table has ID 9"):
        read(control, p4r.Entity(table_entry=p4r.TableEntry(table_id=9)))


def test_initial_entries_that_are_not_constant_can_be_changed() -> None:
    initial = config(program=MATCH_KINDS)
    table = next(t for t in initial.p4info.tables if t.is_const_table)
    table.is_const_table = False
    control = harness.controlled_by(initial)
    query = p4r.Entity(table_entry=p4r.TableEntry(table_id=TABLES["const_table"]))
    entities = read(control, query)
    assert [e.table_entry.is_const for e in entities] == [False] * 4
    entities[0].table_entry.action.action.params[0].value = b"\x09"
    modified = p4r.Update(type=MODIFY, entity=entities[0])
    assert write(control, modified, p4r.Update(type=DELETE, entity=entities[1])) == [None, None]
    assert read(control, query) == [entities[0], *entities[2:]]


@pytest.mark.parametrize(
    ("width", "value", "length", "is_taken"),
    [(1, 0, 1, True), (1, 1, 1, False), (12, 0, 4, True), (12, 0xA00, 4, False), (16, 0xABCD, 16, True)],
)
def test_prefixes_end_as_pi_counts_their_bits(width: int, value: int, length: int, is_taken: bool) -> None:
    """PI wants the bits behind a prefix, counted up to whole bytes of the value, to be 0."""
    key = MatchKey("table t", [MatchField(1, width, "f", MatchKind.LPM)])
    lpm = p4r.FieldMatch.LPM(value=value.to_bytes(2, "big").lstrip(b"\0") or b"\0", prefix_len=length)
    given = [p4r.FieldMatch(field_id=1, lpm=lpm)]
    if is_taken:
        assert key.decode(given) == (Masked(value, ((1 << length) - 1) << (width - length)),)
    else:
        with pytest.raises(Refusal, match="whole bytes"):
            key.decode(given)
