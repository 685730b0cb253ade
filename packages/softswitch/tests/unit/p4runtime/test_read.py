"""Reads: filters, wildcards, and errors."""

from typing import Any

import finsy as fy
import pytest
from finsy.proto import p4r

from softswitch.p4runtime.control import READ_CHUNK
from softswitch.p4runtime.status import Refusal
from softswitch.pipeline import CounterValue
from switch_harness import p4runtime as harness
from switch_harness.p4runtime import INVALID, SCHEMA, Control, forward, identity, read, update, write


@pytest.fixture
def control() -> Control:
    """Make entries 5 (metadata "a", cookie 1), 6 (metadata "b") and 7 (punted) in `forward`."""
    control = harness.controlled()
    noted = update(forward(5, metadata=b"a"))
    noted.entity.table_entry.controller_metadata = 1
    punted = fy.P4TableEntry("forward", match=fy.Match(dst_addr=7), action=fy.Action("punt"))
    assert not any(write(control, noted, update(forward(6, metadata=b"b")), update(punted)))
    return control


def addresses(control: Control, query: p4r.TableEntry) -> list[int]:
    found = [entity.table_entry for entity in read(control, p4r.Entity(table_entry=query))]
    return [int.from_bytes(entry.match[0].exact.value, "big") for entry in found]


def query(**fields: Any) -> p4r.TableEntry:
    return p4r.TableEntry(table_id=identity("forward"), **fields)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (query(), [5, 6, 7]),
        (p4r.TableEntry(), [5, 6, 7, 0x88CC, 0x0800]),
        (query(metadata=b"b"), [6]),
        (query(controller_metadata=1), [5]),
        (query(priority=1), []),
        (query(match=[p4r.FieldMatch(field_id=1, exact=p4r.FieldMatch.Exact(value=b"\6"))]), [6]),
        (query(match=[p4r.FieldMatch(field_id=1, exact=p4r.FieldMatch.Exact(value=b"\x63"))]), []),
        (query(action=p4r.TableAction(action=p4r.Action(action_id=identity("punt")))), [7]),
        (p4r.TableEntry(table_id=identity("types")), [0x88CC, 0x0800]),
        (p4r.TableEntry(table_id=identity("pairs")), []),
    ],
)
def test_table_reads_return_the_entries_that_match_the_filter(
    control: Control, wanted: p4r.TableEntry, found: list[int]
) -> None:
    assert addresses(control, wanted) == found


def test_entries_are_read_as_written_with_their_metadata(control: Control) -> None:
    written = forward(5, metadata=b"a").encode(SCHEMA)
    written.table_entry.controller_metadata = 1
    assert read(control, p4r.Entity(table_entry=query(controller_metadata=1))) == [written]


def test_constant_entries_are_marked(control: Control) -> None:
    found = read(control, p4r.Entity(table_entry=p4r.TableEntry(table_id=identity("types"))))
    assert [entity.table_entry.is_const for entity in found] == [True, True]
    actions = [entity.table_entry.action.action.action_id for entity in found]
    assert actions == [identity("punt"), identity("NoAction")]


def test_default_entries_are_read_on_request(control: Control) -> None:
    found = read(control, p4r.Entity(table_entry=p4r.TableEntry(is_default_action=True)))
    actions = {"forward": "drop", "pairs": "NoAction", "types": "NoAction"}
    wanted = [
        fy.P4TableEntry(table, action=fy.Action(action), is_default_action=True).encode(SCHEMA)
        for table, action in actions.items()
    ]
    wanted[1].table_entry.is_const = True
    assert found == wanted


def test_counters_come_with_the_entries_when_asked_for(control: Control) -> None:
    frame = (6).to_bytes(6, "big") + bytes(58)
    for _ in range(3):
        control.pipeline.process(1, frame, 0, 0)
    plain = read(control, p4r.Entity(table_entry=query(metadata=b"b")))
    counted = read(control, p4r.Entity(table_entry=query(metadata=b"b", counter_data=p4r.CounterData())))
    everywhere = read(control, p4r.Entity(table_entry=p4r.TableEntry(counter_data=p4r.CounterData())))
    assert not plain[0].table_entry.HasField("counter_data")
    assert counted[0].table_entry.counter_data == p4r.CounterData(packet_count=3, byte_count=192)
    assert [e.table_entry.HasField("counter_data") for e in everywhere] == [True, True, True, False, False]


def test_direct_counters_are_read_by_entry_table_and_all(control: Control) -> None:
    wanted = p4r.DirectCounterEntry(table_entry=forward(6).encode_entry(SCHEMA))
    control.pipeline.process(1, (6).to_bytes(6, "big") + bytes(58), 0, 0)
    (one,) = read(control, p4r.Entity(direct_counter_entry=wanted))
    assert one.direct_counter_entry.data == p4r.CounterData(packet_count=1, byte_count=64)
    assert one.direct_counter_entry.table_entry.match == wanted.table_entry.match
    everything = p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry())
    assert [e.direct_counter_entry.data.packet_count for e in read(control, everything)] == [0, 1, 0]


