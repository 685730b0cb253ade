"""Value sets whose fields have other kinds than exact: their members match whole values, as in BMv2."""

from __future__ import annotations

import pytest
from finsy.proto import p4i, p4r

from softswitch.interpreter import InterpretedPipeline
from switch_harness import PROGRAMS
from switch_harness.p4runtime import MODIFY, Control, config, controlled_by, read, write
from switch_harness.wording import says

VALUE_SETS = PROGRAMS / "value_sets"
KINDS = (p4i.MatchField.TERNARY, p4i.MatchField.RANGE)


@pytest.fixture
def control() -> Control:
    """The program with a ternary and a range field in P4Info's `pairs`."""
    request = config(program=VALUE_SETS)
    (pairs,) = [each for each in request.p4info.value_sets if each.preamble.alias == "pairs"]
    for field, kind in zip(pairs.match, KINDS, strict=True):
        field.match_type = kind
    return controlled_by(request, InterpretedPipeline)


def members(control: Control, *pairs: tuple[bytes, bytes, bytes, bytes]) -> p4r.Update:
    (identity,) = [each.id for each in control.p4info.value_sets.values() if each.name == "P.pairs"]
    update = p4r.Update(type=MODIFY)
    entry = update.entity.value_set_entry
    entry.value_set_id = identity
    for value, mask, low, high in pairs:
        member = entry.members.add()
        ternary, between = member.match.add(field_id=1).ternary, member.match.add(field_id=2).range
        ternary.value, ternary.mask, between.low, between.high = value, mask, low, high
    return update


def test_whole_values_are_members_and_read_back(control: Control) -> None:
    update = members(control, (b"\x05", b"\x7f", b"\x09", b"\x09"))
    assert write(control, update) == [None]
    query = p4r.Entity(value_set_entry=p4r.ValueSetEntry())
    assert str(update.entity) in [str(each) for each in read(control, query)]
    assert control.value_sets.members(update.entity.value_set_entry.value_set_id) == ((5, 9),)


@pytest.mark.parametrize("pair", [(b"\x04", b"\x7e", b"\1", b"\1"), (b"\x05", b"\x7f", b"\x01", b"\x02")])
def test_members_that_match_a_part_of_a_value_are_refused(
    control: Control, pair: tuple[bytes, bytes, bytes, bytes]
) -> None:
    (refused,) = write(control, members(control, pair))
    assert refused is not None
    assert (refused.code.name, str(refused).rpartition(": ")[2]) == (
        "UNIMPLEMENTED",
        "the parser matches whole values only",
    )


def test_a_member_given_twice_is_named(control: Control) -> None:
    pair = (b"\x05", b"\x7f", b"\x09", b"\x09")
    (refused,) = write(control, members(control, pair, pair))
    assert refused is not None
    assert says(str(refused), "narrow=0x5&&&0x7f", "wide=0x9..0x9")
