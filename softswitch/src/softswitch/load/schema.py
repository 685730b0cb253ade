"""Check the types of a BMv2 JSON's parts, so that an error names the place and what was expected there.

A shape is a type, `[shape]` for a list of any length, a tuple for a list of that length, a dict for an object
with these keys (optional keys end in `?`), or a function that checks the value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from softswitch.errors import ProgramError

Shape = Any  # a type, or nested lists, tuples and dicts of shapes
_MAX_SHOWN_CHARACTERS = 60  # of a value in an error
_TYPE_NAMES: dict[type, str] = {str: "a string", list: "a list", dict: "an object"}


def check(value: object, shape: Shape, place: str) -> None:
    if isinstance(shape, dict):
        _check_type(value, dict, place)
        assert isinstance(value, dict)
        for key, element_shape in shape.items():
            _check_key(value, key, element_shape, place)
    elif isinstance(shape, list):
        _check_type(value, list, place)
        assert isinstance(value, list)
        for index, element in enumerate(value):
            check(element, shape[0], f"{place}[{index}]")
    elif isinstance(shape, tuple):
        if not isinstance(value, list) or len(value) != len(shape):
            raise mismatch(f"a list of {len(shape)}", value, place)
        for index, (element, element_shape) in enumerate(zip(value, shape, strict=True)):
            check(element, element_shape, f"{place}[{index}]")
    elif isinstance(shape, type):
        _check_type(value, shape, place)
    else:
        shape(value, place)


def _check_key(value: dict[str, object], key: str, shape: Shape, place: str) -> None:
    name = key.removesuffix("?")
    key_place = f"{place}.{name}" if place else name
    if name in value:
        if not (key.endswith("?") and value[name] is None):
            check(value[name], shape, key_place)
    elif name == key:
        raise ProgramError(f"{place or 'program'}: expected `{name}`, there is none")


def _check_type(value: object, kind: type, place: str) -> None:
    if not isinstance(value, kind):
        raise mismatch(_TYPE_NAMES[kind], value, place)


def mismatch(expected: str, value: object, place: str) -> ProgramError:
    text = repr(value)
    if len(text) > _MAX_SHOWN_CHARACTERS:
        text = text[: _MAX_SHOWN_CHARACTERS - 3] + "..."
    return ProgramError(f"{place}: expected {expected}, got {text}")


def integer(value: object, place: str) -> None:
    """Check a number of 32 bits; as in BMv2, false is 0 and true 1."""
    if not isinstance(value, int) or not -(1 << 31) <= value < 1 << 31:
        raise mismatch("an integer of 32 bits", value, place)


def count(value: object, place: str) -> None:
    if not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise mismatch("an integer from 0 to 2147483647", value, place)


def flag(value: object, place: str) -> None:
    """Check a truth value; as in BMv2, that is any number, or null."""
    if value is not None and not isinstance(value, int | float):
        raise mismatch("true or false", value, place)


def name(value: object, place: str) -> None:
    """Check a text that is used only in messages; it may be a number."""
    if value is not None and not isinstance(value, str | int | float):
        raise mismatch("a string", value, place)


def _check_position(value: object, place: str) -> None:
    # BMv2 accepts floats, too.
    if not isinstance(value, int | float) or not 0 <= value < 1 << 32:
        raise mismatch("an integer from 0 to 4294967295", value, place)


SOURCE_INFO = {
    "filename?": name,
    "line?": _check_position,
    "column?": _check_position,
    "source_fragment?": name,
}


def _check_width(value: object, place: str) -> None:
    count(value, place)
    if value == 0:
        raise mismatch("a width above 0", value, place)


def hexstr(value: object, place: str) -> None:
    if not isinstance(value, str):
        raise mismatch("a hexadecimal number", value, place)
    try:
        int(value, 16)
    except ValueError:
        raise mismatch("a hexadecimal number", value, place) from None


def one_of(*shapes: Shape) -> Callable[[object, str], None]:
    """Return a shape that accepts what any of the shapes accepts; its errors are those of the last."""

    def check_any(value: object, place: str) -> None:
        for shape in shapes[:-1]:
            try:
                return check(value, shape, place)
            except ProgramError:
                continue
        check(value, shapes[-1], place)

    return check_any


def header_field(value: object, place: str) -> None:
    if not isinstance(value, list) or not 2 <= len(value) <= 4:
        raise mismatch("[name, width, signed]", value, place)
    check(value[0], str, f"{place}[0]")
    if value[1] != "*":
        count(value[1], f"{place}[1]")
    for index, element in enumerate(value[2:], 2):
        flag(element, f"{place}[{index}]")


_UNARY_OPERATORS = ("~", "not", "d2b", "b2d", "valid", "valid_union", "last_stack_index", "size")


def typed_value(value: object, place: str) -> None:
    """Check a `{type, value}` object, and the operands of an expression, none of which may be null."""
    check(value, {"type": str}, place)
    assert isinstance(value, dict)
    kind = value["type"]
    if kind == "expression":
        check(value, {"value": operation}, place)
    elif kind in _VALUE_SHAPES:
        check(value, {"value": _VALUE_SHAPES[kind]}, place)


def _check_vector(value: object, place: str) -> None:
    if value != {}:  # p4c prints an empty vector as an object
        check(value, [typed_value], place)


def operation(value: object, place: str) -> None:
    if isinstance(value, dict) and "op" not in value:
        return typed_value(value, place)
    check(value, {"op": str}, place)
    assert isinstance(value, dict)
    op = value["op"]
    if op in ("access_field", "access_union_header"):
        check(value, {"left": typed_value, "right": count}, place)
    elif op in _UNARY_OPERATORS or (op in ("+", "-") and value.get("left") is None):
        check(value, {"left?": dict, "right": typed_value}, place)
    elif op == "?":
        check(value, {"cond": typed_value, "left": typed_value, "right": typed_value}, place)
    else:
        check(value, {"left": typed_value, "right": typed_value}, place)


_VALUE_SHAPES: dict[str, Shape] = {
    "field": (str, str), "hexstr": hexstr, "bool": flag, "header": str, "header_stack": str,
    "header_union": str, "header_union_stack": str, "stack_field": (str, str),
    "union_stack_field": (str, str, str), "lookahead": (count, _check_width), "local": count,
    "runtime_data": count, "calculation": str, "meter_array": str, "counter_array": str,
    "register_array": str, "string": str, "parameters_vector": _check_vector,
}  # fmt: skip
