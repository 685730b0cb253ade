"""A worker of `exact`: lanes in a first pass over all chunks, digits in a second over what is not certain.

All workers get the same sums, so all find the same values uncertain, and keep their addends until then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.logs.rpc_row import RpcRow
from foundation.protocol.codec import Caller
from foundation.protocol.rpc import Rpc
from hosts.keys import KeySpace
from hotline_agents.worker.window import Slot
from hotline_allreduce.exact.arithmetic import (
    MAX_EXPONENT,
    UNCERTAIN,
    digit,
    digit_count,
    exponent_of_word,
    high_lane,
    is_cut,
    lane_bits,
    low_lane,
    not_finite,
    sum_of_digits,
    sum_of_lanes,
)
from hotline_allreduce.switchml.packet import CUT, OCTETS, VALUES, value_of, write_value
from hotline_allreduce.switchml.window import (
    ChunkOps,
    ReducerHeader,
    encode_integers,
    open_reducer,
    register_reducer,
    store_integers,
)
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Records, Words, one_record

FLOATS_A_CHUNK = VALUES // 2
PACKET_BYTES = OCTETS + CUT.size
_CUT_INDEX = VALUES  # the word of cut bits is behind the others
_EXPONENT_BIAS = 128  # from an exponent to the signed number on the wire


class ExactHeader(ReducerHeader):
    OWN_FIELDS_FIRST = True  # `nativekit.records.dtype_of` has the reason

    shards: int  # number of this worker's addends of each value
    stride: int  # distance of two shards' addends
    sends_digits: int  # whether the pass is the second one
    n_uncertain: int  # number of values of the second pass
    n_floats: int  # number of floats added up so far
    n_repeated: int  # number of them that took a second pass


class ExactReducer(NamedTuple):
    """A worker's calls for one job (`ReducerState`); N: parameters, rounded up to whole chunks."""

    header: ExactHeader
    slots: Records[Slot]
    sent: Records[Rpc]
    free: Ints
    resends: Ints
    positions: Ints
    deltas: Words
    values: Words
    answered: NDArray[np.bool_]
    model: Words  # [N]
    vector: Words  # [N]
    addends: Words  # uint32[N]: floats, shard after shard, each padded to whole chunks
    sums: Words  # uint32[N]: floats
    is_certain: NDArray[np.bool_]  # [N]
    uncertain: Ints  # int64[N]: positions of the values of the second pass, ascending
    exponents: Ints  # int64[N / FLOATS_A_CHUNK]
    digit_sums: Ints  # int64[VALUES]: scratch
    log: Records[RpcRow]


