"""The parameters of one job at one PS, whose keys can be in the switch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import Keys, Values
from foundation.protocol.header import NO_KEY
from hotline_agents.hotset.ps.state import HotsetServer
from hotline_agents.ps.share import Places, keys_at, rows_at
from hotline_agents.ps.store import SharedState, Store
from hotline_agents.ps.values import NOT_OWNED, UPDATE_COUNT_MASK

_HISTOGRAM_LEVELS = 1 << 12  # one for each number of updates; the last has all larger ones, too


class OffloadingStore(Store):
    """Values of keys, and which of them this PS owns, by place in its share.

    Lanes with other keys are refused: these keys are in the switch, or belong to another PS.
    """

    def __init__(self, server: SharedState, job: int) -> None:
        super().__init__(server, job)
        self._previous_counts = np.zeros(self._share.header.places, np.uint32)
        """Update counts at the last call of `busiest`. The array takes no memory until it is written."""

    @property
    def by_home(self) -> Sequence[OffloadingStore]:
        """The stores of the job's keys for each home of the PS, as its mover sees them; the first is this."""
        return [self]

    def is_owned(self, places: Places) -> NDArray[np.bool_]:
        is_owned: NDArray[np.bool_] = self._words[self._head_cells(places)] < NOT_OWNED
        return is_owned

    def is_at_another_home(self, places: Places) -> NDArray[np.bool_]:
        """Return which rows another home of this PS has, of which the mover may have none."""
        return np.zeros(len(places), np.bool_)

    def keys_with_residues(self) -> Keys:
        """Return the keys of rows that the mover's home has, and of which values are left here."""
        return np.zeros(0, np.uint64)

    def values(self, places: Places) -> Values:
        """Return the rows at places [n], one after the other; 0 where not owned."""
        values: Values = self._words[self._value_cells(places)]
        return values

    def dims(self, places: Places) -> NDArray[np.int64]:
        """Return the number of values of the row at each place [n]."""
        return rows_at(self._share, places)[1]

    def _updates(self) -> Values:
        """Return the number of updates of the row at each place [places]."""
        return np.concatenate(self._heads_by_range()) & np.uint32(UPDATE_COUNT_MASK)

    def restart_counts(self) -> None:
        """Make `busiest` count only updates after this call; called when a PS has restarted."""
        self._previous_counts = self._updates()

    def renew(self, epoch: int) -> None:
        """Handle the current epoch of the PS as a caller of the switch; only `CollectStore` has to."""

    def restore(self) -> None:
        """Own all keys again, after the switch was lost with its values."""
        for heads in self._heads_by_range():
            heads &= UPDATE_COUNT_MASK

    def busiest(self, limit: int) -> tuple[Keys, Values]:
        """Return up to `limit` keys with most updates since the last call, and their counts.

        Both are [n], in descending order, after a first element: NO_KEY with the total updates of all keys,
        at most 2^32 - 1.
        """
        updates = self._updates()
        counts = (updates - self._previous_counts) & np.uint32(UPDATE_COUNT_MASK)  # updates count mod 2^31
        self._previous_counts = updates
        busiest_places = _busiest_places(counts, limit)
        n_updates = min(int(counts.sum(dtype=np.uint64)), 2**32 - 1)
        keys = np.append(np.uint64(NO_KEY), keys_at(self._share, busiest_places))
        return keys, np.append(np.uint32(n_updates), counts[busiest_places])


