"""Types with `@p4runtime_translation`: controllers have names or wider numbers, the program numbers."""

from __future__ import annotations

from typing import Any

import pytest
from finsy.proto import p4r
from hypothesis import given
from hypothesis import strategies as st

from softswitch.compiled import CompiledPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Masked, RangeMatch
from softswitch.p4runtime.codecs.translation import Translation
from softswitch.p4runtime.messages import adopt, p4t
from softswitch.p4runtime.status import Refusal
from softswitch.pipeline import StoredEntry
from switch_harness import PROGRAMS
from switch_harness.p4runtime import (
    INSERT,
    MODIFY,
    Control,
    config,
    controlled,
    controlled_by,
    identity_in,
    read,
    write,
)
from switch_harness.wording import mentions, says

NAMES = PROGRAMS / "names"
P4INFO = config(program=NAMES).p4info
CPU, CPU_HOP = 255, 0xFFFFFFFD
EXACT, OPTIONAL, TERNARY, RANGE, LPM = "exact", "optional", "ternary", "range", "lpm"
FULL_32 = b"\xff" * 4


def entry(
    table: str, action: str, params: list[bytes], *matches: tuple[int, str, dict[str, Any]]
) -> p4r.Update:
    made = p4r.TableEntry(table_id=identity_in(P4INFO, table), priority=1 if table != "prefixes" else 0)
    for field, kind, values in matches:
        match = made.match.add(field_id=field)
        for name, value in values.items():
            setattr(getattr(match, kind), name, value)
    made.action.action.action_id = identity_in(P4INFO, action)
    for number, value in enumerate(params, 1):
        made.action.action.params.add(param_id=number, value=value)
    return p4r.Update(type=INSERT, entity=p4r.Entity(table_entry=made))


def stored(control: Control, table: str) -> list[StoredEntry]:
    return list(control.pipeline.tables.read(f"Forward.{table}"))


CLASSIFY = (
    "classify",
    "set_hop",
    [CPU_HOP.to_bytes(4, "big"), b'vrf "b"'],
    (1, EXACT, {"value": b"Ethernet4"}),
    (2, TERNARY, {"value": b"\x00\x07", "mask": FULL_32}),
    (3, OPTIONAL, {"value": b""}),
)


def test_values_of_every_place_are_translated_and_read_back_as_written() -> None:
    control = controlled(NAMES)
    updates = [
        entry(*CLASSIFY),
        entry("hops", "forward", [b"12"], (1, RANGE, {"low": b"\x09", "high": b"\x09"})),
        entry("prefixes", "forward", [b"Ethernet4"], (1, LPM, {"value": b"\x05", "prefix_len": 32})),
    ]
    assert write(control, *updates) == [None] * 3
    (classify,), (hops,), (prefixes,) = (stored(control, table) for table in ("classify", "hops", "prefixes"))
    assert classify.key == (1, Masked(7, 0xFFFF), Masked(0, 0xF))
    assert getattr(classify.action, "args", None) == (510, 7)
    assert (hops.key, getattr(hops.action, "args", None)) == ((RangeMatch(9, 9),), (12,))
    assert (prefixes.key, getattr(prefixes.action, "args", None)) == ((Masked(5, 0xFFFF),), (1,))
    found = [each.table_entry for each in read(control, p4r.Entity(table_entry=p4r.TableEntry()))]
    updates[0].entity.table_entry.match[1].ternary.value = b"\x07"  # without leading zeros
    assert list(map(str, found)) == [str(each.entity.table_entry) for each in updates]


@pytest.mark.parametrize(
    ("update", "error"),
    [
        (
            entry("hops", "forward", [b"1"], (1, RANGE, {"low": b"\x01", "high": b"\x02"})),
            "expected a match of one whole value of type hop_t, or of any value",
        ),
        (
            entry("prefixes", "forward", [b"1"], (1, LPM, {"value": b"\x01", "prefix_len": 24})),
            "expected a match of one whole value of type hop_t, or of any value",
        ),
        (
            entry("hops", "forward", [b"1"], (1, RANGE, {"low": b"\x01\0\0", "high": b"\x01\0\0"})),
            "0x10000 does not fit in bit<16>; @p4runtime_translation_mappings of type hop_t in P4Info can",
        ),
        (
            entry("hops", "forward", [b"1"], (1, RANGE, {"low": b"\x01\xfe", "high": b"\x01\xfe"})),
            "0x1fe is the number of another value; @p4runtime_translation_mappings of type hop_t in P4Info",
        ),
        (
            entry("hops", "forward", [b"1"], (1, RANGE, {"low": b"\x01\0\0\0\0", "high": b"\x01\0\0\0\0"})),
            "does not fit in bit<32>",
        ),
    ],
)
def test_values_without_a_number_are_refused(update: p4r.Update, error: str) -> None:
    (refused,) = write(controlled(NAMES), update)
    assert refused is not None
    assert error in str(refused)


