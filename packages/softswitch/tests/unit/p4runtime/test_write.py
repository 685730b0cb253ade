"""Writes: what is accepted, what is refused with which code and words, and that a refusal changes nothing."""

from collections.abc import Callable
from typing import Any

import finsy as fy
import pytest
from finsy.proto import p4d, p4r
from grpc import StatusCode

from softswitch.pipeline import EntryWrite
from switch_harness import p4runtime as harness
from switch_harness.p4runtime import (
    DELETE,
    EVERYTHING,
    INSERT,
    INVALID,
    MODIFY,
    SCHEMA,
    Control,
    forward,
    identity,
    read,
    refused,
    update,
    write,
)
from switch_harness.wording import says


@pytest.fixture
def control() -> Control:
    """Return the program with an entry for address 5 in `forward`, which sends to port 1."""
    control = harness.controlled()
    assert write(control, update(forward(5))) == [None]
    return control


def pair(number: int, tag: int = 1, **more: Any) -> fy.P4TableEntry:
    match, action = fy.Match(src_addr=number, tag=tag), fy.Action("set_tag", tag=tag, mac=number)
    return fy.P4TableEntry("pairs", match=match, action=action, **more)


def cell(data: p4d.P4Data) -> p4r.Update:
    entry = p4r.RegisterEntry(register_id=identity("cells"), data=data)
    return p4r.Update(type=MODIFY, entity=p4r.Entity(register_entry=entry))


def default(table: str, action: fy.Action | None) -> fy.P4TableEntry:
    return fy.P4TableEntry(table, action=action, is_default_action=True)


def arguments(entry: fy.P4TableEntry) -> dict[str, Any]:
    """The run-time data of the entry's action."""
    assert isinstance(entry.action, fy.P4TableAction)
    return entry.action.args


def address_of(entry: fy.P4TableEntry) -> Any:
    assert entry.match is not None
    return entry.match["dst_addr"]


def entries(control: Control, query: fy.P4TableEntry) -> list[fy.P4TableEntry]:
    found = read(control, query.encode(SCHEMA))
    return [fy.P4TableEntry.decode(entity, SCHEMA) for entity in found]


# ---- what is accepted


def test_an_entry_is_inserted_modified_and_deleted(control: Control) -> None:
    def ports() -> list[tuple[int, int]]:
        return [(address_of(e), arguments(e)["port"]) for e in entries(control, fy.P4TableEntry("forward"))]

    assert ports() == [(5, 1)]
    assert write(control, update(forward(6, port=2))) == [None]
    assert write(control, update(forward(5, port=3), MODIFY)) == [None]
    assert ports() == [(5, 3), (6, 2)]
    assert write(control, update(forward(5), DELETE)) == [None]
    assert ports() == [(6, 2)]


def test_packets_match_the_written_entries_and_defaults(control: Control) -> None:
    def port_for(address: int) -> list[int]:
        frame = address.to_bytes(6, "big") + bytes(52)
        return [out.port for out in control.pipeline.process(3, frame, 0, 0)]

    assert port_for(5) == [1]
    assert port_for(6) == []
    assert write(control, update(default("forward", fy.Action("punt")), MODIFY)) == [None]
    assert port_for(6) == [255]
    assert write(control, update(default("forward", None), MODIFY)) == [None]
    assert port_for(6) == []


