"""Entry points of the agents' compiled code, cached on disk and compiled again when a source changes.

State is a `NamedTuple` of arrays of records, and functions take it as their first argument. Functions that
handle a datagram allocate nothing and raise nothing. Keys are the only unsigned integers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, update_wrapper
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, cast

from nativekit.compile import cached_entry_point
from nativekit.generic import Generic
from nativekit.llvm import Compiled, Function, Signature
from nativekit.reference import as_ref, unwrap_ref

F = TypeVar("F", bound=Function)
T = TypeVar("T", bound=NamedTuple)

_HERE = Path(__file__).parent
_ROOT = _HERE.parent
_IMPORT = re.compile(r"^from hosts\.(\w+)", re.MULTILINE)
_ROOMS = ("foundation/protocol", "foundation/designs", "hosts")


def entry_point(function: F) -> F:
    return cached_entry_point(function, _HERE, sources(Path(function.__code__.co_filename).parent))


def sources(*folders: Path) -> tuple[Path, ...]:
    """Return the source files on which compiled functions of `folders` depend; changes make caches stale."""
    # The code of an external design, in folders elsewhere, may import anything of hosts.
    host_folders = {folder for folder in folders if folder.is_relative_to(_ROOT / "hosts")}
    searched = host_folders if host_folders == set(folders) else {_ROOT / "hosts", *folders}
    searched = searched.union(*map(_imported_designs, host_folders))
    source_files = {
        source for folder in searched for source in folder.rglob("*.py") if source.stem != "__main__"
    }
    return tuple(sorted({*_shared_sources(), *source_files}))


@cache
def _design_names() -> frozenset[str]:
    return frozenset(module.stem for module in (_ROOT / "foundation" / "designs").glob("*.py"))


@cache
def _imported_designs(folder: Path) -> frozenset[Path]:
    names = {name for source in folder.rglob("*.py") for name in _IMPORT.findall(source.read_text())}
    return frozenset(_ROOT / "hosts" / name for name in names & _design_names())


@cache
def _shared_sources() -> tuple[Path, ...]:
    designs = _design_names()
    return tuple(
        source
        for room in _ROOMS
        for source in (_ROOT / room).rglob("*.py")
        if source.stem != "__main__" and source.relative_to(_ROOT / room).parts[0] not in designs
    )


StateClasses = Callable[[Any], Sequence[tuple[Generic, type]]]  # any first argument
"""Returns (generic function, class of the state) for each state in the first argument of a loop."""


def loop(
    state_classes: StateClasses, package: Path = _HERE, extra_sources: Sequence[Path] = ()
) -> Callable[[F], F]:
    """Decorate a compiled loop over states of any design; its cache also depends on `extra_sources`."""

    def decorate(function: F) -> F:
        return cast(F, update_wrapper(Loop(function, state_classes, package, extra_sources), function))

    return decorate


def entry_points(generics: T, names: Sequence[str], state_classes: StateClasses) -> T:
    """Return an interface of generics with `names` as entry points, compiled for each class of state."""
    make = cast(Callable[..., T], type(generics))
    return make(**{name: _make_entry_point(getattr(generics, name), state_classes) for name in names})


def _make_entry_point(generic: Generic, state_classes: StateClasses) -> Loop:
    # The cache on disk finds machine code by its qualified name; `nativekit.plain` replaces `body` here.
    names = {**_call_body.__globals__, "body": generic}
    function = FunctionType(_call_body.__code__, names, generic.name)
    function.__qualname__ = f"{_call_body.__qualname__}.{generic.name}"
    return Loop(function, state_classes, _HERE, ())


def body(state: object, *arguments: object) -> object:
    """Stand for the function that an entry point calls: the entry point's globals have it by this name."""
    raise NotImplementedError


def _call_body(state: object, *arguments: object) -> object:
    return body(as_ref(state), *arguments)


class Loop:
    def __init__(
        self, function: Function, state_classes: StateClasses, package: Path, extra_sources: Sequence[Path]
    ) -> None:
        self.py_func = function
        self._state_classes, self._package, self._extra_sources = state_classes, package, extra_sources
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
            folders = {generic.folder_of(state_class) for generic, state_class in state_classes}
            self._compiled[classes] = cached_entry_point(
                self.py_func, self._package, (*sources(*folders), *self._extra_sources)
            )
        return self._compiled[classes]
