"""Check the types of a BMv2 JSON's parts, so that an error names the place and what was expected there.

A shape is a type, `[shape]` for a list of any length, a tuple for a list of that length, a dict for an object
with these keys (optional keys end in `?`), or a `Check`. `make_check` turns it into functions once, because a
program has thousands of parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from softswitch.errors import ProgramError
from softswitch.limits import MAX_HEADER_BYTES, MAX_VALUE_BITS

Shape = Any  # a type, or nested lists, tuples and dicts of shapes
Check = Callable[[object], None]
"""A function that raises `ShapeMismatch` unless the value has a shape."""
_MAX_SHOWN_CHARACTERS = 60  # of a value in an error
_TYPE_NAMES: dict[type, str] = {str: "a string", list: "a list", dict: "an object"}


class ShapeMismatch(Exception):
    """A part that lacks its shape; the checks around it put their keys and positions before its place."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem, self.place = problem, ""

    def within(self, step: str) -> ShapeMismatch:
        self.place = step + self.place
        return self


def check_document(document: object, check: Check) -> None:
    """Raise ProgramError, with the place of the first part that does not have its shape."""
    try:
        check(document)
    except ShapeMismatch as error:
        raise ProgramError(f"{error.place.removeprefix('.') or 'program'}: {error.problem}") from None


def make_check(shape: Shape) -> Check:
    if isinstance(shape, dict):
        return _make_object_check(shape)
    if isinstance(shape, list):
        return _make_list_check(make_check(shape[0]))
    if isinstance(shape, tuple):
        return _make_tuple_check([make_check(element) for element in shape])
    if isinstance(shape, type):
        return _make_type_check(shape)
    check: Check = shape
    return check


def _make_type_check(kind: type) -> Check:
    def check_type(value: object) -> None:
        if not isinstance(value, kind):
            raise mismatch(_TYPE_NAMES[kind], value)

    return check_type


def _make_object_check(shape: dict[str, Shape]) -> Check:
    checks = [(key.removesuffix("?"), key.endswith("?"), make_check(value)) for key, value in shape.items()]

    def check_object(value: object) -> None:
        if not isinstance(value, dict):
            raise mismatch("an object", value)
        for name, is_optional, check in checks:
            if name not in value:
                if not is_optional:
                    raise ShapeMismatch(f"expected `{name}`, there is none")
                continue
            element = value[name]
            if element is None and is_optional:
                continue
            try:
                check(element)
            except ShapeMismatch as error:
                raise error.within(f".{name}") from None

    return check_object


def _make_list_check(check: Check) -> Check:
    def check_list(value: object) -> None:
        if not isinstance(value, list):
            raise mismatch("a list", value)
        for index, element in enumerate(value):
            try:
                check(element)
            except ShapeMismatch as error:
                raise error.within(f"[{index}]") from None

    return check_list


def _make_tuple_check(checks: list[Check]) -> Check:
    def check_tuple(value: object) -> None:
        if not isinstance(value, list) or len(value) != len(checks):
            raise mismatch(f"a list of {len(checks)}", value)
        for index, (element, check) in enumerate(zip(value, checks, strict=True)):
            try:
                check(element)
            except ShapeMismatch as error:
                raise error.within(f"[{index}]") from None

    return check_tuple


def mismatch(expected: str, value: object) -> ShapeMismatch:
    text = repr(value)
    if len(text) > _MAX_SHOWN_CHARACTERS:
        text = text[: _MAX_SHOWN_CHARACTERS - 3] + "..."
    return ShapeMismatch(f"expected {expected}, got {text}")


def integer(value: object) -> None:
    """Check a number of 32 bits; as in BMv2, false is 0 and true 1."""
    if not isinstance(value, int) or not -(1 << 31) <= value < 1 << 31:
        raise mismatch("an integer of 32 bits", value)


def count(value: object) -> None:
    if not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise mismatch("an integer from 0 to 2147483647", value)


def bit_width(value: object) -> None:
    if not isinstance(value, int) or not 0 <= value <= MAX_VALUE_BITS:
        raise mismatch(f"a width from 0 to {MAX_VALUE_BITS}", value)


