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
        self._lent = server.lent[self._j]
        self._told = np.zeros(len(self._cells), np.uint32)
        """Updates as `busiest` has last seen them; memory is taken when it does."""

    def owned(self, at: Places) -> NDArray[np.bool_]:
        """Whether the keys there are held here."""
        owned: NDArray[np.bool_] = self._cells.updates[at] < AWAY
        return owned

    def values(self, at: Places) -> Values:
        """Their values, 0 where not owned."""
        values: Values = self._cells.value[at]
        return values

    def give_away(self, at: Places) -> Values:
        """Stop owning these keys; returns their values, which are now 0 here."""
        values = self.values(at)
        self._cells.updates[at] |= AWAY
        self._cells.value[at] = 0
        self._lent[at] += values
        return values

    def take_home(self, at: Places, values: Values) -> None:
        """Own these distinct keys, adding `values` to what is here."""
        self._cells.value[at] += values
        self._cells.updates[at] &= AWAY - 1
        self._lent[at] = self._lent[at] - values if self._replayed else 0

    def count_from_here(self) -> None:
        """Let `busiest` rank what is updated from now on, after a restart."""
        self._told = self._cells.updates & np.uint32(AWAY - 1)

    def restore(self) -> None:
        """Own all keys again: the switch that had them is gone, with all that it held.

        What it was given comes back. If workers replay, what it ever gave back goes: they push again all that
        it has acknowledged to them, and, as they would anyway, what it has not. Else what it added is lost.
        """
        at = np.flatnonzero(self._lent)
        self._cells.value[at] += self._lent[at]
        self._lent[at] = 0
        self._cells.updates[: self._share.me.places] &= AWAY - 1

    def busiest(self, most: int) -> tuple[Keys, Values]:
        """The `most` keys with most updates since this was last asked, and how many: descending, [n] each.

        Before them is NO_KEY, with the updates of all keys together, as far as 32 bits count.
        """
        updates = self._cells.updates & np.uint32(AWAY - 1)
        counts = updates - self._told
        self._told = updates
        top = _largest(counts, most)
        total = min(int(counts.sum(dtype=np.uint64)), 2**32 - 1)
        keys = np.append(np.uint64(NO_KEY), keys_at(self._share, top))
        return keys, np.append(np.uint32(total), counts[top])


def _largest(counts: Values, most: int) -> Places:
    """Where the `most` largest counts above 0 are, in descending order."""
    # Of keys by the million few are updated often: what is sure to be too small is not looked at twice.
    levels = np.minimum(counts, _LEVELS - 1)
    at_least = np.bincount(levels, minlength=_LEVELS)[::-1].cumsum()[::-1]
    enough = np.flatnonzero(at_least >= most)
    top = np.flatnonzero(levels >= max(1, enough[-1] if len(enough) else 0))
    if most < len(top):
        top = top[np.argpartition(counts[top], -most)[len(top) - most :]]
    return top[np.argsort(counts[top])[::-1]]
