"""Entry points of the agents' compiled code, cached on disk and compiled again when a source changes.

State is a `NamedTuple` of arrays of records, and functions take it as their first argument. Functions that
handle a datagram allocate nothing and raise nothing. Keys are the only unsigned integers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache, update_wrapper
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, cast

from foundation.checkout import ROOT
from foundation.import_graph import files_needed_by
from nativekit.compile import cached_entry_point
from nativekit.generic import Generic, modules_of
from nativekit.llvm import Compiled, Function, Signature
from nativekit.plain import plain
from nativekit.reference import as_ref, pinned_ref, unwrap_ref, write_words

F = TypeVar("F", bound=Function)
T = TypeVar("T", bound=NamedTuple)
S = TypeVar("S")  # a `NamedTuple`, perhaps described by a protocol

_HERE = Path(__file__).parent


def entry_point(function: F) -> F:
    """Compile a function that Python calls, to run without the GIL; the machine code is cached on disk."""
    return cached_entry_point(function, _HERE, sources(function.__module__))


@cache
def sources(*modules: str) -> tuple[Path, ...]:
    """Return the source files on which compiled functions of `modules` depend; changes make caches stale.

    These are the files that the modules import, in the checkout or beside an external design.
    """
    files = files_needed_by(modules, others=tuple(sorted(_external_folders(modules))))
    return tuple(sorted(set(files.values())))


def _external_folders(modules: Sequence[str]) -> set[Path]:
    """Return the folders of the import path that have those modules that are not of the checkout."""
    files = ((name, Path(sys.modules[name].__file__ or "")) for name in modules if name in sys.modules)
    return {file.parents[name.count(".")] for name, file in files if not file.is_relative_to(ROOT)}


StateClasses = Callable[[Any], Sequence[tuple[Generic, type]]]  # any first argument
"""Returns (generic function, class of the state) for each state in the first argument of a loop."""


def loop(state_classes: StateClasses, package: Path = _HERE) -> Callable[[F], F]:
    """Decorate a compiled loop over states of any design, whose machine code is cached in `package`."""

    def decorate(function: F) -> F:
        return cast(F, update_wrapper(Loop(function, state_classes, package), function))

    return decorate


def entry_points(generics: T, names: Sequence[str], state_classes: StateClasses) -> T:
    """Return an interface of generics with `names` as entry points, compiled for each class of state."""
    make = cast(Callable[..., T], type(generics))
    return make(**{name: _make_entry_point(getattr(generics, name), state_classes) for name in names})


def plain_entry_points(compiled: T, names: Sequence[str]) -> T:
    """Return the functions `names` of an interface that `entry_points` made, as plain Python."""
    make = cast(Callable[..., T], type(compiled))
    return make(**{name: plain(getattr(compiled, name)) for name in names})


def classes_of(operation: object) -> StateClasses:
    """Return the function that finds, for a state, the class by which a design's `operation` is chosen."""
    return lambda state: [(cast(Generic, operation), type(state))]


def pinning(state_classes: StateClasses) -> Callable[[S], S]:
    """Return a function that makes references to states, which entry points take without unboxing them."""
    write = loop(state_classes)(write_words)

    def pinned(state: S) -> S:
        return pinned_ref(state, write)

    return pinned


def _make_entry_point(generic: Generic, state_classes: StateClasses) -> Loop:
    # The cache on disk finds machine code by its qualified name; `nativekit.plain` replaces `body` here.
    names = {**_call_body.__globals__, "body": generic}
    function = FunctionType(_call_body.__code__, names, generic.name)
    function.__qualname__ = f"{_call_body.__qualname__}.{generic.name}"
    return Loop(function, state_classes, _HERE)


def body(state: object, *arguments: object) -> object:
    """Stand for the function that an entry point calls: the entry point's globals have it by this name."""
    raise NotImplementedError


def _call_body(state: object, *arguments: object) -> object:
    return body(as_ref(state), *arguments)


class Loop:
    def __init__(self, function: Function, state_classes: StateClasses, package: Path) -> None:
        self.py_func = function
        self._state_classes, self._package = state_classes, package
        self._compiled: dict[tuple[type, ...], Compiled] = {}

    def __call__(self, state: object, *arguments: object) -> object:
        return self.entry_point_for(state)(state, *arguments)

    @property
    def signatures(self) -> list[Signature]:
        return [signature for compiled in self._compiled.values() for signature in compiled.signatures]

    def entry_point_for(self, state: object) -> Compiled:
        state_classes = self._state_classes(unwrap_ref(state))
        classes = tuple([state_class for _, state_class in state_classes])
        if classes not in self._compiled:
            modules = frozenset().union(*map(modules_of, classes))
            self._compiled[classes] = cached_entry_point(
                self.py_func, self._package, sources(self.py_func.__module__, *sorted(modules))
            )
        return self._compiled[classes]


pinned = pinning(lambda _state: ())
"""Returns a reference to a tuple that is no state of a design."""
