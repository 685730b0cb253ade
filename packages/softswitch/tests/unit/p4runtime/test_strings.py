"""Numbers of strings: an entity that is there has them; what is refused, undone, read or removed has none."""

from __future__ import annotations

import contextlib
from random import Random
from typing import Any

import pytest
from finsy.proto import p4r

from softswitch.interpreter import InterpretedPipeline
from softswitch.p4runtime.codecs.translation import Translation
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.loaded_config import LoadedConfig
from softswitch.p4runtime.messages import adopt
from softswitch.p4runtime.status import Refusal
from switch_harness import PROGRAMS
from switch_harness.effort import seeds
from switch_harness.faults import Fault, faulty
from switch_harness.p4runtime import (
    DELETE,
    INSERT,
    MODIFY,
    Control,
    config,
    controlled,
    identity_in,
    read,
    write,
)

NAMES = PROGRAMS / "names"
P4INFO = config(program=NAMES).p4info
PORTS = [b"a", b"b", b"c", b"12", b"510", b"300", b"long name"]
NONE: dict[str, set[bytes]] = {"port_t": set(), "vrf_t": set()}
VRFS = [b"blue", b"red", b"7", b'vrf "b"', b"13"]
EVERYTHING = [
    p4r.Entity(table_entry=p4r.TableEntry()),
    *(
        p4r.Entity(table_entry=p4r.TableEntry(table_id=table.preamble.id, is_default_action=True))
        for table in P4INFO.tables
    ),
    p4r.Entity(register_entry=p4r.RegisterEntry(register_id=identity_in(P4INFO, "last_vrf"))),
    p4r.Entity(
        packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
            multicast_group_entry=p4r.MulticastGroupEntry()
        )
    ),
    p4r.Entity(
        packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
            clone_session_entry=p4r.CloneSessionEntry()
        )
    ),
]


def translation(control: Control, name: str) -> Translation:
    return control.p4info._translations._translations_by_name[name]


def numbered(control: Control) -> dict[str, set[bytes]]:
    """The strings that have numbers, but for those that P4Info maps."""
    found = {}
    for name in ("port_t", "vrf_t"):
        mapping = translation(control, name)
        assert {n: v for v, n in mapping._numbers_by_value.items()} == mapping._values_by_number
        values = {v for v, n in mapping._numbers_by_value.items() if n not in mapping._mapped_numbers}
        found[name] = {value for value in values if isinstance(value, bytes)}
    return found


def in_use(control: Control) -> dict[str, set[bytes]]:
    """The strings in all entities that the server reads back, which were written as strings."""
    texts = {value for entity in read(control, *EVERYTHING) for value in _bytes_fields(entity)}
    mapped = {name: set(translation(control, name)._numbers_by_value) for name in ("port_t", "vrf_t")}
    fixed = {
        name: {
            translation(control, name)._values_by_number[n]
            for n in translation(control, name)._mapped_numbers
        }
        for name in mapped
    }
    return {
        "port_t": {value for value in texts & set(PORTS) if value not in fixed["port_t"]},
        "vrf_t": {value for value in texts & set(VRFS) if value not in fixed["vrf_t"]},
    }


def _bytes_fields(message: Any) -> list[bytes]:
    found: list[bytes] = []
    for field, value in message.ListFields():
        for each in value if field.is_repeated else [value]:
            if field.message_type is not None:
                found += _bytes_fields(each)
            elif isinstance(each, bytes):
                found.append(each)
    return found


def entry(random: Random) -> p4r.Entity:
    made = p4r.Entity()
    match random.randrange(5):
        case 0:
            table = made.table_entry
            table.table_id, table.priority = identity_in(P4INFO, "classify"), random.randrange(1, 3)
            table.match.add(field_id=1).exact.value = random.choice(PORTS)
            if random.random() < 0.5:
                table.match.add(field_id=3).optional.value = b""
            action = table.action.action
            action.action_id = identity_in(P4INFO, "set_hop")
            action.params.add(param_id=1, value=bytes([random.randrange(5)]))
            action.params.add(param_id=2, value=random.choice(VRFS))
        case 1:
            table = made.table_entry
            table.table_id, table.priority = identity_in(P4INFO, "hops"), 1
            number = bytes([random.randrange(3)])
            table.match.add(field_id=1).range.low = number
            table.match[0].range.high = number
            table.action.action.action_id = identity_in(P4INFO, "forward")
            table.action.action.params.add(param_id=1, value=random.choice(PORTS))
        case 2:
            cell = made.register_entry
            cell.register_id = identity_in(P4INFO, "last_vrf")
            if random.random() < 0.8:
                cell.index.index = random.randrange(3)
            cell.data.bitstring = random.choice(VRFS)
        case 3:
            group = made.packet_replication_engine_entry.multicast_group_entry
            group.multicast_group_id = random.randrange(1, 3)
            for port in random.sample(PORTS, random.randrange(3)):
                group.replicas.add(port=port)
        case 4:
            session = made.packet_replication_engine_entry.clone_session_entry
            session.session_id = random.randrange(1, 3)
            session.replicas.add(port=random.choice(PORTS))
    return made


