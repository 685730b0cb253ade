"""Convert `P4Data` of register cells and digests to integers in order, and back (P4Runtime 1.4 §8.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from softswitch.p4runtime.codecs.translation import Translation, Translations
from softswitch.p4runtime.codecs.values import decode, encode
from softswitch.p4runtime.messages import p4d, p4t
from softswitch.p4runtime.status import invalid, unimplemented


@dataclass(frozen=True, slots=True)
class Leaf:
    """A single value; `kind` is its field in `P4Data`. The width in bits is 0 if P4Info lacks it."""

    kind: str
    width: int
    translation: Translation | None = None


@dataclass(frozen=True, slots=True)
class Struct:
    kind: str  # "struct" or "tuple"
    members: tuple[Shape, ...]


Shape = Leaf | Struct


def shape_of(
    spec: p4t.P4DataTypeSpec, types: p4t.P4TypeInfo, translations: Translations, location: str
) -> Shape:
    """Return the shape of a type; RecursionError if it contains itself, which `LoadedConfig` reports."""
    match spec.WhichOneof("type_spec"):
        case "bitstring":
            return Leaf("bitstring", _width(spec.bitstring, location))
        case "bool":
            return Leaf("bool", 1)
        case "serializable_enum":
            enum = types.serializable_enums[spec.serializable_enum.name]
            return Leaf("enum_value", enum.underlying_type.bitwidth)
        case "struct":
            members = [member.type_spec for member in types.structs[spec.struct.name].members]
            return Struct(
                "struct", tuple(shape_of(member, types, translations, location) for member in members)
            )
        case "tuple":
            shapes = [shape_of(member, types, translations, location) for member in spec.tuple.members]
            return Struct("tuple", tuple(shapes))
        case "new_type":
            new_type = types.new_types[spec.new_type.name]
            if new_type.HasField("original_type"):
                return shape_of(new_type.original_type, types, translations, location)
            return Leaf("bitstring", 0, translations.of(spec.new_type))
        case kind:
            raise unimplemented(f"P4Info: {location}: values of type {kind} are not supported")


def widths(shape: Shape) -> tuple[int, ...]:
    if isinstance(shape, Leaf):
        return (shape.width,)
    return tuple(width for member in shape.members for width in widths(member))


def to_data(shape: Shape, values: Sequence[int]) -> p4d.P4Data:
    data = p4d.P4Data()
    _fill_data(shape, iter(values), data)
    return data


def value_of(shape: Leaf, data: p4d.P4Data, location: str) -> int:
    found_kind = data.WhichOneof("data")
    if found_kind != shape.kind:
        raise invalid(f"{location}: expected data of kind {shape.kind}, got {found_kind or 'none'}")
    if shape.kind == "bool":
        return int(data.bool)
    value: bytes = getattr(data, shape.kind)
    if shape.translation is not None:
        return shape.translation.decode(value, location)
    return decode(value, shape.width, location)


def _fill_data(shape: Shape, values: Iterator[int], data: p4d.P4Data) -> None:
    if isinstance(shape, Struct):
        container = getattr(data, shape.kind)
        container.SetInParent()
        for member in shape.members:
            _fill_data(member, values, container.members.add())
    elif shape.kind == "bool":
        data.bool = bool(next(values))
    else:
        number = next(values)
        value = encode(number) if shape.translation is None else shape.translation.encode(number)
        setattr(data, shape.kind, value)


def _width(spec: p4t.P4BitstringLikeTypeSpec, location: str) -> int:
    match spec.WhichOneof("type_spec"):
        case "bit":
            return spec.bit.bitwidth
        case "int":
            return spec.int.bitwidth
        case kind:
            raise unimplemented(f"P4Info: {location}: values of type {kind} are not supported")
