"""What of a design controllers have the switch hold: how virtual time loads it at once, and looks at it.

`CONTENTS` finds it for designs that keep parameters in the switch; `NOTHING` is that of all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from controller.designs import CONTROL
from controller.tables import Row
from experiment.designs import PREPARATION
from foundation.designs.interface import Design
from foundation.designs.registry import Parts
from foundation.protocol.codec import Keys, Values
from hosts.designs import AGENTS
from hosts.keys import KeySpace
from softswitch.compiled import CompiledPipeline

Entry: TypeAlias = Any  # a `Row` of the design's own class
Entries = Iterable[Entry]
"""Rows of parameters in the switch's tables."""


class Contents(NamedTuple):
    """Functions over a switch's entries, its servers and its workers."""

    is_entry: Callable[[Row], bool]
    """Whether a row is one of a parameter."""
    is_moving: Callable[[Entry], bool]
    """Whether an entry's parameter is on its way into the switch, or out of it."""
    arriving: Callable[[Entries, int, Sequence[int]], list[Row]]
    """(entries, job, keys): what a switch with these entries gets for the job to have these keys."""
    writes: Callable[[Entries, int, Sequence[int]], int]
    """(entries, job, keys): table writes that it takes until the job has these keys, and no others."""
    lend: Callable[[Any, Keys], None]  # of the design's own class
    """(store, keys): a server gives the switch those of these parameters that it has."""
    values: Callable[[CompiledPipeline, Entries, KeySpace], Values]
    """(pipeline, entries, space): values of these entries, by position in the key space; 0 of all others."""
    overflows: Callable[[CompiledPipeline], int]
    """Additions that overflowed, by the switch's own counters."""


NOTHING = Contents(
    is_entry=lambda row: False,
    is_moving=lambda entry: False,
    arriving=lambda entries, job, keys: [],
    writes=lambda entries, job, keys: 0,
    lend=lambda store, keys: None,
    values=lambda pipeline, entries, space: np.zeros(space.size, np.uint32),
    overflows=lambda pipeline: 0,
)
"""Of a design whose switch keeps no parameters."""


CONTENTS = Parts[Contents]("simulator", "CONTENTS", {"hotset": "simulator.hotset"})


def contents_of(design: Design) -> Contents:
    """Return what a design keeps in the switch."""
    return CONTENTS.find(design) or NOTHING


def modules_of(design: Design) -> tuple[str, ...]:
    """Return the names of all modules with a part of a design."""
    parts = (each.module_for(design) for each in (AGENTS, CONTROL, PREPARATION, CONTENTS))
    return (design.module, *(part for part in parts if part is not None))
