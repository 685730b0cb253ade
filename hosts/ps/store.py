"""The parameters of one job at one server, as whoever dumps or counts them sees them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hosts.ps.share import Places, Share, places_of
from protocol.codec import Keys, Values


class Held(NamedTuple):
    """All parameters of a share, [n] each."""

    keys: Keys
    values: Values
    owned: NDArray[np.bool_]
    updates: NDArray[np.uint32]


class Store(ABC):
    """Values by place in a server's share."""

    def __init__(self, share: Share) -> None:
        self._share = share

    def locate(self, keys: Keys) -> Places:
        """Place of each key; that of a key which is not in the share is not `known`."""
        return places_of(self._share, keys)

    def known(self, at: Places) -> NDArray[np.bool_]:
        """Whether these are places of the share."""
        known: NDArray[np.bool_] = at < self._share.me.places
        return known

    @abstractmethod
    def held(self) -> Held:
        """Everything, whether here or given away."""