def test_a_batch_is_one_step_for_the_data_plane(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []

    def count(writes: list[EntryWrite]) -> list[Exception | None]:
        batches.append(len(writes))
        return [None] * len(writes)

    monkeypatch.setattr(control.pipeline.tables, "write", count)
    assert not any(write(control, *(update(forward(n)) for n in range(10, 30))))
    assert batches == [20]


def test_updates_of_a_batch_are_done_in_order(control: Control) -> None:
    batch = [update(forward(9)), update(forward(9, port=2), MODIFY), update(forward(9), DELETE)]
    batch += [update(default("forward", fy.Action("punt")), MODIFY), update(forward(9, port=4))]
    assert not any(write(control, *batch))
    found = entries(control, fy.P4TableEntry("forward", match=fy.Match(dst_addr=9)))
    assert [arguments(entry)["port"] for entry in found] == [4]


def test_leading_zeros_are_accepted_and_reads_are_canonical(control: Control) -> None:
    long = update(forward(9))
    long.entity.table_entry.match[0].exact.value = bytes(9) + b"\x09"
    long.entity.table_entry.action.action.params[0].value = b"\x00\x00\x01"
    assert write(control, long) == [None]
    assert read(control, forward(9).encode(SCHEMA)) == [forward(9).encode(SCHEMA)]


def test_match_fields_and_parameters_come_in_any_order(control: Control) -> None:
    wanted = pair(3, tag=4).encode(SCHEMA)
    mixed = p4r.Update(type=INSERT, entity=wanted)
    entry = mixed.entity.table_entry
    entry.match.insert(0, entry.match.pop())
    entry.action.action.params.insert(0, entry.action.action.params.pop())
    assert mixed.entity != wanted
    assert write(control, mixed) == [None]
    assert read(control, wanted) == [wanted]


def test_modify_without_action_keeps_the_action_and_sets_metadata(control: Control) -> None:
    change = update(fy.P4TableEntry("forward", match=fy.Match(dst_addr=5), metadata=b"note"), MODIFY)
    assert write(control, change) == [None]
    (entry,) = entries(control, fy.P4TableEntry("forward"))
    assert (arguments(entry), entry.metadata) == ({"port": 1}, b"note")


def test_delete_ignores_all_but_the_key(control: Control) -> None:
    nonsense = update(forward(5), DELETE)
    nonsense.entity.table_entry.action.action.action_id = 1
    nonsense.entity.table_entry.idle_timeout_ns = 1
    assert write(control, nonsense) == [None]


def test_the_default_entry_is_modified_and_reset(control: Control) -> None:
    query = fy.P4TableEntry("forward", is_default_action=True)
    assert write(control, update(default("forward", fy.Action("forward_to", port=9)), MODIFY)) == [None]
    assert [e.action for e in entries(control, query)] == [fy.Action("forward_to", port=9)]
    assert write(control, update(default("forward", None), MODIFY)) == [None]
    assert [e.action for e in entries(control, query)] == [fy.Action("drop")]


def test_direct_counters_are_set_with_the_entry_and_alone(control: Control) -> None:
    def counted() -> list[tuple[int, int]]:
        found = read(control, fy.P4DirectCounterEntry("forwarded").encode(SCHEMA))
        data = [entity.direct_counter_entry.data for entity in found]
        return [(value.packet_count, value.byte_count) for value in data]

    with_data = forward(6, counter_data=fy.P4CounterData(packet_count=3, byte_count=180))
    assert write(control, update(with_data)) == [None]
    assert counted() == [(0, 0), (3, 180)]
    alone = fy.P4DirectCounterEntry(
        "forward", table_entry=forward(5), data=fy.P4CounterData(byte_count=7, packet_count=1)
    )
    assert write(control, update(alone, MODIFY)) == [None]
    assert counted() == [(1, 7), (3, 180)]


def test_a_counter_written_without_data_is_unchanged(control: Control) -> None:
    data = fy.P4CounterData(packet_count=1, byte_count=2)
    direct = fy.P4DirectCounterEntry("forward", table_entry=forward(5), data=data)
    indexed = fy.P4CounterEntry("drops", index=3, data=data)
    assert not any(write(control, update(direct, MODIFY), update(indexed, MODIFY)))
    before = read(control, *EVERYTHING)
    changes = update(direct, MODIFY), update(indexed, MODIFY)
    changes[0].entity.direct_counter_entry.ClearField("data")
    changes[1].entity.counter_entry.ClearField("data")
    assert not any(write(control, *changes))
    assert read(control, *EVERYTHING) == before


def test_counters_and_registers_are_written_by_cell_and_whole(control: Control) -> None:
    drops = [
        update(fy.P4CounterEntry("drops", data=fy.P4CounterData(packet_count=1, byte_count=2)), MODIFY),
        update(
            fy.P4CounterEntry("drops", index=3, data=fy.P4CounterData(packet_count=8, byte_count=9)), MODIFY
        ),
    ]
    cells = [
        update(fy.P4RegisterEntry("cells", data=5), MODIFY),
        update(fy.P4RegisterEntry("cells", index=4095, data=2**96 - 1), MODIFY),
    ]
    assert not any(write(control, *drops, *cells))
    assert control.pipeline.cells.read_counter("ControlIngress.drops", 2, 5) == [(1, 2), (8, 9), (1, 2)]
    assert control.pipeline.cells.read_register("ControlIngress.cells", 4093, 4096) == [5, 5, 2**96 - 1]


# ---- atomicity


def test_continue_on_error_executes_the_remaining_updates(control: Control) -> None:
    results = write(control, update(forward(6)), update(forward(5)), update(forward(7)))
    assert [result and result.code for result in results] == [None, StatusCode.ALREADY_EXISTS, None]
    assert len(entries(control, fy.P4TableEntry("forward"))) == 3


@pytest.mark.parametrize("atomicity", [p4r.WriteRequest.ROLLBACK_ON_ERROR, p4r.WriteRequest.DATAPLANE_ATOMIC])
def test_a_failed_update_undoes_its_whole_batch(
    control: Control, atomicity: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read(control, *EVERYTHING)
    changes = [update(forward(6)), update(forward(5), DELETE), update(forward(6, port=2), MODIFY)]
    with monkeypatch.context() as patch:
        patch.setattr(control.pipeline.tables, "write", None)
        results = write(control, *changes, update(forward(5), DELETE), atomicity=atomicity)
    codes = [result.code for result in results if result]
    assert codes == [StatusCode.ABORTED] * 3 + [StatusCode.NOT_FOUND]
    assert read(control, *EVERYTHING) == before
    assert not any(write(control, *changes, atomicity=atomicity))
    assert [address_of(e) for e in entries(control, fy.P4TableEntry("forward"))] == [6]


# ---- what is refused

Change = Callable[[p4r.TableEntry], object]
FORWARD = "table ControlIngress.forward"


def param(entry: p4r.TableEntry) -> p4r.Action.Param:
    return entry.action.action.params[0]


MALFORMED: list[tuple[Change, str]] = [
    (lambda e: setattr(e, "table_id", 99), "no table has ID 99"),
    (lambda e: setattr(e, "table_id", 0), "no table has ID 0"),
    (lambda e: setattr(e, "priority", 1), f"{FORWARD}: exact and lpm matches have priority 0, not 1"),
    (lambda e: setattr(e, "is_const", True), f"{FORWARD}: is_const must not be set in a write"),
    (
        lambda e: e.ClearField("match"),
        f"{FORWARD}, match field dst_addr is missing; expected dst_addr (ID 1)",
    ),
    (lambda e: e.match.append(e.match[0]), f"{FORWARD}, match field dst_addr is given twice"),
    (
        lambda e: setattr(e.match[0], "field_id", 2),
        f"{FORWARD}, match field with ID 2 does not exist; expected dst_addr (ID 1)",
    ),
    (
        lambda e: setattr(e.match[0].exact, "value", b"\x01" + bytes(6)),
        f"{FORWARD}, match field dst_addr: 0x01000000000000 does not fit in bit<48>",
    ),
    (
        lambda e: setattr(e.match[0].exact, "value", b""),
        f"{FORWARD}, match field dst_addr: the value is empty, bit<48> needs at least one byte",
    ),
    (
        lambda e: setattr(e.match[0].lpm, "prefix_len", 8),
        f"{FORWARD}, match field dst_addr: expected a match of kind exact, got lpm",
    ),
    (lambda e: e.ClearField("action"), f"{FORWARD}: the action is missing"),
    (
        lambda e: setattr(e.action, "action_profile_member_id", 1),
        f"{FORWARD}: action_profile_member_id is given, but the table takes actions directly",
    ),
    (
        lambda e: setattr(e.action.action, "action_id", 77),
        f"{FORWARD} has no action with ID 77; it has "
        f"ControlIngress.forward_to (ID {identity('forward_to')}), "
        f"ControlIngress.punt (ID {identity('punt')}), ControlIngress.set_tag (ID {identity('set_tag')})",
    ),
    (
        lambda e: setattr(e.action.action, "action_id", identity("drop")),
        f"{FORWARD}: action ControlIngress.drop is allowed as default action only",
    ),
    (
        lambda e: e.action.action.ClearField("params"),
        "action ControlIngress.forward_to, parameter port is missing; expected port (ID 1)",
    ),
    (
        lambda e: e.action.action.params.add(param_id=2, value=b"\x01"),
        "action ControlIngress.forward_to, parameter with ID 2 does not exist; expected port (ID 1)",
    ),
    (
        lambda e: setattr(param(e), "value", b"\x02\x00"),
        "action ControlIngress.forward_to, parameter port: 0x0200 does not fit in bit<9>",
    ),
    (
        lambda e: setattr(param(e), "value", b""),
        "action ControlIngress.forward_to, parameter port: "
        "the value is empty, bit<9> needs at least one byte",
    ),
    (
        lambda e: setattr(e, "idle_timeout_ns", 1),
        f"{FORWARD}: idle_timeout_ns is set, but the entry cannot have an idle timeout",
    ),
    (
        lambda e: e.time_since_last_hit.SetInParent(),
        f"{FORWARD}: time_since_last_hit must not be set in a write",
    ),
    (lambda e: e.meter_config.SetInParent(), f"{FORWARD} has no direct meter"),
    (lambda e: setattr(e.counter_data, "packet_count", -1), "counter value -1 packets, 0 bytes is negative"),
]


@pytest.mark.parametrize(("change", "message"), MALFORMED, ids=[text for _, text in MALFORMED])
def test_a_malformed_entry_is_refused_with_its_code(control: Control, change: Change, message: str) -> None:
    code = "PERMISSION_DENIED" if says(message, "allowed", "default") else INVALID
    insert, modify = update(forward(6)), update(forward(5, port=2), MODIFY)
    change(insert.entity.table_entry)
    refused(control, insert, code, message)
    change(modify.entity.table_entry)
    if modify.entity.table_entry.HasField("action"):  # which a MODIFY may leave out
        refused(control, modify, code, message)


BAD_UPDATES: list[tuple[str, p4r.Update, str]] = [
    (INVALID, p4r.Update(type=INSERT), "the entity is not set"),
    (INVALID, update(forward(6), 0), "update type 0 is none of INSERT, MODIFY and DELETE"),
    ("ALREADY_EXISTS", update(forward(5)), f"{FORWARD}: entry dst_addr=0x5 is already there"),
    ("NOT_FOUND", update(forward(6), MODIFY), f"{FORWARD}: entry dst_addr=0x6 is not there"),
    ("NOT_FOUND", update(forward(6), DELETE), f"{FORWARD}: entry dst_addr=0x6 is not there"),
    (
        "PERMISSION_DENIED",
        update(fy.P4TableEntry("types", match=fy.Match(ether_type=1), action=fy.Action("punt"))),
        "table ControlIngress.types has constant entries",
    ),
    (
        "PERMISSION_DENIED",
        update(fy.P4TableEntry("types", match=fy.Match(ether_type=0x88CC)), DELETE),
        "table ControlIngress.types has constant entries",
    ),
    (
        "PERMISSION_DENIED",
        update(default("pairs", fy.Action("NoAction")), MODIFY),
        "table ControlIngress.pairs has a constant default action",
    ),
    (
        "PERMISSION_DENIED",
        update(default("forward", fy.Action("set_tag", tag=1, mac=1)), MODIFY),
        f"{FORWARD}: action ControlIngress.set_tag is not allowed as default action",
    ),
    (
        INVALID,
        update(default("forward", fy.Action("punt")), INSERT),
        f"{FORWARD}: the default entry can only be modified",
    ),
    (
        INVALID,
        update(forward(5, is_default_action=True), MODIFY),
        f"{FORWARD}: the default entry has neither match fields nor priority",
    ),
    (
        INVALID,
        update(pair(1, counter_data=fy.P4CounterData())),
        "table ControlIngress.pairs has no direct counter",
    ),
    (
        INVALID,
        update(fy.P4DirectCounterEntry("forwarded", table_entry=forward(5)), DELETE),
        f"{FORWARD}: a direct counter can only be modified",
    ),
    (
        "NOT_FOUND",
        update(fy.P4DirectCounterEntry("forwarded", table_entry=forward(6)), MODIFY),
        f"{FORWARD}: entry dst_addr=0x6 is not there",
    ),
    (
        INVALID,
        update(fy.P4CounterEntry("drops", index=0), INSERT),
        "counter ControlIngress.drops can only be modified",
    ),
    (
        "OUT_OF_RANGE",
        update(fy.P4CounterEntry("drops", index=16), MODIFY),
        "counter ControlIngress.drops: index 16 is beyond the last, 15",
    ),
    (
        INVALID,
        update(fy.P4CounterEntry("drops", index=-1), MODIFY),
        "counter ControlIngress.drops: index -1 is negative",
    ),
    (
        INVALID,
        p4r.Update(type=MODIFY, entity=p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=3))),
        "no counter has ID 3",
    ),
    (
        "OUT_OF_RANGE",
        update(fy.P4RegisterEntry("cells", index=4096, data=1), MODIFY),
        "register ControlIngress.cells: index 4096 is beyond the last, 4095",
    ),
    (
        INVALID,
        update(fy.P4RegisterEntry("cells", index=1), MODIFY),
        "register ControlIngress.cells: expected data of kind bitstring, got none",
    ),
    (
        INVALID,
        cell(p4d.P4Data(bool=True)),
        "register ControlIngress.cells: expected data of kind bitstring, got bool",
    ),
    (
        INVALID,
        cell(p4d.P4Data(bitstring=b"\x01" + bytes(12))),
        "register ControlIngress.cells: 0x01000000000000000000000000 does not fit in bit<96>",
    ),
    (
        "UNIMPLEMENTED",
        p4r.Update(type=INSERT, entity=p4r.Entity(extern_entry=p4r.ExternEntry())),
        "extern_entry is not supported by softswitch",
    ),
]


@pytest.mark.parametrize(("code", "change", "message"), BAD_UPDATES, ids=[text for _, _, text in BAD_UPDATES])
def test_a_bad_update_is_refused_with_its_code(
    control: Control, code: str, change: p4r.Update, message: str
) -> None:
    refused(control, change, code, message)


def test_a_full_table_takes_an_entry_after_a_deletion(control: Control) -> None:
    assert not any(write(control, *(update(pair(n)) for n in range(4))))
    refused(
        control, update(pair(4)), "RESOURCE_EXHAUSTED", "table ControlIngress.pairs is full with 4 entries"
    )
    assert not any(write(control, update(pair(0), DELETE), update(pair(4))))


def test_constant_entries_have_no_action_to_modify(control: Control) -> None:
    match = fy.Match(ether_type=0x0800)
    with_action = update(fy.P4TableEntry("types", match=match, action=fy.Action("NoAction")), MODIFY)
    refused(control, with_action, "PERMISSION_DENIED", "table ControlIngress.types has constant entries")
    assert write(control, update(fy.P4TableEntry("types", match=match), MODIFY)) == [None]
