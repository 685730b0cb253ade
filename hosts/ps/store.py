"""The parameters of one job at one server, as whoever dumps or counts them sees them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import Keys, Values
from hosts.ps.rpcs import Job
from hosts.ps.share import Places, Share, keys_of, places_of
from hosts.ps.values import AWAY, Cell
from nativekit.records import Records, RecordTable


class Held(NamedTuple):
    """All parameters of a share, [n] each."""

    keys: Keys
    values: Values
    owned: NDArray[np.bool_]
    updates: NDArray[np.uint32]


class SharedState(Protocol):
    """What a store reads of a server's state."""

    @property
    def jobs(self) -> Records[Job]:
        """Job[jobs]"""

    @property
    def cells(self) -> RecordTable[Cell]:
        """Cell[jobs, places + 1]"""

    @property
    def share(self) -> Share:
        """Which keys are the server's."""


class Store:
    """Values by place in a server's share."""

    def __init__(self, server: SharedState, job: int) -> None:
        self._share = server.share
        self._j = server.jobs["job"].tolist().index(job)
        self._cells = server.cells[self._j]

    def locate(self, keys: Keys) -> Places:
        """Place of each key; that of a key which is not in the share is not `known`."""
        return places_of(self._share, keys)

    def known(self, at: Places) -> NDArray[np.bool_]:
        """Whether these are places of the share."""
        known: NDArray[np.bool_] = at < self._share.header.places
        return known

    def held(self) -> Held:
        """Everything, whether here or given away."""
        places, keys = keys_of(self._share)
        cells = self._cells[places]
        return Held(keys, cells.value, cells.updates < AWAY, cells.updates & np.uint32(AWAY - 1))