def make_exact_reducer(
    caller: Caller, n_ps: int, space: KeySpace, max_keys: int, window: int
) -> ExactReducer:
    header = one_record(ExactHeader)
    size = -(-space.size // VALUES) * VALUES
    header.shards, header.stride = 1, size
    return ExactReducer(
        header=header,
        addends=np.zeros(size, np.uint32),
        sums=np.zeros(size, np.uint32),
        is_certain=np.zeros(size, np.bool_),
        uncertain=np.zeros(size, np.int64),
        exponents=np.zeros(size // FLOATS_A_CHUNK, np.int64),
        digit_sums=np.zeros(VALUES, np.int64),
        **open_reducer(header, caller, n_ps, size, max_keys, window, VALUES, PACKET_BYTES),
    )


@compiled
def _addend_count(header: ExactHeader) -> int:
    return header.workers * header.shards


@compiled
def _addend(state: ExactReducer, shard: int, position: int) -> int:
    return int64(state.addends[shard * state.header.stride + position])


@compiled
def _lanes_a_value(header: ExactHeader) -> int:
    """Return the number of words of a value in the second pass."""
    return digit_count(lane_bits(_addend_count(header))) + 1


@compiled
def _chunk_count(state: ExactReducer) -> int:
    header = state.header
    size, values_a_chunk = header.n_values, VALUES
    if header.sends_digits:
        size, values_a_chunk = header.n_uncertain, VALUES // _lanes_a_value(header)
    elif header.is_float:
        values_a_chunk = FLOATS_A_CHUNK
    return (size + values_a_chunk - 1) // values_a_chunk


@compiled
def _chunk_exponent(state: ExactReducer, chunk: int) -> int:
    largest = 0
    for shard in range(state.header.shards):
        for i in range(FLOATS_A_CHUNK):
            largest = max(largest, exponent_of_word(_addend(state, shard, chunk * FLOATS_A_CHUNK + i)))
    return largest - _EXPONENT_BIAS


@compiled
def _encode(state: ExactReducer, chunk: int, rpc: Rpc) -> None:
    if state.header.sends_digits:
        _encode_digits(state, chunk, rpc)
    elif state.header.is_float:
        _encode_lanes(state, chunk, rpc)
    else:
        encode_integers(state, chunk, rpc)
        write_value(rpc, _CUT_INDEX, 0)


@compiled
def _encode_lanes(state: ExactReducer, chunk: int, rpc: Rpc) -> None:
    bits, exponent = lane_bits(_addend_count(state.header)), _agreed_exponent(state, chunk)
    cut = 0
    for i in range(FLOATS_A_CHUNK):
        high = low = 0
        for shard in range(state.header.shards if exponent < MAX_EXPONENT else 0):
            word = _addend(state, shard, chunk * FLOATS_A_CHUNK + i)
            high += high_lane(word, exponent, bits)
            low += low_lane(word, exponent, bits)
            if is_cut(word, exponent, bits):
                cut |= 1 << i
        write_value(rpc, 2 * i, high)
        write_value(rpc, 2 * i + 1, low)
    write_value(rpc, _CUT_INDEX, cut)


@compiled
def _agreed_exponent(state: ExactReducer, chunk: int) -> int:
    return int64(state.exponents[chunk]) + _EXPONENT_BIAS


@compiled
def _encode_digits(state: ExactReducer, chunk: int, rpc: Rpc) -> None:
    header = state.header
    lanes, bits = _lanes_a_value(header), lane_bits(_addend_count(header))
    values_a_chunk = VALUES // lanes
    for i in range(VALUES + 1):
        write_value(rpc, i, 0)
    first = chunk * values_a_chunk
    for k in range(min(values_a_chunk, header.n_uncertain - first)):
        position = int64(state.uncertain[first + k])
        for lane in range(lanes):
            total = 0
            for shard in range(header.shards):
                word = _addend(state, shard, position)
                total += digit(word, lane, bits) if lane < lanes - 1 else not_finite(word)
            write_value(rpc, k * lanes + lane, total)


@compiled
def _store(state: ExactReducer, chunk: int, rpc: Rpc) -> None:
    if state.header.sends_digits:
        _store_digits(state, chunk, rpc)
    elif state.header.is_float:
        _store_lanes(state, chunk, rpc)
    else:
        store_integers(state, chunk, rpc)


@compiled
def _store_lanes(state: ExactReducer, chunk: int, rpc: Rpc) -> None:
    addends, exponent = _addend_count(state.header), _agreed_exponent(state, chunk)
    cut = value_of(rpc, _CUT_INDEX)
    for i in range(FLOATS_A_CHUNK):
        has_cut = cut >> i & 1 != 0
        word = sum_of_lanes(value_of(rpc, 2 * i), value_of(rpc, 2 * i + 1), has_cut, addends, exponent)
        position = chunk * FLOATS_A_CHUNK + i
        state.is_certain[position] = word != UNCERTAIN
        if word != UNCERTAIN:
            state.sums[position] = np.uint32(word)


@compiled
def _store_digits(state: ExactReducer, chunk: int, rpc: Rpc) -> None:
    header = state.header
    lanes, addends = _lanes_a_value(header), _addend_count(header)
    values_a_chunk = VALUES // lanes
    first = chunk * values_a_chunk
    for k in range(min(values_a_chunk, header.n_uncertain - first)):
        for lane in range(lanes):
            state.digit_sums[lane] = value_of(rpc, k * lanes + lane)
        word = sum_of_digits(state.digit_sums, lanes - 1, int64(state.digit_sums[lanes - 1]), addends)
        state.sums[state.uncertain[first + k]] = np.uint32(word)


@compiled
def _begins_pass(state: ExactReducer) -> bool:
    """Begin the second pass if the first one leaves values uncertain."""
    header = state.header
    if header.sends_digits or not header.is_float:
        header.sends_digits = 0
        return False
    header.n_uncertain = 0
    # Results come in any order, which may differ between workers; positions ascend at all of them.
    for position in range(header.n_values):
        if not state.is_certain[position]:
            state.uncertain[header.n_uncertain] = position
            header.n_uncertain += 1
    header.n_floats += header.n_values
    header.n_repeated += header.n_uncertain
    header.sends_digits = header.n_uncertain > 0
    return header.sends_digits != 0


WORKER = register_reducer(
    ExactReducer, ChunkOps(_chunk_count, _chunk_exponent, _encode, _store, _begins_pass)
)
