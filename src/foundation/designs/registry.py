"""The designs that are installed: entry points of the group `hotline.designs`, and modules named by users."""

from __future__ import annotations

import traceback
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from foundation.designs.arm_numbers import write_arm_numbers
from foundation.designs.interface import Design
from foundation.designs.programs import refresh_output
from foundation.designs.sources import is_current, source_of
from foundation.errors import HotlineError
from foundation.packages import install_hint
from foundation.text import one_line

DEFAULT = "hotset"
DEFAULT_OPTIMISING_DESIGN = "collect"
_ENTRY_POINTS = {each.name: each.value for each in entry_points(group="hotline.designs")}
NAMES = tuple(sorted(_ENTRY_POINTS, key=lambda name: (name != DEFAULT, name)))
"""Names of the installed designs, the default one first."""
HOW_TO_COMPILE = "`make p4` makes it or, outside of the checkout, `softswitch compile` with --p4runtime-files"
"""Text of errors about a program or P4Info that is missing."""
_external_designs: dict[str, Design] = {}  # by the dotted name of the module


class DesignError(HotlineError):
    """An unknown design, or a package that lacks a part of a design."""


def design(name: str) -> Design:
    """Return a design with its program, which is compiled if its sources have changed.

    The name may be the dotted name of a module with a `DESIGN`. Raises `DesignError` or `P4Error`.
    """
    found = described_design(name)
    write_arm_numbers(found)
    compile_if_changed(found.program)
    return found


def described_design(name: str) -> Design:
    """Return a design without compiling its program, for uses of its arms; raises `DesignError`."""
    if name not in NAMES and "." not in name:
        raise DesignError(
            f"expected a design ({', '.join(NAMES)}), or a module's name with a dot, got {name!r}"
            f"{install_hint('hotline.designs', name)}"
        )
    try:
        loaded_design: Design = import_module(name).DESIGN if "." in name else _installed(name)
    except Exception as error:  # the module of a design in the making raises anything
        raise DesignError(f"{name!r} is no design: {_reason(error)}") from error
    if not isinstance(loaded_design, Design):
        raise DesignError(f"{name!r} is no design: expected a `Design`, got {type(loaded_design).__name__}")
    if "." in name:
        _external_designs[name] = loaded_design
    return loaded_design


@cache  # once in each process
def compile_if_changed(program: Path) -> None:
    """Compile a design's program if its P4 source, or the compiler, has changed; raises `P4Error`."""
    source = source_of(program)
    if source is None or is_current(program, source):
        return
    if find_spec("softswitch") is not None:  # without it, the compiled file is taken as it is
        refresh_output(program)


def _installed(name: str) -> Any:  # of any type
    module, attribute = _place_of(name)
    return getattr(module, attribute)


@cache  # reports look all arms up thousands of times
def _place_of(name: str) -> tuple[ModuleType, str]:
    """Return the module of an installed design, and the name of its `Design` there."""
    module, _, attribute = _ENTRY_POINTS[name].partition(":")
    return import_module(module), attribute


def no_optimiser_message(name: str, optimiser: str) -> str:
    optimising_names = ", ".join(each for each in NAMES if described_design(each).optimises)
    return (
        f"optimiser {optimiser}: design {name} can only add pushes; expected design "
        f"{optimising_names}, or no optimiser"
    )


def known_names() -> tuple[str, ...]:
    """Return the names of the built-in designs, and of external designs that this process has looked up."""
    return (*NAMES, *_external_designs)


@cache
def _parts_of_packages() -> dict[str, dict[str, str]]:
    """Return by part, and by the name of a design, where a package has the part."""
    groups = {
        "agents": entry_points(group="hotline.agents"),
        "switch_state": entry_points(group="hotline.switch_states"),
    }
    return {part: {each.name: each.value for each in found} for part, found in groups.items()}


def part_of(design: Design, part: str) -> str | None:
    """Return where a part of a design is: as the design says, or else as a package says for its name."""
    reference: str | None = getattr(design, part)
    return reference or _parts_of_packages().get(part, {}).get(design.name)


def hint_of_part(design: Design, part: str) -> str:
    """Return how to install the package that has a part of a design, to be added to an error, or ""."""
    groups = {"agents": "hotline.agents", "switch_state": "hotline.switch_states"}
    is_missing = part in groups and part_of(design, part) is None
    return install_hint(groups[part], design.name) if is_missing else ""


def modules_of(design: Design) -> tuple[str, ...]:
    """Return the names of the modules that describe a design and hold its parts."""
    parts = (part_of(design, part) for part in ("agents", "control", "preparation", "switch_state"))
    return (design.module, *(part.partition(":")[0] for part in parts if part is not None))


def load_part(design: Design, reference: str) -> object:
    """Import a part of a design, `package.module:ATTRIBUTE`; raises `DesignError`."""
    try:
        return _resolve(reference)
    except Exception as error:  # the module of a design in the making raises anything
        raise DesignError(f"design {design.name} has no part {reference!r}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Return why a module cannot be imported, with the place where its code raised the error."""
    message = one_line(str(error))
    if isinstance(error, ImportError | AttributeError | SyntaxError):
        return message
    *_, frame = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__}: {message} ({frame.filename}, line {frame.lineno})"


def _resolve(reference: str) -> Any:  # of any type
    module, _, attribute = reference.partition(":")
    return getattr(import_module(module), attribute)
