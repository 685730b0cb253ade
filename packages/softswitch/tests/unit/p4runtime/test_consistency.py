"""P4Info and program as p4c prints them together."""

from __future__ import annotations

import pytest
from finsy.proto import p4r

from softswitch.p4runtime.codecs.uses import Uses
from softswitch.p4runtime.packet_io import ControllerHeader
from softswitch.p4runtime.status import Refusal
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
from switch_harness.wording import mentions

TRANSLATED = PROGRAMS / "translated"


def test_a_key_without_a_width_in_p4info_has_the_programs_width() -> None:
    """As p4c describes a key of type `error`."""
    request = config()
    declared = request.p4info.tables[0]
    widths = [field.bitwidth for field in declared.match_fields]
    declared.match_fields[0].bitwidth = 0
    control = controlled_by(request)
    table = control.pipeline.program.tables[declared.preamble.name]
    assert [part.width for part in table.key] == widths
    assert request.p4info.tables[0].match_fields[0].bitwidth == 0, "it reads back as it was given"


def test_a_key_width_that_differs_from_the_programs_is_refused() -> None:
    request = config()
    request.p4info.tables[0].match_fields[0].bitwidth += 1
    with pytest.raises(Refusal, match=mentions("compilations", "different")):
        controlled_by(request)


def test_a_digest_width_that_differs_from_the_programs_is_refused() -> None:
    request = config(program=TRANSLATED)
    members = request.p4info.digests[0].type_spec.tuple.members
    members[0].bitstring.bit.bitwidth += 1
    with pytest.raises(Refusal, match="digest"):
        controlled_by(request)


def test_a_missing_value_of_a_digest_is_refused() -> None:
    request = config(program=TRANSLATED)
    del request.p4info.digests[0].type_spec.tuple.members[-1]
    with pytest.raises(Refusal, match="digest"):
        controlled_by(request)


def entry(
    control: Control, table: str, key: bytes, port: bytes = b"\x01", vrf: bytes = b"\x02"
) -> p4r.Update:
    """Return an entry with the action `forward`; its match on `kind` is left out."""
    p4info = config(program=TRANSLATED).p4info
    made = p4r.TableEntry(table_id=identity_in(p4info, table), priority=int(table == "ports"))
    made.match.add(field_id=1).exact.value = key
    made.action.action.action_id = identity_in(p4info, "forward")
    for number, value in enumerate((port, vrf), 1):
        made.action.action.params.add(param_id=number, value=value)
    return p4r.Update(type=INSERT, entity=p4r.Entity(table_entry=made))


def test_numbers_of_translated_types_are_not_translated() -> None:
    control = controlled(TRANSLATED)
    assert write(control, entry(control, "ports", b"\x01\xff"), entry(control, "vrfs", b"x")) == [None] * 2
    for table, key, port in (("ports", b"\x02\0", b"\x01"), ("vrfs", b"y", b"\x02\0")):
        (refused,) = write(control, entry(control, table, key, port))
        assert refused is not None
        assert "does not fit in bit<9>" in str(refused)


def test_registers_of_translated_types_have_the_programs_values() -> None:
    control = controlled(TRANSLATED)
    cell = p4r.RegisterEntry(register_id=identity_in(config(program=TRANSLATED).p4info, "last"))
    cell.index.index = 1
    cell.data.bitstring = b"\x01\xff"
    assert write(control, p4r.Update(type=MODIFY, entity=p4r.Entity(register_entry=cell))) == [None]
    (found,) = read(
        control, p4r.Entity(register_entry=p4r.RegisterEntry(register_id=cell.register_id, index=cell.index))
    )
    assert found.register_entry.data.bitstring == b"\x01\xff"


def test_a_controller_header_has_the_programs_widths() -> None:
    header = ControllerHeader(controlled(TRANSLATED).p4info.packet_in, Uses())
    packet = header.make_packet_in(bytes([0x80, 0x85]) + b"rest")
    assert [field.value for field in packet.metadata] == [b"\x01\x01", b"\x05"]
    assert packet.payload == b"rest"


def test_a_digest_without_a_name_in_p4info_is_the_programs_digest() -> None:
    control = controlled(TRANSLATED)
    p4info = config(program=TRANSLATED).p4info
    assert [d.preamble.name for d in p4info.digests] != [d.name for d in control.pipeline.program.digests]
    message = p4r.DigestEntry(digest_id=p4info.digests[0].preamble.id)
    message.config.max_list_size = 1
    assert write(control, p4r.Update(type=INSERT, entity=p4r.Entity(digest_entry=message))) == [None]
    learned = control.digests.learn(0, (7, 300), 0)
    assert learned is not None
    assert [member.bitstring for member in learned.data[0].tuple.members] == [b"\x07", b"\x01\x2c"]


def test_an_action_selector_without_a_table_is_only_in_p4info() -> None:
    request = config(program=TRANSLATED)
    (profile,) = request.p4info.action_profiles
    assert not controlled_by(request).pipeline.program.profiles
    profile.table_ids.append(request.p4info.tables[0].preamble.id)
    request.p4info.tables[0].implementation_id = profile.preamble.id
    with pytest.raises(Refusal, match="action profile"):
        controlled_by(request)