def test_counters_and_registers_are_read_by_cell_as_a_whole_and_all(control: Control) -> None:
    control.pipeline.cells.write_counter("ControlIngress.drops", 3, CounterValue(2, 90))
    control.pipeline.cells.write_register("ControlIngress.cells", 4095, 2**96 - 1)
    one = read(
        control,
        p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=identity("drops"), index=p4r.Index(index=3))),
    )
    assert one[0].counter_entry.data == p4r.CounterData(packet_count=2, byte_count=90)
    whole = read(control, p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=identity("drops"))))
    assert [entity.counter_entry.index.index for entity in whole] == list(range(16))
    assert read(control, p4r.Entity(counter_entry=p4r.CounterEntry())) == whole
    cells = read(control, p4r.Entity(register_entry=p4r.RegisterEntry()))
    assert [entity.register_entry.index.index for entity in cells] == list(range(4096))
    assert [cells[0].register_entry.data.bitstring, cells[-1].register_entry.data.bitstring] == [
        b"\0",
        b"\xff" * 12,
    ]


def test_a_read_is_answered_in_pieces_with_the_state_of_one_moment(control: Control) -> None:
    assert not any(write(control, *(update(forward(n)) for n in range(100, 100 + 2 * READ_CHUNK))))
    responses, _ = harness.start_read(control, p4r.Entity(table_entry=query()))
    sizes = [len(next(responses).entities)]
    assert not any(write(control, update(forward(100), harness.DELETE), update(forward(1))))
    sizes += [len(response.entities) for response in responses]
    assert sizes == [READ_CHUNK, READ_CHUNK, 3]


def test_cookies_have_their_values_at_the_time_of_the_query(control: Control) -> None:
    responses, _ = harness.start_read(control, p4r.Entity(table_entry=query()))
    assert not any(write(control, update(forward(5, metadata=b"changed"), harness.MODIFY)))
    assert [e.table_entry.metadata for response in responses for e in response.entities] == [b"a", b"b", b""]


def test_cookies_are_removed_with_their_entry_or_its_overwrite(control: Control) -> None:
    def metadata() -> list[bytes]:
        found = read(control, p4r.Entity(table_entry=query()))
        return [entity.table_entry.metadata for entity in found]

    assert metadata() == [b"a", b"b", b""]
    assert not any(write(control, update(forward(5), harness.MODIFY)))
    assert not any(write(control, update(forward(6), harness.DELETE), update(forward(6))))
    assert set(metadata()) == {b""}


@pytest.mark.parametrize(
    ("entity", "code", "message"),
    [
        (p4r.Entity(), INVALID, "the entity is not set"),
        (p4r.Entity(table_entry=p4r.TableEntry(table_id=9)), INVALID, "no table has ID 9"),
        (
            p4r.Entity(table_entry=p4r.TableEntry(match=[p4r.FieldMatch(field_id=1)])),
            INVALID,
            "match fields are given without a table ID",
        ),
        (
            p4r.Entity(
                table_entry=p4r.TableEntry(table_id=identity("pairs"), counter_data=p4r.CounterData())
            ),
            INVALID,
            "table ControlIngress.pairs has no direct counter",
        ),
        (
            p4r.Entity(table_entry=query(is_default_action=True, counter_data=p4r.CounterData())),
            "UNIMPLEMENTED",
            "direct counters and meters of default entries are not supported",
        ),
        (
            p4r.Entity(
                direct_counter_entry=p4r.DirectCounterEntry(table_entry=forward(9).encode_entry(SCHEMA))
            ),
            "NOT_FOUND",
            "table ControlIngress.forward: entry dst_addr=0x9 is not there",
        ),
        (
            p4r.Entity(counter_entry=p4r.CounterEntry(index=p4r.Index(index=1))),
            INVALID,
            "an index is given without a counter ID",
        ),
        (p4r.Entity(register_entry=p4r.RegisterEntry(register_id=3)), INVALID, "no register has ID 3"),
        (
            p4r.Entity(extern_entry=p4r.ExternEntry()),
            "UNIMPLEMENTED",
            "extern_entry is not supported by softswitch",
        ),
    ],
)
def test_a_bad_query_is_refused_with_its_code(
    control: Control, entity: p4r.Entity, code: str, message: str
) -> None:
    with pytest.raises(Refusal) as refusal:
        read(control, entity)
    assert (refusal.value.code.name, str(refusal.value)) == (code, message)


def test_good_queries_beside_a_bad_query_are_answered(control: Control) -> None:
    entities = [p4r.Entity(), p4r.Entity(table_entry=query())]
    responses, results = harness.start_read(control, *entities)
    assert sum(len(response.entities) for response in responses) == 3
    assert [result is None for result in results] == [False, True]