@pytest.mark.parametrize("make", [InterpretedPipeline, CompiledPipeline])
def test_a_controller_forwards_by_names_of_ports(make: Any) -> None:
    """The controller sends to ports, gets packets of ports, and multicasts to ports, all by their names."""
    request = config(program=NAMES)
    pairs = ", ".join(f'{{ "Ethernet{port}", {port * 10} }}' for port in range(4))
    request.p4info.type_info.new_types["port_t"].annotations.append(
        f'@p4runtime_translation_mappings({{ {pairs}, {{ "CPU", {CPU} }} }})'
    )
    control = controlled_by(request, make)
    updates = [
        entry("classify", "forward", [to], (1, EXACT, {"value": port}))
        for port, to in ((b"Ethernet1", b"Ethernet2"), (b"Ethernet2", b"CPU"))
    ]
    updates.append(entry("classify", "copy", [], (1, EXACT, {"value": b"Ethernet3"})))
    group = p4r.Update(type=INSERT)
    multicast = group.entity.packet_replication_engine_entry.multicast_group_entry
    multicast.multicast_group_id = 1
    for port in (b"Ethernet0", b"Ethernet1"):
        multicast.replicas.add(port=port)
    assert write(control, *updates, group) == [None] * 4
    frame = bytes(10)
    process = control.pipeline.process
    assert process(10, frame, 0, 0) == [(20, frame)]
    assert process(30, frame, 0, 0) == [(0, frame), (10, frame)]
    ((port, to_controller),) = process(20, frame, 0, 0)
    packet = control.packet_in.make_packet_in(to_controller)
    assert (port, packet.metadata[0].value, packet.payload) == (CPU, b"Ethernet2", frame)
    packet_out = p4r.PacketOut(payload=frame)
    packet_out.metadata.add(metadata_id=1, value=b"Ethernet3")
    packet_out.metadata.add(metadata_id=2, value=b"\0")
    assert process(CPU, control.packet_out.make_frame(adopt(packet_out)), 0, 0) == [(30, frame)]
    query = p4r.Entity()
    query.packet_replication_engine_entry.multicast_group_entry.SetInParent()
    assert [str(each) for each in read(control, query)] == [str(group.entity)]


def test_digests_have_the_controllers_names() -> None:
    control = controlled(NAMES)
    message = p4r.DigestEntry(digest_id=P4INFO.digests[0].preamble.id)
    message.config.max_list_size = 1
    assert write(control, p4r.Update(type=INSERT, entity=p4r.Entity(digest_entry=message))) == [None]
    learned = control.digests.learn(0, (7, 3), 0)
    assert learned is not None
    assert [member.bitstring for member in learned.data[0].tuple.members] == [b'vrf "b"', b"\x03"]


def test_registers_have_the_controllers_values() -> None:
    control = controlled(NAMES)
    assert (
        write(control, cell("last_vrf", 5, b'vrf "b"'), cell("last_hop", 0, b"\xff\xff\xff\xfd"))
        == [None] * 2
    )
    assert control.pipeline.cells.read_register("Forward.last_vrf", 5, 6) == [7]
    assert control.pipeline.cells.read_register("Forward.last_hop", 0, 1) == [510]
    found = [each.register_entry for each in read(control, cell("last_vrf", 5).entity)]
    assert [(each.index.index, each.data.bitstring) for each in found] == [(5, b'vrf "b"')]
    (refused,) = write(control, cell("last_hop", 0, b"\x01\xfe"))
    assert refused is not None
    assert says(str(refused), "Forward.last_hop", "0x1fe")


