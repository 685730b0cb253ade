"""Whether a value that came as JSON is of the type that a call declares."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict


def check_type(value: object, kind: Any, name: str) -> None:
    """Raise TypeError where a value is not of a type: a plain one, a list, a union, or a `TypedDict`."""
    if get_origin(kind) is UnionType:
        if value is None and NoneType in get_args(kind):
            return
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is list:
        if not isinstance(value, list):
            raise TypeError(f"{value!r} is no list: {name}")
        for each in value:
            check_type(each, get_args(kind)[0], name)
    elif is_typeddict(kind):
        _check_fields(value, kind, name)
    elif not isinstance(value, (int, float) if kind is float else kind) or (
        isinstance(value, bool) and kind is not bool
    ):
        raise TypeError(f"{value!r} is no {kind.__name__}: {name}")


def _check_fields(value: object, kind: Any, name: str) -> None:
    fields = get_type_hints(kind)
    if not isinstance(value, dict) or value.keys() - fields or kind.__required_keys__ - value.keys():
        raise TypeError(f"{value!r} is no object with {', '.join(fields)}: {name}")
    for key, each in value.items():
        check_type(each, fields[key], f"{name}.{key}")
