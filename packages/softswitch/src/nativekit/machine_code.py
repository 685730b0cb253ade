"""The decorators of `nativekit.compile`, by numba: machine code, and its files in the cache."""

from __future__ import annotations

import hashlib
import logging
import pickle
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event as numba_event
from numba.core import serialize
from numba.core.caching import FunctionCache
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic as numba_intrinsic

from nativekit import notices
from nativekit.cache import code_folder, read_entry, write_entry
from nativekit.callees import CalleeCompiler
from nativekit.llvm import Compiled, Function, Generated, Module

F = TypeVar("F", bound=Function)

_PACKAGE = Path(__file__).parent
_LOG = logging.getLogger(__name__)
_folder_lock = threading.Lock()

_numba: Module = numba
_register_listener: Function = numba_event.register
_dumps = cast(Callable[[object], bytes], serialize.dumps)
carray: Function = _numba.carray
_CALLEE_OPTIONS: dict[str, Any] = {
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": CalleeCompiler,
}


class _CompilationListener(numba_event.Listener):
    """Gives notice of entry points that numba compiles, and within them of the functions that they call."""

    def __init__(self) -> None:
        self._starts_s: list[float] = []

    def on_start(self, event: Any) -> None:  # of numba, which has no type hints
        self._starts_s.append(time.monotonic())
        notices.begin(_name_of(event))

    def on_end(self, event: Any) -> None:
        notices.end(_name_of(event), time.monotonic() - self._starts_s.pop())


class _CodeFiles:
    """Files of an entry point's machine code, one for each signature.

    Numba's own class has an index, and unpickles and runs whatever its files contain.
    """

    def __init__(self, folder: Path, name: str, version: object) -> None:
        self._folder, self._name, self._version = folder, name, (numba.__version__, version)

    def load(self, key: object) -> object | None:
        content = read_entry(self._path_of(key))
        if content is None:
            return None
        try:
            version, stored_key, data = pickle.loads(content)
        except Exception as error:  # of any kind: an older nativekit had other classes, or in other modules
            _LOG.info("%s is of an older version, and is replaced: %s", self._path_of(key), error)
            return None
        return data if (version, stored_key) == (self._version, key) else None

    def save(self, key: object, data: object) -> None:
        write_entry(self._path_of(key), _dumps((self._version, key, data)))

    def _path_of(self, key: object) -> Path:
        return self._folder / f"{self._name}.{hashlib.sha256(str(key).encode()).hexdigest()[:16]}.nbc"


class _CodeCache(FunctionCache):
    """The machine code of an entry point on disk, which is compiled again if it cannot be read.

    Numba's own class refreshes its context before it loads code, as for a compilation, which costs a process
    0.5 s of CPU time. Loaded code needs only numba's runtime; a compilation (`CompilerBase`) refreshes the
    context itself.
    """

    def __init__(self: Any, function: Function) -> None:  # of numba, without type hints
        cast(Function, super().__init__)(function)
        self._cache_file = _CodeFiles(
            Path(self._cache_path), self._impl.filename_base, self._impl.locator.get_source_stamp()
        )

    @contextmanager
    def _guard_against_spurious_io_errors(self) -> Iterator[None]:
        with suppress(OSError):
            yield

    def load_overload(self: Any, sig: Any, target_context: Any) -> Any:  # of numba, without type hints
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


def _name_of(event: Any) -> str:
    function = event.data["dispatcher"].py_func
    return f"{function.__module__}.{function.__name__}"


# Numba compiles under one lock, so that one listener serves all threads.
_register_listener("numba:compile", _CompilationListener())


def compiled(function: F) -> F:
    """Decorate a function that only compiled functions call."""
    return cast(F, _numba.njit(**_CALLEE_OPTIONS)(function))


def inlined(function: F) -> F:
    """Decorate a function that is inlined into its callers; only such a function may return a record."""
    return cast(F, _numba.njit(inline="always", **_CALLEE_OPTIONS)(function))


def cached_entry_point(function: F, package: Path, sources: Iterable[Path]) -> F:
    """Return a function that Python calls, whose machine code is cached in the package at `package`."""
    # Numba notices only changes of the function's own file. So the cache folder's name contains a digest
    # of all sources and of this package, and states whether indices are checked (NUMBA_BOUNDSCHECK).
    digest = _digest_of(tuple(sorted({*sources, *_PACKAGE.glob("*.py")})))
    bounds_suffix = "-checked" if _numba.config.BOUNDSCHECK else ""
    dispatcher = _numba.njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)
    with _cache_folder(code_folder(package, f"{digest}{bounds_suffix}")):
        dispatcher._cache = cast(Function, _CodeCache)(function)
    return cast(F, dispatcher)


@cache
def _digest_of(files: tuple[Path, ...]) -> str:  # once: many functions of a process have the same sources
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


@contextmanager
def _cache_folder(folder: Path) -> Iterator[None]:
    """Set numba's cache folder, a setting of the whole process, during the block; other threads wait."""
    with _folder_lock:
        previous_folder = _numba.config.CACHE_DIR
        _numba.config.CACHE_DIR = str(folder)
        try:
            yield
        finally:
            _numba.config.CACHE_DIR = previous_folder


def intrinsic(function: Callable[..., Generated]) -> Compiled:
    return numba_intrinsic(function)


def llvm_intrinsic(plain_form: F) -> Callable[[Callable[..., Generated]], F]:
    """Decorate a generator of LLVM IR for code that numba cannot compile; `plain_form` is its Python form."""

    def decorate(generate: Callable[..., Generated]) -> F:
        function = intrinsic(generate)
        function.plain = plain_form
        return cast(F, function)

    return decorate
