"""The rows of one job at one server, for dumps and counts."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import Keys, Values
from hosts.keys import places_of_rows
from hotline_agents.ps.rpcs import JobsState
from hotline_agents.ps.share import (
    HEAD_CELLS,
    Places,
    Share,
    cells_of_row,
    places_and_keys,
    places_of,
    rows_at,
)
from hotline_agents.ps.values import NOT_OWNED, UPDATE_COUNT_MASK, Cell
from nativekit.records import RecordTable, Words


class ShareContents(NamedTuple):
    """All n rows of a share."""

    keys: Keys  # [n]
    values: Values  # the rows, one after the other
    owned: NDArray[np.bool_]  # [n]: whether this server owns the key; otherwise the switch does
    updates: NDArray[np.uint32]  # [n]
    sums: Values
    """Sums of the updates applied here, mod 2^32, as `values`; without an optimiser these are the values."""


class CopyAges(NamedTuple):
    copies: dict[int, int]  # upper limit of a range of ages in ns -> number of copies replaced at these ages
    oldest_ns: int
    late: int  # number of copies replaced at an age above the bound
    bound_ns: int  # maximum age that the run allows
    rpcs: int  # number of RPCs from this server to the switch: three for each batch of up to 32 copies


class SharedState(JobsState, Protocol):
    @property
    def cells(self) -> RecordTable[Cell]: ...

    @property
    def share(self) -> Share: ...


class Store:
    """The rows of one job by place in a server's share; `has_replay_logs` matters to some designs only."""

    def __init__(self, server: SharedState, job: int, has_replay_logs: bool = False) -> None:
        self._share = server.share
        self._job_index = server.jobs["job"].tolist().index(job)
        ranges = self._share.ranges
        self._has_sums = bool(ranges.stride[0] > cells_of_row(int(ranges.dim[0])))
        self._words: Words = server.cells[self._job_index].word

    def locate(self, keys: Keys) -> Places:
        """Return the place of each key [n]."""
        return places_of(self._share, keys)

    def is_in_share(self, places: Places) -> NDArray[np.bool_]:
        is_in_share: NDArray[np.bool_] = places < self._share.header.places
        return is_in_share

    def copy_ages(self) -> CopyAges | None:
        """Return the ages of published copies; None in designs that publish none."""
        return None

    def contents(self) -> ShareContents:
        """Return all parameters, owned or given to the switch."""
        places, keys = places_and_keys(self._share)
        rows, dims = rows_at(self._share, places)
        heads, value_cells = self._words[rows], places_of_rows(rows + HEAD_CELLS, dims)
        values = self._words[value_cells]
        # With an optimiser, the sums of a row's updates follow its values.
        sums = self._words[value_cells + dims.repeat(dims)] if self._has_sums else values
        return ShareContents(keys, values, heads < NOT_OWNED, heads & np.uint32(UPDATE_COUNT_MASK), sums)

    def _heads_by_range(self) -> list[Words]:
        """Return views of the first cell of each row, the owners and numbers of updates, by range."""
        return [
            self._words[each.first_cell : each.first_cell + each.places * each.stride : each.stride]
            for each in self._share.ranges
        ]

    def _value_cells(self, places: Places) -> Places:
        """Return the cells with the values of the rows at places [n], one row after the other."""
        rows, dims = rows_at(self._share, places)
        return places_of_rows(rows + HEAD_CELLS, dims)

    def _head_cells(self, places: Places) -> Places:
        return rows_at(self._share, places)[0]
