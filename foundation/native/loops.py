"""Entry points for states of any design: one source, and machine code of its own for each design.

A loop is compiled for the classes of the states that it is given, and kept on disk apart from that of others:
who adds a design, or changes one, compiles no other again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from pathlib import Path
from typing import Any, TypeVar, cast

from foundation.native.compile import sources
from foundation.native.generic import Generic
from foundation.native.reference import lent_state
from softswitch.native import cached_entry_point

F = TypeVar("F", bound=Callable[..., Any])

Halves = Callable[[Any], Sequence[tuple[Generic, type]]]
"""Of the first argument: the classes of its states, each with a function that it has a body of."""


def loop(halves: Halves, home: Path = Path(__file__).parent, below: Sequence[Path] = ()) -> Callable[[F], F]:
    """Decorate an entry point whose first argument is, or has, states of designs.

    Its machine code is kept with the package at `home`, and is also made of the sources `below`.
    """

    def decorate(function: F) -> F:
        return cast(F, update_wrapper(Loop(function, halves, home, below), function))

    return decorate


class Loop:
    """A function of Python, and an entry point of each design that it is called for."""

    def __init__(
        self, function: Callable[..., Any], halves: Halves, home: Path, below: Sequence[Path]
    ) -> None:
        self.py_func = function
        self._halves, self._home, self._below = halves, home, below
        self._made: dict[Any, Callable[..., Any]] = {}

    def __call__(self, first: Any, *rest: Any) -> Any:
        """Call the entry point for the class of the first argument."""
        return self.of(first)(first, *rest)

    @property
    def signatures(self) -> list[Any]:
        """That it has been compiled for, of all designs."""
        return [each for made in self._made.values() for each in cast(Any, made).signatures]

    def of(self, first: Any) -> Callable[..., Any]:
        """The entry point for what has states of these classes."""
        halves = self._halves(lent_state(first))
        owners = tuple([owner for _, owner in halves])
        if owners not in self._made:
            folders = {generic.folder_of(owner) for generic, owner in halves}
            self._made[owners] = cached_entry_point(
                self.py_func, self._home, (*sources(*folders), *self._below)
            )
        return self._made[owners]
