"""Whole tables between arrays and servers, by the operations of an engine."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.header import FIRST, SECOND, SET
from hotline_scripts.embedding_tables import EmbeddingTable
from hotline_scripts.kv.archive import Numbers, SavedTable
from hotline_scripts.kv.calls import Operation, row_chunks
from hotline_scripts.kv.conversion import from_fixed, to_fixed
from hotline_scripts.kv.engine import MAX_CHUNK, Engine
from nativekit.records import Words

VALUES = 0
"""In the place of a state's flag: the values themselves."""


def read_words(engine: Engine, table: EmbeddingTable, state_flag: int = VALUES) -> Words:
    """Return the words [rows, dim] of a table, or of a state of its optimiser, after earlier operations.

    They are fixed-point numbers, or those of float32 if the table has an optimiser.
    """
    words = np.empty((table.rows, table.dim), np.uint32)
    for rows in row_chunks(table, MAX_CHUNK):
        out = words[rows.keys[0] : rows.keys[-1] + 1]

        def write(pulled: Words, out: Words = out) -> None:
            out[...] = table.strip(pulled).reshape(out.shape)

        pull = Operation(table.positions(rows.keys), table, None, write, None, False, word_flags=state_flag)
        engine.wait(engine.submit(pull))
    return words


def read_values(engine: Engine, table: EmbeddingTable, state_flag: int = VALUES) -> NDArray[np.float32]:
    """Return the values [rows, dim] of a table, or of a state of its optimiser."""
    words = read_words(engine, table, state_flag)
    values = words.view(np.float32)
    if table.optimiser is None:
        from_fixed(words.reshape(-1), table.scale, values)  # each number in its place
    return values


def read_states(engine: Engine, table: EmbeddingTable) -> dict[int, NDArray[np.float32]]:
    """Return the states of a table's optimiser, by their flags; empty if it has none."""
    flags = () if table.optimiser is None else (FIRST, SECOND)
    return {flag: read_values(engine, table, flag) for flag in flags}


def read_exactly(engine: Engine, table: EmbeddingTable, steps: int) -> SavedTable:
    """Return what a table has at the servers, to the bit; `steps` is the number of pushes to it."""
    words = read_words(engine, table)
    if table.optimiser is None:
        return SavedTable(words.view(np.int32), {}, steps=0)
    return SavedTable(words.view(np.float32), read_states(engine, table), steps)


def set_table(
    engine: Engine, table: EmbeddingTable, values: Numbers, states: Mapping[int, NDArray[np.float32]]
) -> int:
    """Set a table, whose values at the servers are 0, and its states; return the number of clipped values.

    Values [rows, dim] are float32, or fixed-point numbers of int32.
    """
    if table.optimiser is not None:
        for state_flag, numbers in {VALUES: values, **states}.items():
            _push(engine, table, numbers, SET | state_flag)
        return 0
    if values.dtype == np.int32:
        _push(engine, table, values, word_flags=0)
        return 0
    fixed, clipped_count = to_fixed(values.astype(np.float32, copy=False), table.scale)
    _push(engine, table, fixed.reshape(values.shape), word_flags=0)
    return clipped_count


def _push(engine: Engine, table: EmbeddingTable, numbers: NDArray[np.generic], word_flags: int) -> None:
    for rows in row_chunks(table, MAX_CHUNK):
        words = np.ascontiguousarray(numbers[rows.keys]).reshape(-1).view(np.uint32)
        push = Operation(
            table.positions(rows.keys), table, table.pad(words), is_training=False, word_flags=word_flags
        )
        engine.wait(engine.submit(push))