class HotsetStore(OffloadingStore):
    """A store that gives the switch values and takes them back; workers may keep replay logs.

    It is that of a mover, which exchanges rows with one `home` of the PS. That of the first home is also the
    job's.
    """

    def __init__(self, server: HotsetServer, job: int, has_replay_logs: bool = False, home: int = 0) -> None:
        super().__init__(server, job)
        self._has_replay_logs, self._home, n_homes = has_replay_logs, home, int(server.header.last_home) + 1
        self._at_switch = server.at_switch[self._job_index * n_homes + home]
        self._homes_of_rows = server.homes_of_rows[self._job_index]
        others = range(1, n_homes if home == 0 else 1)
        self._of_other_homes = [HotsetStore(server, job, has_replay_logs, each) for each in others]

    @property
    def by_home(self) -> Sequence[HotsetStore]:
        return [self, *self._of_other_homes]

    @property
    def _has_other_homes(self) -> bool:
        return len(self._homes_of_rows) > 0

    def is_at_another_home(self, places: Places) -> NDArray[np.bool_]:
        if not self._has_other_homes:
            return super().is_at_another_home(places)
        homes = self._homes_of_rows[places]
        is_elsewhere: NDArray[np.bool_] = (homes != 0) & (homes != 1 + self._home)
        return is_elsewhere

    def release(self, places: Places) -> Values:
        """Give up the ownership of these keys; return their rows, whose values become 0 here."""
        cells = self._value_cells(places)
        values: Values = self._words[cells]
        self._words[self._head_cells(places)] |= NOT_OWNED
        self._words[cells] = 0
        self._at_switch[cells] += values
        if self._has_other_homes:
            self._homes_of_rows[places] = 1 + self._home
        return values

    def reclaim(self, places: Places, values: Values) -> None:
        """Take back the ownership of these distinct keys, and add `values`, their rows, to their values."""
        cells = self._value_cells(places)
        self._words[cells] += values
        self._words[self._head_cells(places)] &= UPDATE_COUNT_MASK
        if self._has_other_homes:
            self._homes_of_rows[places] = 0
        # With replay logs, `restore` needs the values that were given minus those that came back.
        self._at_switch[cells] = self._at_switch[cells] - values if self._has_replay_logs else 0

    def keys_with_residues(self) -> Keys:
        places = np.flatnonzero(self._homes_of_rows == 1 + self._home)
        if not len(places):
            return super().keys_with_residues()
        dims = self.dims(places)
        is_left = np.add.reduceat(self._words[self._value_cells(places)] != 0, np.cumsum(dims) - dims) > 0
        return keys_at(self._share, places[is_left])

    def take_back(self, places: Places, values: Values) -> None:
        """Take `values` back that the home was given of rows, which it still has."""
        cells = self._value_cells(places)
        self._words[cells] += values
        self._at_switch[cells] -= values

    def restore(self) -> None:
        # Add back the values that the switch was given. Workers with replay logs push again all updates that
        # the switch ever acknowledged, including those that it has returned with values: `reclaim` has
        # subtracted these values. Without replay logs, the updates in the switch are lost.
        cells = np.flatnonzero(self._at_switch)
        self._words[cells] += self._at_switch[cells]
        self._at_switch[cells] = 0
        if not self._has_other_homes:
            super().restore()
            return
        places = np.flatnonzero(self._homes_of_rows == 1 + self._home)
        self._words[self._head_cells(places)] &= UPDATE_COUNT_MASK
        self._homes_of_rows[places] = 0


def _busiest_places(counts: Values, limit: int) -> Places:
    """Return the places of the `limit` largest counts above 0, in descending order."""
    # Few of millions of keys are updated often: a histogram excludes most of them before the sort.
    levels = np.minimum(counts, _HISTOGRAM_LEVELS - 1)
    keys_from_level = np.bincount(levels, minlength=_HISTOGRAM_LEVELS)[::-1].cumsum()[::-1]
    levels_with_enough = np.flatnonzero(keys_from_level >= limit)
    min_level = max(1, levels_with_enough[-1] if len(levels_with_enough) else 0)
    busiest_places = np.flatnonzero(levels >= min_level)
    if limit < len(busiest_places):
        order = np.argpartition(counts[busiest_places], -limit)
        busiest_places = busiest_places[order[len(busiest_places) - limit :]]
    return busiest_places[np.argsort(counts[busiest_places])[::-1]]