@pytest.mark.parametrize("seed", seeds(6))
def test_only_the_strings_of_existing_entities_have_numbers(seed: int) -> None:
    random, control = Random(seed), controlled(NAMES)
    done = 0
    for _ in range(120):
        updates = []
        for _ in range(random.randrange(1, 5)):
            made = entry(random)
            kind = (
                MODIFY if made.HasField("register_entry") else random.choice([INSERT, INSERT, MODIFY, DELETE])
            )
            if random.random() < 0.1:
                made.table_entry.table_id = 7
            updates.append(p4r.Update(type=kind, entity=made))
        atomicity = random.choice(p4r.WriteRequest.Atomicity.values())
        with faulty(control.pipeline, random.choice([Fault.BEFORE, Fault.AFTER]), random.randrange(20)):
            results = write(control, *updates, atomicity=atomicity)
        done += results.count(None)
        read_any(control, random)
        assert numbered(control) == in_use(control)
    assert done > 50


def read_any(control: Control, random: Random) -> None:
    query = entry(random)
    with contextlib.suppress(Refusal):
        read(control, query)
    packet = p4r.PacketOut()
    packet.metadata.add(metadata_id=1, value=random.choice(PORTS))
    packet.metadata.add(metadata_id=2, value=b"\0")
    control.packet_out.make_frame(adopt(packet))


def group(number: int, *ports: bytes) -> p4r.Entity:
    made = p4r.Entity()
    made.packet_replication_engine_entry.multicast_group_entry.multicast_group_id = number
    for port in ports:
        made.packet_replication_engine_entry.multicast_group_entry.replicas.add(port=port)
    return made


def test_600_refused_writes_reads_and_packets_leave_all_numbers_free() -> None:
    """There are 512 numbers."""
    control = controlled(NAMES)
    for number in range(600):
        (refused,) = write(control, p4r.Update(type=MODIFY, entity=group(1, b"refused %d" % number)))
        assert refused is not None and refused.code.name == "NOT_FOUND"
        assert numbered(control) == NONE
        query = p4r.Entity()
        query.table_entry.table_id = identity_in(P4INFO, "classify")
        query.table_entry.match.add(field_id=1).exact.value = b"read %d" % number
        query.table_entry.priority = 1
        assert read(control, query) == []
        assert numbered(control) == NONE
        packet = p4r.PacketOut()
        packet.metadata.add(metadata_id=1, value=b"sent %d" % number)
        packet.metadata.add(metadata_id=2, value=b"\0")
        control.packet_out.make_frame(adopt(packet))
        assert numbered(control) == NONE


def test_numbers_are_returned_with_the_last_use_and_given_again() -> None:
    control = controlled(NAMES)
    for number in range(1_200):
        name = b"name %d" % number
        assert write(control, p4r.Update(type=INSERT, entity=group(1, name))) == [None]
        (entity,) = read(control, EVERYTHING[-2])
        assert entity == group(1, name)
        assert write(control, p4r.Update(type=DELETE, entity=group(1))) == [None]
    # Two groups have it, so the first DELETE returns nothing.
    updates = [p4r.Update(type=INSERT, entity=group(number, b"shared")) for number in (1, 2)]
    assert write(control, *updates, p4r.Update(type=DELETE, entity=group(1))) == [None] * 3
    assert numbered(control)["port_t"] == {b"shared"}
    assert write(control, p4r.Update(type=MODIFY, entity=group(2, b"other"))) == [None]
    assert numbered(control)["port_t"] == {b"other"}


def test_a_full_type_refuses_new_strings_and_still_reads_and_deletes() -> None:
    control, ports = controlled(NAMES), [b"name %d" % number for number in range(600)]
    refused = []
    for number, port in enumerate(ports, 1):
        (result,) = write(control, p4r.Update(type=INSERT, entity=group(number, port)))
        refused += [result.code.name] if result else []
    assert refused and set(refused) <= {"RESOURCE_EXHAUSTED", "INVALID_ARGUMENT"}
    query = p4r.Entity()
    query.table_entry.table_id, query.table_entry.priority = identity_in(P4INFO, "classify"), 1
    query.table_entry.match.add(field_id=1).exact.value = b"unknown"
    assert read(control, query) == []
    (result,) = write(control, p4r.Update(type=DELETE, entity=query))
    assert result is not None and result.code.name == "NOT_FOUND"
    assert write(control, p4r.Update(type=DELETE, entity=group(1))) == [None]
    (result,) = write(control, p4r.Update(type=INSERT, entity=group(1, b"unknown")))
    assert result is None


def test_pipelines_of_one_config_have_their_own_numbers() -> None:
    loaded = LoadedConfig(adopt(config(program=NAMES)))
    first, second = (ControlledPipeline(loaded, InterpretedPipeline, lambda: 0) for _ in range(2))
    assert write(first, p4r.Update(type=INSERT, entity=group(1, b"a"))) == [None]
    assert numbered(first)["port_t"] == {b"a"}
    assert numbered(second)["port_t"] == set()
    plain = LoadedConfig(adopt(config()))
    assert plain.make_p4info() is plain.make_p4info()
