"""Every option of every command has the default, the bounds and the help of the field that it fills."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, get_args, get_origin

import click
import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from hotline.cli.commands import hotline
from hotline.cli.fields import FieldOption
from tests.harness.cli import find_command

FILL_NO_FIELD = {
    "answer sweep --vary": "names a setting of any table, and the values of its points",
    "dense overlap --scheduler": "selects rows of the answer",
    "dense whatif --fusion": "names a whole Fusion; the options of its fields replace it",
    "policies compare --only": "with --rule makes the names of StudySettings.policies",
    "policies compare --rule": "with --only makes the names of StudySettings.policies",
    "up --machines": "replaces a setting of FILE, which checks it; the verb does not import the settings",
}
"""Options with a value that is neither a path nor a field's. Flags and paths need no entry: a flag without a
field says what to do or to print, and a path where to read or to write."""


def walk(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Option]]:
    for option in command.params:
        if isinstance(option, click.Option):
            yield " ".join((*path, option.opts[-1])), option
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from walk(each, (*path, name))


OPTIONS = dict(walk(hotline))
OF_FIELDS = {name: option for name, option in OPTIONS.items() if isinstance(option, FieldOption)}


def field_adapter(option: FieldOption) -> TypeAdapter[Any]:
    info = option.model.model_fields[option.field]
    annotation: Any = Annotated[info.annotation, info]  # which mypy takes for a value
    return TypeAdapter(annotation)


def value_of(name: str, text: object) -> Any:
    """Return the value in the field's unit that an option makes of a text."""
    context = click.Context(find_command(name.rpartition(" ")[0]))
    return OF_FIELDS[name].process_value(context, [text] if OF_FIELDS[name].multiple else text)


def accepts(name: str, text: str) -> bool:
    try:
        value_of(name, text)
    except click.BadParameter:
        return False
    return True


def numbers_in(schema: object) -> Iterator[float]:
    """Yield the bounds in a JSON schema, wherever they are."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
                yield value
            elif key != "default":
                yield from numbers_in(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from numbers_in(value)


def is_in_field(option: FieldOption, value: float) -> bool:
    # A field that is a tuple has an option for each element.
    kind = option.model.model_fields[option.field].annotation
    try:
        field_adapter(option).validate_python((value,) if get_origin(kind) is tuple else value)
    except ValidationError:
        return False
    return True


def test_every_option_with_a_value_fills_a_field_or_says_why_not() -> None:
    others = {
        name
        for name, option in OPTIONS.items()
        if name not in OF_FIELDS and not option.is_flag and not isinstance(option.type, click.Path)
    }
    assert others == set(FILL_NO_FIELD)
    assert len(OF_FIELDS) > 80


@pytest.mark.parametrize("name", OF_FIELDS)
def test_an_option_without_value_has_the_default_of_its_field(name: str) -> None:
    option = OF_FIELDS[name]
    info = option.model.model_fields[option.field]
    context = click.Context(find_command(name.rpartition(" ")[0]))
    assert option.required == info.is_required()
    if option.required:
        with pytest.raises(click.MissingParameter):
            option.handle_parse_result(context, {}, [])
    else:
        given = option.process_value(context, option.get_default(context))
        assert given == info.get_default(call_default_factory=True)
        assert field_adapter(option).validate_python(given) == given


@pytest.mark.parametrize("name", OF_FIELDS)
def test_an_option_accepts_the_values_that_its_field_accepts(name: str) -> None:
    option = OF_FIELDS[name]
    if isinstance(option.type, click.Choice):
        assert tuple(option.type.choices) == literals(option.model.model_fields[option.field].annotation)
    if not isinstance(option.type, click.types.IntParamType | click.types.FloatParamType) or option.is_flag:
        return
    schema = option.model.model_json_schema()["properties"][option.field]
    bounds = [bound / option.scale for bound in numbers_in(schema)]
    probes = {0.0, 1.0, -1.0, math.inf, math.nan, *bounds}
    # Just inside and outside of each bound, and between neighbours.
    probes |= {bound + step for bound in bounds for step in (-1, 1, -1e-3, 1e-3)}
    probes |= {(low + high) / 2 for low, high in pairwise(sorted(bounds))}
    is_whole = isinstance(option.type, click.types.IntParamType)
    for probe in probes:
        if is_whole and not float(probe).is_integer():
            continue
        in_field = probe * option.scale
        # A field in bytes has whole numbers, and its option in MiB has not.
        if option.scale != 1 and "integer" in str(schema) and math.isfinite(probe):
            in_field = round(in_field)
        assert accepts(name, str(int(probe)) if is_whole else repr(probe)) == is_in_field(option, in_field), (
            probe
        )


def literals(annotation: object) -> tuple[object, ...]:
    choices = [each for each in get_args(annotation) if each is not type(None)]
    return literals(choices[0]) if choices and get_args(choices[0]) else tuple(choices)


source_of = cache(inspect.getsource)


def text_of_field(model: type[BaseModel], field: str) -> str:
    """Return the text of an annotation, or else the string that stands below the field in its class."""
    if (described := model.model_fields[field].description) is not None:
        return described
    declared = rf'^    {field}: (?:(?!^    \w).)*?^    """(.*?)"""'
    (found,) = {
        " ".join(text.split())
        for each in model.__mro__
        if each.__module__.partition(".")[0] not in ("pydantic", "builtins")
        for text in re.findall(declared, source_of(each), re.MULTILINE | re.DOTALL)
    }
    return found


@pytest.mark.parametrize("name", OF_FIELDS)
def test_the_help_of_an_option_is_the_text_of_its_field(name: str) -> None:
    option = OF_FIELDS[name]
    meaning, _, none = text_of_field(option.model, option.field).partition("; None means ")
    record = option.get_help_record(click.Context(find_command(name.rpartition(" ")[0])))
    assert meaning and record is not None
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    # Choices too long to stand for the value are in the text.
    text = option.help.replace(f" One of {', '.join(map(str, choices))}.", "")
    assert text == (f"{meaning}. [default: {none.rstrip('.')}]" if none else meaning)
    assert record[1].startswith(option.help)


class Sized(BaseModel):
    size: int = 3


def test_an_option_changes_with_its_field() -> None:
    class Grown(Sized):
        size: int = 4

    assert [FieldOption(model, "size").default for model in (Sized, Grown)] == [3, 4]
