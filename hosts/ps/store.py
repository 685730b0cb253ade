"""The parameters of one job at one server, for dumps and counts."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import Keys, Values
from hosts.ps.rpcs import JobsState
from hosts.ps.share import Places, Share, places_and_keys, places_of
from hosts.ps.values import NOT_OWNED, UPDATE_COUNT_MASK, Cell
from nativekit.records import RecordTable


class ShareContents(NamedTuple):
    """All parameters of a share, each column [n]."""

    keys: Keys
    values: Values
    owned: NDArray[np.bool_]  # whether this server owns the key; otherwise the switch does
    updates: NDArray[np.uint32]
    sums: Values
    """Sums of the updates applied here, mod 2^32; without an optimiser these are the values."""


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
    """The values of one job by place in a server's share; `has_replay_logs` matters to some designs only."""

    def __init__(self, server: SharedState, job: int, has_replay_logs: bool = False) -> None:
        self._share = server.share
        self._job_index = server.jobs["job"].tolist().index(job)
        cells = server.cells[self._job_index]
        # One more parameter stands for the keys of other shares.
        self._width = len(cells) // (self._share.header.places + 1)
        # The first cell of each parameter has its value; the others have the optimiser's state.
        self._value_cells, self._all_cells = cells[:: self._width], cells

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
        cells = self._value_cells[places]
        # With an optimiser, the first word of state after the value has the sum.
        sums = cells.value if self._width == 1 else self._all_cells.applied[places * self._width + 1]
        updates = cells.updates & np.uint32(UPDATE_COUNT_MASK)
        return ShareContents(keys, cells.value, cells.updates < NOT_OWNED, updates, sums)
