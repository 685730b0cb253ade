"""Optimisers that servers apply to a table's gradients, and their text form: `adagrad(lr=0.1)`."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from typing_extensions import Self

from foundation.errors import HotlineError
from foundation.settings import Strict
from foundation.text import shortened, show

_Rate: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_NotNegative: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Decay: TypeAlias = Annotated[float, Field(ge=0, lt=1)]


class OptimiserError(HotlineError):
    """Raised for a text that names no optimiser or has an invalid parameter."""


class _Declaration(Strict):
    def __str__(self) -> str:
        parameters = dict(self)
        optimiser = parameters.pop("name")
        # A whole number is written without ".0".
        arguments = ", ".join(
            f"{name}={value!r}".removesuffix(".0") for name, value in parameters.items() if value is not False
        )
        return f"{optimiser}({arguments})"


class SGD(_Declaration):
    """value -= lr · gradient."""

    name: Literal["sgd"] = "sgd"
    lr: _Rate


class Adagrad(_Declaration):
    """Adagrad (Duchi et al., 2011) by element, as `torch.optim.Adagrad`, or by row, as FBGEMM's exact one."""

    name: Literal["adagrad"] = "adagrad"
    lr: _Rate = 0.01
    eps: _NotNegative = 1e-10
    initial: _NotNegative = 0.0
    """Initial value of the sum of squared gradients."""
    rowwise: bool = False
    """Whether a row has one sum, of the mean squares of its gradients, instead of one for each value."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.eps and not self.initial:
            raise ValueError("eps and initial are 0: a gradient of 0 would make a parameter NaN")
        return self


class FTRL(_Declaration):
    """FTRL-proximal by element (McMahan et al., *Ad click prediction*, KDD 2013)."""

    name: Literal["ftrl"] = "ftrl"
    alpha: _Rate = 0.1
    beta: _Rate = 1.0
    l1: _NotNegative = 0.0
    l2: _NotNegative = 0.0


class Adam(_Declaration):
    """Lazy Adam, which changes only the elements that have a gradient, as `torch.optim.SparseAdam`."""

    name: Literal["adam"] = "adam"
    lr: _Rate = 0.001
    beta1: _Decay = 0.9
    beta2: _Decay = 0.999
    eps: _Rate = 1e-8


_OPTIMISERS: Mapping[str, type[_Declaration]] = {"sgd": SGD, "adagrad": Adagrad, "ftrl": FTRL, "adam": Adam}
_EXAMPLES = "sgd(lr=0.1), adagrad, ftrl or adam, with parameters in parentheses"


def _from_text(setting: object) -> object:
    try:
        return parse(setting) if isinstance(setting, str) else setting
    except OptimiserError as error:
        raise ValueError(str(error)) from None


Optimiser: TypeAlias = Annotated[
    Annotated[SGD | Adagrad | FTRL | Adam, Field(discriminator="name")], BeforeValidator(_from_text)
]
"""A setting with an optimiser: its text, or an instance."""


class TableOptimiser(Strict):
    """The optimiser of the keys from `first` up to the next table; a gradient is a pushed integer / `scale`.

    Without an optimiser, pushes are added to the values; both are in fixed point.
    """

    first: int = Field(ge=0, lt=2**64)
    scale: float = Field(gt=0, allow_inf_nan=False)
    optimiser: Optimiser | None


def parse(text: str) -> SGD | Adagrad | FTRL | Adam:
    """Return the optimiser of a text such as `adagrad` or `adagrad(lr=0.1)`; raise `OptimiserError`."""
    try:
        name, arguments = _parse_call(ast.parse(text.strip(), mode="eval").body)
        kind = _OPTIMISERS[name]
    except (SyntaxError, ValueError, KeyError, RecursionError, MemoryError):
        raise OptimiserError(f"expected {_EXAMPLES}, got {show(text)}") from None
    try:
        instance: Any = kind.model_validate(arguments)  # an instance of one of `_OPTIMISERS`
    except ValidationError as error:
        fault = error.errors()[0]
        field = str(fault["loc"][0]) if fault["loc"] else ""
        names = ", ".join(name_of_field for name_of_field in kind.model_fields if name_of_field != "name")
        problem = {"missing": f"expects {field}", "extra_forbidden": f"has no {field}, but {names}"}.get(
            fault["type"], f"{field}: {fault['msg']}".removeprefix(": ").replace("Value error, ", "")
        )
        raise OptimiserError(f"{shortened(text)}: {name} {problem}") from None
    result: SGD | Adagrad | FTRL | Adam = instance
    return result


def _parse_call(node: ast.expr) -> tuple[str, dict[str, object]]:
    if isinstance(node, ast.Name):
        return node.id, {}
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.args:
        raise ValueError("no call")
    arguments = {
        keyword.arg or "": ast.literal_eval(keyword.value)
        for keyword in node.keywords
        if keyword.arg != "name"  # which `node.func` gives
    }
    return node.func.id, arguments
