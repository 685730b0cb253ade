"""The parameters of one job at one server, as whoever dumps or counts them sees them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import Keys, Values
from hosts.ps.share import Places, Share, keys_of, places_of
from hosts.ps.values import AWAY


class Held(NamedTuple):
    """All parameters of a share, [n] each."""

    keys: Keys
    values: Values
    owned: NDArray[np.bool_]
    updates: NDArray[np.uint32]


class Store:
    """Values by place in a server's share."""

    def __init__(self, server: Any, job: int) -> None:
        self._share: Share = server.share
        self._j = server.jobs["job"].tolist().index(job)
        self._cells = server.cells[self._j]

    def locate(self, keys: Keys) -> Places:
        """Place of each key; that of a key which is not in the share is not `known`."""
        return places_of(self._share, keys)

    def known(self, at: Places) -> NDArray[np.bool_]:
        """Whether these are places of the share."""
        known: NDArray[np.bool_] = at < self._share.me.places
        return known

    def held(self) -> Held:
        """Everything, whether here or given away."""
        places, keys = keys_of(self._share)
        cells = self._cells[places]
        return Held(keys, cells.value, cells.updates < AWAY, cells.updates & np.uint32(AWAY - 1))
