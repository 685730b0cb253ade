"""Operations on state that controllers keep in a design's switch; `NO_STATE_OPS` if they keep none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from controller.tables import TableRow
from foundation.designs.interface import Design
from foundation.designs.registry import load_part
from foundation.protocol.codec import Keys, Values
from hosts.keys import KeySpace
from softswitch.compiled import CompiledPipeline

Entry: TypeAlias = Any  # the `TableRow` class of any design
Entries = Iterable[Entry]


class SwitchStateOps(NamedTuple):
    is_entry: Callable[[TableRow], bool]
    is_moving: Callable[[Entry], bool]
    rows_to_load: Callable[[Entries, int, Sequence[int], int], list[TableRow]]
    """(entries, job, keys, lanes): rows to insert so that the job has these keys in that many lanes."""
    count_writes: Callable[[Entries, int, Sequence[int]], int]
    """(entries, job, keys): number of table writes until the job has exactly these keys."""
    release_to_switch: Callable[[Any, Keys], None]  # the store class of any design
    """(store, keys): transfer to the switch those of these keys that the server owns."""
    values: Callable[[CompiledPipeline, Entries, KeySpace], Values]
    """(pipeline, entries, space): values of these entries by position in the key space, 0 elsewhere."""
    overflows: Callable[[CompiledPipeline], int]  # (pipeline): number of additions that overflowed
    hold: Callable[[Any], None] | None = None
    """(store): suspend a server's exchange with the switch; None if its design has no such exchange."""
    publish: Callable[[Any, int], None] = lambda store, now: None
    """(store, now): resume the exchange, and publish the current values of the keys in the switch."""


NO_STATE_OPS = SwitchStateOps(
    is_entry=lambda row: False,
    is_moving=lambda entry: False,
    rows_to_load=lambda entries, job, keys, lanes: [],
    count_writes=lambda entries, job, keys: 0,
    release_to_switch=lambda store, keys: None,
    values=lambda pipeline, entries, space: np.zeros(space.size, np.uint32),
    overflows=lambda pipeline: 0,
)


def state_ops_of(design: Design) -> SwitchStateOps:
    if design.switch_state is None:
        return NO_STATE_OPS
    return cast(SwitchStateOps, load_part(design, design.switch_state))