def max_header_bytes(value: object) -> None:
    if not isinstance(value, int) or not 0 <= value <= MAX_HEADER_BYTES:
        raise mismatch(f"a number of bytes from 0 to {MAX_HEADER_BYTES}", value)


def flag(value: object) -> None:
    """Check a truth value; as in BMv2, that is any number, or null."""
    if value is not None and not isinstance(value, int | float):
        raise mismatch("true or false", value)


def name(value: object) -> None:
    """Check a text that is used only in messages; it may be a number."""
    if value is not None and not isinstance(value, str | int | float):
        raise mismatch("a string", value)


def _check_position(value: object) -> None:
    # BMv2 accepts floats, too.
    if not isinstance(value, int | float) or not 0 <= value < 1 << 32:
        raise mismatch("an integer from 0 to 4294967295", value)


SOURCE_INFO = {
    "filename?": name,
    "line?": _check_position,
    "column?": _check_position,
    "source_fragment?": name,
}


def _check_width(value: object) -> None:
    bit_width(value)
    if value == 0:
        raise mismatch("a width above 0", value)


def hexstr(value: object) -> None:
    if not isinstance(value, str):
        raise mismatch("a hexadecimal number", value)
    try:
        number = int(value, 16)
    except ValueError:
        raise mismatch("a hexadecimal number", value) from None
    if number.bit_length() > MAX_VALUE_BITS:
        raise mismatch(f"a number of at most {MAX_VALUE_BITS} bits", value)


def one_of(*shapes: Shape) -> Check:
    """Return a check that accepts what any of the shapes accepts; its errors are those of the last."""
    *checks, last_check = map(make_check, shapes)

    def check_any(value: object) -> None:
        for check in checks:
            try:
                return check(value)
            except ShapeMismatch:
                continue
        last_check(value)

    return check_any


def _check_field_width(value: object) -> None:
    if value != "*":
        bit_width(value)


_HEADER_FIELDS = {
    length: make_check((str, _check_field_width, flag, flag)[:length]) for length in range(2, 5)
}


def header_field(value: object) -> None:
    if not isinstance(value, list) or len(value) not in _HEADER_FIELDS:
        raise mismatch("[name, width, signed]", value)
    _HEADER_FIELDS[len(value)](value)


def typed_value(value: object) -> None:
    """Check a `{type, value}` object, and the operands of an expression, none of which may be null."""
    _check_type_key(value)
    assert isinstance(value, dict)
    if (check := _VALUES.get(value["type"])) is not None:
        check(value)


def _check_vector(value: object) -> None:
    if value != {}:  # p4c prints an empty vector as an object
        _check_typed_values(value)


_UNARY_OPERATORS = ("~", "not", "d2b", "b2d", "valid", "valid_union", "last_stack_index", "size")


def operation(value: object) -> None:
    if isinstance(value, dict) and "op" not in value:
        return typed_value(value)
    _check_operator(value)
    assert isinstance(value, dict)
    op = value["op"]
    if op in ("access_field", "access_union_header"):
        _check_access(value)
    elif op in _UNARY_OPERATORS or (op in ("+", "-") and value.get("left") is None):
        _check_unary(value)
    elif op == "?":
        _check_ternary(value)
    else:
        _check_binary(value)


_check_type_key = make_check({"type": str})
_check_typed_values = make_check([typed_value])
_check_operator = make_check({"op": str})
_check_access = make_check({"left": typed_value, "right": count})
_check_unary = make_check({"left?": dict, "right": typed_value})
_check_ternary = make_check({"cond": typed_value, "left": typed_value, "right": typed_value})
_check_binary = make_check({"left": typed_value, "right": typed_value})
_VALUE_SHAPES: dict[str, Shape] = {
    "field": (str, str), "hexstr": hexstr, "bool": flag, "header": str, "header_stack": str,
    "header_union": str, "header_union_stack": str, "stack_field": (str, str),
    "union_stack_field": (str, str, str), "lookahead": (count, _check_width), "local": count,
    "runtime_data": count, "calculation": str, "meter_array": str, "counter_array": str,
    "register_array": str, "string": str, "parameters_vector": _check_vector, "expression": operation,
}  # fmt: skip
_VALUES = {kind: make_check({"value": shape}) for kind, shape in _VALUE_SHAPES.items()}
