"""What compiled Python (ports, table writes, bench) needs below Python: libc, raw memory, function pointers.

Numba compiles it (no C toolchain at run time) to code that runs without the GIL. Addresses and lengths are
signed 64-bit everywhere, because numba makes a float of `uint64 + int64`.
"""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic as numba_intrinsic

from softswitch.cache import cache_of
from softswitch.memory.process import ARGUMENTS, RESULT, Kind

F = TypeVar("F", bound=Callable[..., Any])

_HERE = Path(__file__).parent

# To mypy these are Any: numba's hints say less than numba takes.
_numba: Any = numba
carray: Any = _numba.carray
int64 = cast(Callable[[Any], int], np.int64)


def compiled(function: F) -> F:
    """Decorate a function that only compiled functions call."""
    return cast(F, _numba.njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function))


def entry_point(function: F) -> F:
    """Decorate a function that Python calls: runs without the GIL, is compiled once and cached on disk."""
    home = Path(function.__code__.co_filename).parent
    below = (source for folder in (".", "memory", "queues") for source in (_HERE / folder).glob("*.py"))
    return cached_entry_point(function, home, {*home.glob("*.py"), *below})


def cached_entry_point(function: F, home: Path, sources: Iterable[Path]) -> F:
    """An entry point whose machine code is kept with the package at `home`.

    Numba looks only at the file of the function itself to tell a stale cache; here the cache's folder
    carries a digest of all `sources`, and says whether indices are checked (NUMBA_BOUNDSCHECK).
    """
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sorted(sources))).hexdigest()[:16]
    checked = "-checked" if _numba.config.BOUNDSCHECK else ""
    before = _numba.config.CACHE_DIR
    _numba.config.CACHE_DIR = str(cache_of(home) / f"compiled-{digest}{checked}")
    try:
        return cast(F, _numba.njit(nogil=True, cache=True, error_model="numpy")(function))
    finally:
        _numba.config.CACHE_DIR = before


def intrinsic(function: Callable[..., Any]) -> Any:
    """Decorate a function that generates the LLVM IR of a call."""
    return numba_intrinsic(function)


def _libc(name: str, result: Any, *arguments: Any) -> Any:
    return types.ExternalFunction(name, result(*arguments))


clock_gettime = _libc("clock_gettime", types.int32, types.int32, types.intp)
epoll_wait = _libc("epoll_wait", types.int32, types.int32, types.intp, types.int32, types.int32)
errno_location = _libc("__errno_location", types.intp)
getsockopt = _libc("getsockopt", types.int32, types.int32, types.int32, types.int32, types.intp, types.intp)
memcpy = _libc("memcpy", types.intp, types.intp, types.intp, types.intp)
memmove = _libc("memmove", types.intp, types.intp, types.intp, types.intp)
nanosleep = _libc("nanosleep", types.int32, types.intp, types.intp)
pthread_mutex_lock = _libc("pthread_mutex_lock", types.int32, types.intp)
pthread_mutex_unlock = _libc("pthread_mutex_unlock", types.int32, types.intp)
recv = _libc("recv", types.intp, types.int32, types.intp, types.intp, types.int32)
send = _libc("send", types.intp, types.int32, types.intp, types.intp, types.int32)
sched_yield = _libc("sched_yield", types.int32)
sendmmsg = _libc("sendmmsg", types.int32, types.int32, types.intp, types.uint32, types.int32)
timerfd_settime = _libc("timerfd_settime", types.int32, types.int32, types.int32, types.intp, types.intp)
writev = _libc("writev", types.intp, types.int32, types.intp, types.int32)


@intrinsic
def pointer(_typing: Any, address: Any) -> Any:
    """An address as a pointer that `carray` takes."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.intp), generate


@intrinsic
def load_acquire(_typing: Any, address: Any) -> Any:
    """Read a uint32 that another thread or the kernel publishes; later reads stay after it."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, values: Any) -> Any:
        word = builder.inttoptr(values[0], ir.IntType(32).as_pointer())
        return builder.load_atomic(word, "acquire", 4)

    return types.uint32(types.intp), generate


@intrinsic
def store_release(_typing: Any, address: Any, value: Any) -> Any:
    """Write a uint32 for another thread or the kernel; earlier reads and writes stay before it."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, values: Any) -> Any:
        word = builder.inttoptr(values[0], ir.IntType(32).as_pointer())
        builder.store_atomic(values[1], word, "release", 4)

    return types.void(types.intp, types.uint32), generate


_KINDS: dict[Kind, Any] = {
    Kind.ADDRESS: types.intp,
    Kind.INT32: types.int32,
    Kind.UINT32: types.uint32,
    Kind.UINT64: types.uint64,
}
PROCESS = _KINDS[RESULT](*(_KINDS[argument.kind] for argument in ARGUMENTS))
"""The packet function (`memory.process`)."""


@intrinsic
def call_process(
    _typing: Any, function: Any, state: Any, port: Any, frame: Any, length: Any, t_in: Any, now: Any,
    out: Any, capacity: Any,
) -> Any:  # fmt: skip
    """Call the function of type `PROCESS` at an address."""

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, values: Any) -> Any:
        arguments = [context.get_value_type(kind) for kind in PROCESS.args]
        native = ir.FunctionType(context.get_value_type(PROCESS.return_type), arguments)
        return builder.call(builder.inttoptr(values[0], native.as_pointer()), values[1:])

    return PROCESS.return_type(types.intp, *PROCESS.args), generate
