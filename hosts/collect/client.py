"""A worker's calls for one job, whose servers own all parameters and apply optimisers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import Values
from hosts.hotset.worker.client import HotsetClient


class CollectClient(HotsetClient):
    servers_own_parameters = True
    _push_number = 0  # number of the next push, which `prepare` sets for its table

    def prepare(self, push_number: int, word_flags: int = 0) -> None:
        self._push_number, self._header.word_flags = push_number, word_flags

    def push(
        self, iteration: int, positions: NDArray[np.integer], deltas: Values, answered: NDArray[np.bool_]
    ) -> None:
        self._header.push_number = self._push_number
        self._push_number += 1
        super().push(iteration, positions, deltas, answered)
