"""Operations on state that controllers keep in a design's switch; `NO_STATE_OPS` if they keep none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from controller.tables import TableRow
from foundation.designs.interface import Design
from foundation.designs.registry import load_part, part_of
from foundation.protocol.codec import Keys, Values
from foundation.protocol.rows import RowRanges
from hosts.keys import KeySpace
from softswitch.compiled import CompiledPipeline

Entry: TypeAlias = Any  # the `TableRow` class of any design
Entries = Iterable[Entry]


def _values_of_none(_pipeline: CompiledPipeline, _entries: Entries, space: KeySpace) -> Values:
    return np.zeros(space.n_values, np.uint32)


class SwitchStateOps(NamedTuple):
    """Every operation has a default for a switch without such state; `experiment.requirements` has needs."""

    is_entry: Callable[[TableRow], bool] = lambda row: False
    is_moving: Callable[[Entry], bool] = lambda entry: False
    rows_to_load: Callable[[Entries, int, Sequence[int], int, RowRanges], list[TableRow]] = lambda *_: []
    """(entries, job, keys, lanes, ranges): rows to insert so that the job has these keys in that many lanes;
    `ranges` has the dims of the rows of its keys."""
    count_writes: Callable[[Entries, int, Sequence[int]], int] = lambda entries, job, keys: 0
    """(entries, job, keys): number of table writes until the job has exactly these keys."""
    release_to_switch: Callable[[Any, Sequence[Keys]], None] = lambda store, keys: (
        None
    )  # of any design's class
    """(store, keys by home of the server): transfer to each home those of its keys that the server owns."""
    values: Callable[[CompiledPipeline, Entries, KeySpace], Values] = _values_of_none
    """(pipeline, entries, space): values of these entries by place in the value space, 0 elsewhere."""
    overflows: Callable[[CompiledPipeline], int] = lambda pipeline: 0
    """(pipeline): number of additions that overflowed."""
    hold: Callable[[Any], None] | None = None
    """(store): suspend a server's exchange with the switch; None if its design has no such exchange."""
    publish: Callable[[Any, int], None] = lambda store, now: None
    """(store, now): resume the exchange, and publish the current values of the keys in the switch."""


NO_STATE_OPS = SwitchStateOps()


def state_ops_of(design: Design) -> SwitchStateOps:
    reference = part_of(design, "switch_state")
    ops = NO_STATE_OPS if reference is None else cast(SwitchStateOps, load_part(design, reference))
    if design.values_register is None:
        return ops
    return ops._replace(values=partial(_values_of_register, design.values_register))


def _values_of_register(name: str, pipeline: CompiledPipeline, _entries: Entries, space: KeySpace) -> Values:
    return np.array(pipeline.cells.read_register(name, 0, space.size), np.uint32)
