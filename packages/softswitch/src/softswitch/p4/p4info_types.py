"""Types of a program in its P4Info (P4Runtime 1.4, §8), with all that they are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from softswitch.p4 import tree, types
from softswitch.p4.constants import Evaluator, size_bits
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.lexer import TokenKind
from softswitch.p4.objects import control_plane_name
from softswitch.p4.p4info_annotations import fill_annotations
from softswitch.p4.scopes import Facts
from softswitch.p4.unify import fields_of
from softswitch.p4runtime.messages import p4t

_TRANSLATION = "p4runtime_translation"


def bytes_of(value: int, width: int) -> bytes:
    """Return a number as p4c writes it: as many bytes as its type takes."""
    return (value & ((1 << width) - 1)).to_bytes(-(-width // 8), "big")


class TypeSpecs:
    """Makes descriptions of types, and collects in `message` the types with names that they use."""

    def __init__(self, facts: Facts, message: p4t.P4TypeInfo) -> None:
        self._facts, self._message = facts, message

    # -- what fields and parameters tell of their types

    def width(self, given: types.Type) -> int:
        """Return the bits that a controller sees, 0 for a string."""
        if isinstance(given, types.New):
            translation = given.declaration.annotation(_TRANSLATION)
            if translation is not None:
                return _controller_width(translation)
        base = types.base_of(given)
        return 0 if base == types.ERROR or base == types.STRING else size_bits(base, self._facts)

    def named(self, given: types.Type) -> str | None:
        """Return the name of a `type`, None for all other types."""
        return control_plane_name(given.declaration, "") if isinstance(given, types.New) else None

    # -- descriptions

    def spec(self, given: types.Type) -> p4t.P4DataTypeSpec:
        spec = p4t.P4DataTypeSpec()
        match given:
            case types.Bits(width, signed):
                (spec.bitstring.int if signed else spec.bitstring.bit).bitwidth = width
            case types.Varbit(width):
                spec.bitstring.varbit.max_bitwidth = width
            case types.BOOL:
                spec.bool.SetInParent()
            case types.ERROR:
                spec.error.SetInParent()
                self._add_error()
            case types.Struct():
                getattr(spec, given.kind).name = self._add_struct(given)
            case types.Enum(underlying=None):
                spec.enum.name = self._add_enum(given)
            case types.Enum():
                spec.serializable_enum.name = self._add_serializable_enum(given)
            case types.New():
                spec.new_type.name = self._add_new(given)
            case types.Tuple(elements):
                spec.tuple.SetInParent()
                spec.tuple.members.extend(self.spec(each) for each in elements)
            case types.Stack(types.Struct() as element, size):
                stack = spec.header_stack if element.kind == "header" else spec.header_union_stack
                getattr(stack, element.kind).name = self._add_struct(element)
                stack.size = size
            case _:
                raise SourceError(_position(given), f"expected a type that P4Runtime knows, got {given}")
        return spec

    def _add_error(self) -> None:
        if not self._message.HasField("error"):
            self._message.error.members.extend(self._facts.errors)

    def _add_struct(self, given: types.Struct) -> str:
        name = control_plane_name(given.declaration, "")
        match given.kind:
            case "struct":
                self._fill(self._message.structs, name, self._struct_spec, given)
            case "header":
                self._fill(self._message.headers, name, self._header_spec, given)
            case _:
                self._fill(self._message.header_unions, name, self._union_spec, given)
        return name

    def _fill(self, known: Any, name: str, make: Any, given: types.Type) -> None:
        if name not in known:
            known[name].CopyFrom(make(given))

    def _fields(self, given: types.Struct) -> Iterator[tuple[str, types.Type]]:
        kinds = fields_of(given, self._facts)
        for field in given.declaration.fields:
            yield control_plane_name(field, ""), kinds[field.name]

    def _struct_spec(self, given: types.Struct) -> p4t.P4StructTypeSpec:
        made = p4t.P4StructTypeSpec()
        for name, kind in self._fields(given):
            made.members.add(name=name, type_spec=self.spec(kind))
        return made

    def _header_spec(self, given: types.Struct) -> p4t.P4HeaderTypeSpec:
        made = p4t.P4HeaderTypeSpec()
        for name, _, kind in flat_fields(given, self._facts):
            made.members.add(name=name, type_spec=self._bits(kind))
        return made

    def _bits(self, kind: types.Type) -> p4t.P4BitstringLikeTypeSpec:
        spec = self.spec(kind)
        if spec.HasField("bitstring"):
            return spec.bitstring
        return self.spec(types.Bits(size_bits(kind, self._facts))).bitstring

    def _union_spec(self, given: types.Struct) -> p4t.P4HeaderUnionTypeSpec:
        made = p4t.P4HeaderUnionTypeSpec()
        for name, kind in self._fields(given):
            made.members.add(name=name, header=self.spec(kind).header)
        return made

    def _add_enum(self, given: types.Enum) -> str:
        name = control_plane_name(given.declaration, "")
        if name not in self._message.enums:
            made = self._message.enums[name]
            for member in given.declaration.members:
                made.members.add(name=control_plane_name(member, ""))
        return name

    def _add_serializable_enum(self, given: types.Enum) -> str:
        name = control_plane_name(given.declaration, "")
        if name not in self._message.serializable_enums:
            assert given.underlying is not None
            width = given.underlying.width
            made = self._message.serializable_enums[name]
            made.underlying_type.bitwidth = width
            evaluator = Evaluator(self._facts)
            for member in given.declaration.members:
                assert member.value is not None
                value = bytes_of(evaluator.integer(member.value), width)
                made.members.add(name=control_plane_name(member, ""), value=value)
        return name

    def _add_new(self, given: types.New) -> str:
        name = control_plane_name(given.declaration, "")
        if name not in self._message.new_types:
            base = self.spec(types.base_of(given))
            made = self._message.new_types[name]
            fill_annotations(made, given.declaration.annotations, self._facts, (_TRANSLATION,))
            translation = given.declaration.annotation(_TRANSLATION)
            if translation is None:
                made.original_type.CopyFrom(base)
            else:
                made.translated_type.uri = translation.text
                if width := _controller_width(translation):
                    made.translated_type.sdn_bitwidth = width
                else:
                    made.translated_type.sdn_string.SetInParent()
        return name


def flat_fields(
    given: types.Struct, facts: Facts, prefix: str = "", annotations: Sequence[tree.Annotation] = ()
) -> Iterator[tuple[str, tree.Annotations, types.Type]]:
    """Yield the fields of a header, with those of structs in it in their place, as p4c names them."""
    kinds = fields_of(given, facts)
    for field in given.declaration.fields:
        kind = kinds[field.name]
        inner = [*field.annotations, *(each for each in annotations if field.annotation(each.name) is None)]
        if isinstance(kind, types.Struct):
            yield from flat_fields(kind, facts, f"{prefix}{field.name}.", inner)
        else:
            name = f"{prefix}{field.name}" if prefix else control_plane_name(field, "")
            yield name, inner, kind


def _controller_width(translation: tree.Annotation) -> int:
    """Return the bits of the type after the comma: `32` or `bit<32>`; 0 for `string`."""
    tokens = translation.tokens
    comma = next(
        (i for i, token in enumerate(tokens) if token.text == "," and token.kind is TokenKind.SYMBOL), None
    )
    if comma is None:
        raise SourceError(translation, f'expected `@{_TRANSLATION}("uri", type)`')
    if any(token.text == "string" for token in tokens[comma:]):
        return 0
    numbers = translation.integers
    if len(numbers) != 1:
        raise SourceError(translation, f"expected bits or `string` as the type of `@{_TRANSLATION}`")
    return numbers[0]


def _position(given: types.Type) -> Any:
    declaration = getattr(given, "declaration", None)
    return declaration.position if declaration is not None else ("", 0, 0)
