"""`P4Data` of register cells and digests: the types that v1model's externs carry."""

import pytest

from softswitch.p4runtime.codecs.data import Leaf, Struct, shape_of, to_data, value_of, widths
from softswitch.p4runtime.codecs.translation import Translations
from softswitch.p4runtime.messages import p4d, p4t
from softswitch.p4runtime.status import Refusal
from switch_harness.wording import mentions


def spec(**fields: object) -> p4t.P4DataTypeSpec:
    return p4t.P4DataTypeSpec(**fields)  # type: ignore[arg-type]  # by name


BIT_9 = spec(bitstring={"bit": {"bitwidth": 9}})
TYPES = p4t.P4TypeInfo()
TYPES.serializable_enums["kind_t"].underlying_type.bitwidth = 4
TYPES.new_types["port_t"].original_type.CopyFrom(BIT_9)
TYPES.structs["seen_t"].members.add(name="port", type_spec=BIT_9)
TYPES.structs["seen_t"].members.add(name="ok", type_spec=spec(bool={}))


@pytest.mark.parametrize(
    ("type_spec", "shape"),
    [
        (BIT_9, Leaf("bitstring", 9)),
        (spec(bitstring={"int": {"bitwidth": 8}}), Leaf("bitstring", 8)),
        (spec(bool={}), Leaf("bool", 1)),
        (spec(serializable_enum={"name": "kind_t"}), Leaf("enum_value", 4)),
        (spec(new_type={"name": "port_t"}), Leaf("bitstring", 9)),
        (spec(struct={"name": "seen_t"}), Struct("struct", (Leaf("bitstring", 9), Leaf("bool", 1)))),
        (spec(tuple={"members": [BIT_9, BIT_9]}), Struct("tuple", (Leaf("bitstring", 9),) * 2)),
    ],
)
def test_types_of_p4info_have_the_expected_shapes(
    type_spec: p4t.P4DataTypeSpec, shape: Leaf | Struct
) -> None:
    assert shape_of(type_spec, TYPES, Translations(TYPES), "register r") == shape


@pytest.mark.parametrize("wrong", [spec(bitstring={"varbit": {}}), spec(header={"name": "h"}), spec()])
def test_types_that_no_extern_carries_are_refused(wrong: p4t.P4DataTypeSpec) -> None:
    with pytest.raises(Refusal, match=mentions("P4Info", "d")):
        shape_of(wrong, TYPES, Translations(TYPES), "digest d")


def test_values_fill_a_shape_in_order() -> None:
    inner = Struct("tuple", (Leaf("bool", 1), Leaf("enum_value", 4)))
    shape = Struct("struct", (Leaf("bitstring", 9), inner, Leaf("bitstring", 16)))
    data = to_data(shape, [256, 1, 3, 0])
    assert widths(shape) == (9, 1, 4, 16)
    first, second, third = data.struct.members
    assert (first.bitstring, third.bitstring) == (b"\1\0", b"\0")
    assert (second.tuple.members[0].bool, second.tuple.members[1].enum_value) == (True, b"\3")


def test_one_value_is_read() -> None:
    assert value_of(Leaf("bool", 1), p4d.P4Data(bool=True), "r") == 1
    assert value_of(Leaf("enum_value", 4), p4d.P4Data(enum_value=b"\x0f"), "r") == 15
    for shape, data, text in [
        (Leaf("bitstring", 9), p4d.P4Data(bool=True), "r: expected data of kind bitstring, got bool"),
        (Leaf("enum_value", 4), p4d.P4Data(), "r: expected data of kind enum_value, got none"),
        (Leaf("enum_value", 4), p4d.P4Data(enum_value=b"\x10"), "r: 0x10 does not fit in bit<4>"),
    ]:
        with pytest.raises(Refusal) as refusal:
            value_of(shape, data, "r")
        assert str(refusal.value) == text
