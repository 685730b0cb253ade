"""Which designs there are. A new one is a line of `NAMES`, and a module of its name beside this one."""

from __future__ import annotations

from importlib import import_module

from foundation.designs.interface import Design
from foundation.errors import HotlineError

NAMES = ("hotset", "none", "switchml", "psdense", "ring")
DEFAULT = "hotset"


class DesignError(HotlineError):
    """There is no such design."""


def design(name: str) -> Design:
    """A design by its name; of somebody else's by that of a module with a `DESIGN`, as `package.mine`.

    Raises `DesignError`, which lists those there are.
    """
    if name not in NAMES and "." not in name:
        raise DesignError(
            f"{name!r} is no design; there are {', '.join(NAMES)}, or a module's name with a dot"
        )
    try:
        found: Design = import_module(name if "." in name else f"foundation.designs.{name}").DESIGN
    except (ImportError, AttributeError) as error:
        raise DesignError(f"{name!r} is no design: {error}") from error
    _of_others.update({name: found} if "." in name else {})
    return found


_of_others: dict[str, Design] = {}


def known() -> tuple[str, ...]:
    """Names of the designs that come along, and of those of somebody else's that have been asked for."""
    return (*NAMES, *_of_others)
