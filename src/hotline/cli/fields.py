"""Options of commands from fields of models: a setting's default, bounds and help have one declaration.

An option converts its text by the field's type. A field's docstring is the option's help, and its end
"; None means REST." becomes "[default: REST]".
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import click
from pydantic import BaseModel, ValidationError

from hotline.cli.common import PATH, Number, one_line_errors

Model = TypeVar("Model", bound=BaseModel)
_NONE_MEANS = "; None means "
_MAX_CHOICES = 40  # characters of all choices that help shows in place of a value
_CONSTRAINTS = (("ge", "min", False), ("gt", "min", True), ("le", "max", False), ("lt", "max", True))


class FieldOption(click.Option):
    """An option for one field of a model.

    `scale` is the option's unit, in units of the field: 1,000 for an option in ms and a field in µs. An
    option for a field that is a tuple may be repeated, or has its elements in one text if it `is_list`.
    """

    def __init__(
        self,
        model: type[BaseModel],
        field: str,
        names: Sequence[str] | None = None,
        *,
        scale: float = 1,
        type: Callable[[str], object] | None = None,
        is_list: bool = False,
        metavar: str | None = None,
    ) -> None:
        self.model, self.field, self.scale = model, field, scale
        info = model.model_fields[field]
        value = ValueType.of(info.annotation, info.metadata)
        self._is_whole = value.kind is int
        self._listed: Sequence[str] = ()  # choices that the help lists, as they are too long for a metavar
        names = names or [f"--{field.replace('_', '-')}"]
        kind = type or (_list_of(value.click_type(scale)) if is_list else value.click_type(scale))
        if metavar is None and isinstance(kind, click.Choice) and len("|".join(kind.choices)) > _MAX_CHOICES:
            metavar, self._listed = field.upper(), kind.choices
        default = {}
        if not info.is_required():
            default = {"default": _option_value(info.get_default(call_default_factory=True), scale, is_list)}
        super().__init__(
            [*names, field],
            type=kind,
            is_flag=value.kind is bool,
            multiple=value.is_repeated and not is_list,
            required=info.is_required(),
            **default,
            show_default=None if info.default_factory is None else False,
            metavar=metavar,
        )

    @property
    def help(self) -> str:
        # Reading docstrings takes as long as importing a small module, so only a help text does it.
        text = _help(self.model, self.field)
        sentences, _, default = text.partition(" [default: ")
        listed = f" One of {', '.join(self._listed)}." if self._listed else ""
        return sentences + listed + (f" [default: {default}" if default else "")

    @help.setter
    def help(self, _text: str | None) -> None:
        """Ignore the text that `click.Option` sets, which is none."""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """Return the value in the field's unit."""
        number = super().process_value(ctx, value)
        if self.scale == 1 or number is None:
            return number
        return round(number * self.scale) if self._is_whole else number * self.scale


def _list_of(element: click.ParamType[Any, Any]) -> Callable[[str], tuple[object, ...]]:
    return lambda text: tuple(element.convert(part, None, None) for part in text.split(","))


def fills(
    model: type[Model],
    parameter: str,
    *,
    without: Sequence[str] = (),
    **options: Mapping[str, Any],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add an option for each field of a model, and pass the command one `parameter`, the model with them.

    Fields `without` an option have their defaults; `options` has arguments of `FieldOption` by field.
    """
    fields = [field for field in model.model_fields if field not in without]

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def run(**values: Any) -> None:
            given = {field: values.pop(field) for field in fields}
            with one_line_errors():
                try:
                    filled = model.model_validate(given)
                except ValidationError:
                    # This import takes seconds, and has the messages of settings.
                    from experiment.run_config import config_of

                    filled = config_of(model, given)
            function(**values, **{parameter: filled})

        for field in reversed(fields):
            _add(run, FieldOption(model, field, **options.get(field, {})))
        return run

    return decorate


def _add(function: Callable[..., None], option: click.Option) -> None:
    # As `click.option` does, whose list has the last option first.
    vars(function).setdefault("__click_params__", []).append(option)


def _option_value(default: Any, scale: float, is_list: bool) -> Any:
    if is_list:
        return ",".join(map(str, default))
    return default if scale == 1 or default is None else default / scale


def _help(model: type[BaseModel], field: str) -> str:
    text = model.model_fields[field].description or _docstring(model, field)
    sentences, _, default = " ".join(text.split()).partition(_NONE_MEANS)
    return f"{sentences}. [default: {default.removesuffix('.')}]" if default else sentences


def _docstring(model: type[BaseModel], field: str) -> str:
    """Return the string below the declaration of a field; "" if there is none."""
    owner = next(each for each in model.__mro__ if field in inspect.get_annotations(each))
    return _docstrings(owner).get(field, "")


@cache
def _docstrings(owner: type[BaseModel]) -> Mapping[str, str]:
    """Return the strings below the fields that a class declares, by field."""
    [declaration] = ast.parse(dedent(inspect.getsource(owner))).body
    assert isinstance(declaration, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, following in pairwise(declaration.body):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = text
    return found


class ValueType(NamedTuple):
    """The type of a field's value, without None, and its bounds; of each element if the field is a tuple."""

    kind: Any  # a class, or a Literal
    is_repeated: bool
    bounds: dict[str, Any]  # arguments of Click's ranges

    @classmethod
    def of(cls, annotation: Any, metadata: Sequence[object] = ()) -> ValueType:
        origin, arguments, bounds = get_origin(annotation), get_args(annotation), _bounds(metadata)
        if origin is Annotated:
            own_metadata = [each for field in arguments[1:] for each in getattr(field, "metadata", ())]
            inner = cls.of(arguments[0], own_metadata)
        elif origin in (Union, UnionType) and len(set(arguments) - {NoneType}) == 1:
            inner = cls.of(next(each for each in arguments if each is not NoneType))
        elif origin is tuple:
            inner = cls.of(arguments[0])._replace(is_repeated=True)
        else:
            return cls(annotation, False, bounds)
        return inner._replace(bounds=inner.bounds | bounds)

    def click_type(self, scale: float) -> click.ParamType[Any, Any]:
        if get_origin(self.kind) is Literal:
            return click.Choice(get_args(self.kind))
        if self.kind is Path:
            return PATH
        if self.kind is bool:
            return click.BOOL
        if self.kind not in (int, float):
            return click.STRING
        if self.kind is int and scale == 1:
            return click.IntRange(**self.bounds)
        scaled = {side: self.bounds[side] / scale for side in ("min", "max") if side in self.bounds}
        return Number(**self.bounds | {side: _shortest(bound) for side, bound in scaled.items()})


def _bounds(metadata: Sequence[object]) -> dict[str, Any]:
    bounds: dict[str, Any] = {}
    for constraint in metadata:
        for name, side, is_open in _CONSTRAINTS:
            if (bound := getattr(constraint, name, None)) is not None:
                bounds |= {side: bound, f"{side}_open": is_open}
    return bounds


def _shortest(bound: float) -> float:
    # Help shows bounds as they are written in a declaration: 1, and not 1.0.
    return int(bound) if bound.is_integer() else bound
