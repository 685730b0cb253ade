"""A SwitchML worker: block floating point, in the window of `switchml.window`.

A chunk's floats are 32-bit integers, with a scale that all workers share. The exponent e of a chunk is the
smallest with all values below 2^e; workers agree on the largest of their exponents. As in
p4lang/p4app-switchML's `cpu_exponent_quantizer_ppp.cc`, in single precision. Two things differ at the edges:
where p4app-switchML's scale overflows to infinity (chunks below about 2^-97), this scale is the largest
float; and no integer exceeds INT32_MAX / n, so that no sum of n integers overflows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.logs.rpc_row import RpcRow
from foundation.protocol.codec import Caller
from foundation.protocol.rpc import Rpc
from hosts.keys import KeySpace
from hotline_agents.worker.window import Slot
from hotline_allreduce.switchml.packet import (
    MAX_OCTETS,
    MAX_VALUES,
    OCTETS,
    VALUES,
    value_of,
    write_value,
)
from hotline_allreduce.switchml.window import (
    ChunkOps,
    ReducerHeader,
    encode_integers,
    one_pass,
    open_reducer,
    register_reducer,
    store_integers,
)
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Records, Words, one_record

MIN_EXPONENT, MAX_EXPONENT = -126, 127
INT32_MAX = 2**31 - 1
MAX_FLOAT32 = float(np.finfo(np.float32).max)


class Reducer(NamedTuple):
    """A worker's calls for one job (`ReducerState`); N: parameters, rounded up to whole chunks."""

    header: ReducerHeader
    slots: Records[Slot]
    sent: Records[Rpc]
    free: Ints  # not used: the number of a packet decides its slot
    resends: Ints  # slots to send, for the first time or again
    positions: Ints
    deltas: Words
    values: Words
    answered: NDArray[np.bool_]
    model: Words  # [N]
    vector: Words  # [N]
    floats: NDArray[np.float32]
    """float32[N]: the addend of an all-reduce of floats, which the result replaces."""
    exponents: Ints  # [N / values of a packet]
    log: Records[RpcRow]


def make_reducer(caller: Caller, n_ps: int, space: KeySpace, max_keys: int, window: int) -> Reducer:
    return _make_reducer(caller, n_ps, space, max_keys, window, VALUES, OCTETS)


def make_large_packet_reducer(
    caller: Caller, n_ps: int, space: KeySpace, max_keys: int, window: int
) -> Reducer:
    return _make_reducer(caller, n_ps, space, max_keys, window, MAX_VALUES, MAX_OCTETS)


def _make_reducer(
    caller: Caller, n_ps: int, space: KeySpace, max_keys: int, window: int, words: int, packet_bytes: int
) -> Reducer:
    header = one_record(ReducerHeader)
    padded_size = -(-space.size // words) * words
    return Reducer(
        header=header,
        floats=np.zeros(padded_size, np.float32),
        exponents=np.zeros(padded_size // words, np.int64),
        **open_reducer(header, caller, n_ps, padded_size, max_keys, window, words, packet_bytes),
    )


@compiled
def exponent_of_floats(floats: NDArray[np.float32], first: int, count: int) -> int:
    """Return the smallest e >= -126 with all `count` values from `first` on below 2^e; values are < 2^127."""
    magnitude = 0.0
    for i in range(first, first + count):
        magnitude = max(magnitude, abs(float(floats[i])))
    _, exponent = math.frexp(magnitude)
    return max(int64(exponent), MIN_EXPONENT) if magnitude > 0.0 else MIN_EXPONENT


@compiled
def scale_of(exponent: int, workers: int) -> float:
    return float(np.float32(min(INT32_MAX / (workers * 2.0**exponent), MAX_FLOAT32)))


@compiled
def as_integer(value: float, scale: float, workers: int) -> int:
    """Return a scaled value, rounded half away from 0."""
    scaled = float(np.float32(value) * np.float32(scale))
    limit = INT32_MAX // workers
    rounded = min(math.floor(abs(scaled) + 0.5), limit)
    return -rounded if scaled < 0.0 else rounded


@compiled
def as_float(total: int, scale: float) -> float:
    """Return the float that a sum of scaled integers represents; infinity above `MAX_FLOAT32`."""
    return float(np.float32(total) / np.float32(scale))


def error_bound(exponent: int, workers: int, size: float) -> float:
    """Return the largest error of a sum whose addends have absolute values that add up to `size`.

    Each addend is rounded to a multiple of 1 / scale; its product with the scale, the sum and its quotient
    are rounded to 24 bits, and results below 2^-126 to fewer.
    """
    scale = float(np.float32(min(INT32_MAX / (workers * 2.0**exponent), MAX_FLOAT32)))
    # Clipping to INT32_MAX // n can change a value next to 2^e by a rounding error of its product.
    # 2^-24 is the unit roundoff of float32, and 2^-149 its smallest number above 0.
    return (0.5 + 2.0**-24 * INT32_MAX / workers + 1) * workers / scale + 2.0**-22 * size + 2.0**-149


@compiled
def _chunk_count(state: Reducer) -> int:
    words = state.header.words
    return (state.header.n_values + words - 1) // words


@compiled
def _chunk_exponent(state: Reducer, chunk: int) -> int:
    words = state.header.words
    return exponent_of_floats(state.floats, chunk * words, words)


@compiled
def _encode(state: Reducer, chunk: int, rpc: Rpc) -> None:
    if not state.header.is_float:
        encode_integers(state, chunk, rpc)
        return
    workers, words = state.header.workers, state.header.words
    scale = scale_of(int64(state.exponents[chunk]), workers)
    for i in range(words):
        write_value(rpc, i, as_integer(float(state.floats[chunk * words + i]), scale, workers))


@compiled
def _store(state: Reducer, chunk: int, rpc: Rpc) -> None:
    if not state.header.is_float:
        store_integers(state, chunk, rpc)
        return
    words = state.header.words
    scale = scale_of(int64(state.exponents[chunk]), state.header.workers)
    for i in range(words):
        state.floats[chunk * words + i] = as_float(value_of(rpc, i), scale)


WORKER = register_reducer(Reducer, ChunkOps(_chunk_count, _chunk_exponent, _encode, _store, one_pass))