def test_indices_are_the_controllers() -> None:
    """p4c does not print `index_type_name` for v1model; a controller may add it."""
    request = config(program=NAMES)
    for arrays in (request.p4info.counters, request.p4info.meters, request.p4info.registers):
        for array in arrays:
            array.index_type_name.name = "hop_t"
    control = controlled_by(request)
    identity = identity_in(P4INFO, "last_vrf")
    assert write(control, cell("last_vrf", CPU_HOP, b"5"), cell("last_vrf", 3, b"6")) == [None] * 2
    assert control.pipeline.cells.read_register("Forward.last_vrf", 0, 512) == [0] * 3 + [6] + [0] * 506 + [
        5,
        0,
    ]
    whole = p4r.Entity(register_entry=p4r.RegisterEntry(register_id=identity))
    found = [each.register_entry for each in read(control, whole)]
    assert [each.index.index for each in found] == [*range(510), CPU_HOP, 511]
    assert (
        write(control, *(p4r.Update(type=MODIFY, entity=each) for each in read(control, whole)))
        == [None] * 512
    )
    assert [each.register_entry for each in read(control, whole)] == found

    counter = p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=identity_in(P4INFO, "seen")))
    meter = p4r.Entity(meter_entry=p4r.MeterEntry(meter_id=identity_in(P4INFO, "rate")))
    counter.counter_entry.index.index = meter.meter_entry.index.index = CPU_HOP
    counter.counter_entry.data.packet_count = 9
    meter.meter_entry.config.cir = meter.meter_entry.config.pir = 7
    meter.meter_entry.config.cburst = meter.meter_entry.config.pburst = 1
    assert write(control, *(p4r.Update(type=MODIFY, entity=each) for each in (counter, meter))) == [None] * 2
    assert control.pipeline.cells.read_counter("Forward.seen", 510, 511)[0].packets == 9
    assert [str(each) for wanted in (counter, meter) for each in read(control, wanted)] == [
        str(counter), str(meter)
    ]  # fmt: skip

    refusals = write(
        control, cell("last_vrf", 510, b"5"), cell("last_vrf", 600, b"5"), cell("last_vrf", 1 << 32, b"")
    )
    assert [str(each).rpartition("last_vrf: ")[2].partition(";")[0] for each in refusals] == [
        "0x1fe is the number of another value",
        "index 600 is beyond the last, 511",
        "0x0100000000 does not fit in bit<32>",
    ]


def cell(register: str, index: int, value: bytes | None = None) -> p4r.Update:
    message = p4r.RegisterEntry(register_id=identity_in(P4INFO, register))
    message.index.index = index
    if value is not None:
        message.data.bitstring = value
    return p4r.Update(type=MODIFY, entity=p4r.Entity(register_entry=message))


@pytest.mark.parametrize(
    ("pairs", "error"),
    [
        ('{ "a", 1 }, { "b", 1 }', r"type port_t: b'b' or 1 is mapped twice"),
        ('{ "a", 1 }, { "a", 2 }', r"type port_t: b'a' or 2 is mapped twice"),
        (
            '{ "a", one }',
            r"type port_t: expected pairs of a value and a number in @p4runtime_translation_map",
        ),
    ],
)
def test_invalid_mappings_are_refused(pairs: str, error: str) -> None:
    request = config(program=NAMES)
    annotation = f"@p4runtime_translation_mappings({{ {pairs} }})"
    request.p4info.type_info.new_types["port_t"].annotations.append(annotation)
    with pytest.raises(Refusal, match=error):
        controlled_by(request)


def translation(width: int, sdn_width: int | None = None) -> Translation:
    spec = p4t.P4NewTypeSpec()
    if sdn_width is None:
        spec.translated_type.sdn_string.SetInParent()
    else:
        spec.translated_type.sdn_bitwidth = sdn_width
    made = Translation("t", spec)
    made.width = width
    return made


@given(st.lists(st.one_of(st.binary(max_size=3), st.integers(0, 40).map(lambda n: b"%d" % n)), max_size=30))
def test_names_and_numbers_are_mapped_one_to_one(names: list[bytes]) -> None:
    kept = translation(6)
    model: dict[bytes, int] = {}
    for name in names:
        number = kept.decode(name, "here")
        assert model.setdefault(name, number) == number
        assert kept.encode(number) == name
        assert number >> 6 == 0
    assert len(set(model.values())) == len(model)


def test_names_get_the_smallest_free_numbers_until_all_are_in_use() -> None:
    kept = translation(2)
    assert [kept.decode(name, "here") for name in (b"2", b"a", b"02", b"a", b"0")] == [2, 1, 3, 1, 0]
    with pytest.raises(Refusal, match=mentions("here", 3)):
        kept.decode(b"b", "here")


def test_numbers_of_controllers_are_their_own_until_mapped() -> None:
    wide = translation(9, 32)
    assert (wide.decode(b"\0\0\x01\x02", "here"), wide.encode(0x102), wide.encode(3)) == (
        0x102,
        b"\x01\x02",
        b"\x03",
    )
