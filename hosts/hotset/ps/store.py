"""The parameters of one job at one PS, as whoever moves or dumps them sees them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import Keys, Values
from foundation.protocol.header import NO_KEY
from hosts.hotset.ps.state import Server
from hosts.ps.share import Places, keys_at
from hosts.ps.store import Store as BaseStore
from hosts.ps.values import AWAY

_LEVELS = 1 << 12


class Store(BaseStore):
    """Values and owners by place in the PS's share.

    A key that is not owned is given away to the switch, or was never this PS's: either way its lanes are
    refused. With `replayed` workers keep what the switch acknowledges (`hosts.hotset.worker.state`).
    """

    def __init__(self, server: Server, job: int, replayed: bool = False) -> None:
        super().__init__(server, job)
        self._replayed = replayed
        self._at_switch = server.at_switch[self._j]
        self._last_updates = np.zeros(len(self._cells), np.uint32)
        """Updates as `busiest` has last seen them; memory is taken when it does."""

    def owned(self, at: Places) -> NDArray[np.bool_]:
        """Whether the keys there are held here."""
        owned: NDArray[np.bool_] = self._cells.updates[at] < AWAY
        return owned

    def values(self, at: Places) -> Values:
        """Their values, 0 where not owned."""
        values: Values = self._cells.value[at]
        return values

    def release(self, at: Places) -> Values:
        """Stop owning these keys; returns their values, which are now 0 here."""
        values = self.values(at)
        self._cells.updates[at] |= AWAY
        self._cells.value[at] = 0
        self._at_switch[at] += values
        return values

    def reclaim(self, at: Places, values: Values) -> None:
        """Own these distinct keys, adding `values` to what is here."""
        self._cells.value[at] += values
        self._cells.updates[at] &= AWAY - 1
        self._at_switch[at] = self._at_switch[at] - values if self._replayed else 0

    def count_from_here(self) -> None:
        """Let `busiest` rank what is updated from now on, after a restart."""
        self._last_updates = self._cells.updates & np.uint32(AWAY - 1)

    def restore(self) -> None:
        """Own all keys again: the switch that had them is gone, with all that it held.

        What it was given comes back. If workers replay, what it ever gave back goes: they push again all that
        it has acknowledged to them, and, as they would anyway, what it has not. Else what it added is lost.
        """
        at = np.flatnonzero(self._at_switch)
        self._cells.value[at] += self._at_switch[at]
        self._at_switch[at] = 0
        self._cells.updates[: self._share.header.places] &= AWAY - 1

    def busiest(self, limit: int) -> tuple[Keys, Values]:
        """The `limit` keys with most updates since this was last asked, and how many: descending, [n] each.

        Before them is NO_KEY, with the updates of all keys together, as far as 32 bits count.
        """
        updates = self._cells.updates & np.uint32(AWAY - 1)
        counts = updates - self._last_updates
        self._last_updates = updates
        top = _largest(counts, limit)
        total = min(int(counts.sum(dtype=np.uint64)), 2**32 - 1)
        keys = np.append(np.uint64(NO_KEY), keys_at(self._share, top))
        return keys, np.append(np.uint32(total), counts[top])


def _largest(counts: Values, limit: int) -> Places:
    """Return the places of the `limit` largest counts above 0, in descending order."""
    # Of keys by the million few are updated often: what is sure to be too small is not looked at twice.
    levels = np.minimum(counts, _LEVELS - 1)
    counts_from = np.bincount(levels, minlength=_LEVELS)[::-1].cumsum()[::-1]
    enough = np.flatnonzero(counts_from >= limit)
    top = np.flatnonzero(levels >= max(1, enough[-1] if len(enough) else 0))
    if limit < len(top):
        top = top[np.argpartition(counts[top], -limit)[len(top) - limit :]]
    return top[np.argsort(counts[top])[::-1]]
