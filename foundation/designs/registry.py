"""The list of designs. A new design is an item of `NAMES`, and a module of that name in this folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Generic, TypeVar, cast

from foundation.designs.interface import Design
from foundation.errors import HotlineError

NAMES = ("hotset", "none", "collect", "switchml", "atp", "psdense", "ring")
DEFAULT = "hotset"
DEFAULT_OPTIMISING_DESIGN = "collect"
_external_designs: dict[str, Design] = {}  # by the dotted name of the module

T = TypeVar("T")


class DesignError(HotlineError):
    """An unknown design, or a package that lacks a part of a design."""


def design(name: str) -> Design:
    """Return a design by name, or by the dotted name of a module with a `DESIGN`; raises `DesignError`."""
    if name not in NAMES and "." not in name:
        raise DesignError(
            f"expected a design ({', '.join(NAMES)}), or a module's name with a dot, got {name!r}"
        )
    try:
        loaded_design: Design = import_module(name if "." in name else f"foundation.designs.{name}").DESIGN
    # A name that is not a module's, such as "..", is a `TypeError` or a `ValueError`.
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise DesignError(f"{name!r} is no design: {error}") from error
    if "." in name:
        _external_designs[name] = loaded_design
    return loaded_design


def no_optimiser_message(name: str, optimiser: str) -> str:
    optimising_names = ", ".join(design_name for design_name in NAMES if design(design_name).optimises)
    return (
        f"optimiser {optimiser}: design {name} can only add pushes; expected design "
        f"{optimising_names}, or no optimiser"
    )


def known_names() -> tuple[str, ...]:
    """Return the names of the built-in designs, and of external designs that this process has looked up."""
    return (*NAMES, *_external_designs)


@dataclass(frozen=True)
class Parts(Generic[T]):
    """One package's parts of all designs: each is an attribute of a module, imported at first use."""

    package: str
    attribute: str
    modules: Mapping[str, str]

    def module_for(self, design: Design) -> str | None:
        return design.parts.get(self.package, self.modules.get(design.name))

    def find(self, design: Design) -> T | None:
        module = self.module_for(design)
        return None if module is None else cast(T, getattr(import_module(module), self.attribute))

    def for_design(self, design: Design) -> T:
        part = self.find(design)
        if part is None:
            names = ", ".join(self.modules)
            raise DesignError(
                f"{self.package} has no part of design {design.name}: expected one of {names}, or a design "
                f"whose `parts` name a module for {self.package}"
            )
        return part
