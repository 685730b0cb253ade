"""The designs that are installed: entry points of the group `hotline.designs`, and modules named by users."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from foundation.designs.interface import Design
from foundation.errors import HotlineError

DEFAULT = "hotset"
DEFAULT_OPTIMISING_DESIGN = "collect"
_ENTRY_POINTS = {each.name: each.value for each in entry_points(group="hotline.designs")}
NAMES = tuple(sorted(_ENTRY_POINTS, key=lambda name: (name != DEFAULT, name)))
"""Names of the installed designs, the default one first."""
_external_designs: dict[str, Design] = {}  # by the dotted name of the module


class DesignError(HotlineError):
    """An unknown design, or a package that lacks a part of a design."""


def design(name: str) -> Design:
    """Return a design by name, or by the dotted name of a module with a `DESIGN`; raises `DesignError`."""
    if name not in NAMES and "." not in name:
        raise DesignError(
            f"expected a design ({', '.join(NAMES)}), or a module's name with a dot, got {name!r}"
        )
    try:
        loaded_design: Design = import_module(name).DESIGN if "." in name else _resolve(_ENTRY_POINTS[name])
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


def load_part(design: Design, reference: str) -> object:
    """Import a part of a design, `package.module:ATTRIBUTE`; raises `DesignError`."""
    try:
        return _resolve(reference)
    except (ImportError, AttributeError, ValueError) as error:
        raise DesignError(f"design {design.name} has no part {reference!r}: {error}") from error


def _resolve(reference: str) -> Any:  # of any type
    module, _, attribute = reference.partition(":")
    return getattr(import_module(module), attribute)
