"""The parameters of one job at a PS that owns all of them, including parameters with copies in the switch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from foundation.protocol.codec import Keys, Values
from foundation.protocol.header import LANES, MAX_VALUES, PS_BITS, QUAD, WINDOW
from foundation.protocol.rows import lanes_of_rows
from hotline_agents.collect.collector import apply_words
from hotline_agents.collect.exchanges import exchange_of
from hotline_agents.collect.schedule import push_entry, upper_age_of
from hotline_agents.collect.state import (
    AGES,
    CHANGED,
    COLLECTIONS,
    GIVEN,
    IDLE,
    QUEUED,
    Collection,
    Collector,
    CollectServer,
)
from hotline_agents.hotset.ps.store import OffloadingStore
from hotline_agents.ps.share import Places, keys_at
from hotline_agents.ps.store import CopyAges, ShareContents
from hotline_agents.ps.values import NOT_OWNED, UPDATE_COUNT_MASK
from nativekit.compile import int64
from nativekit.plain import plain
from nativekit.records import Ints, Words
from nativekit.reference import as_ref

_exchange_of = plain(exchange_of)
BY_COMMAND, BY_MOVE = 1, 2
"""Bits of `hold_reasons`: the controller's command HOLD; a move of keys out of the switch."""


class CollectStore(OffloadingStore):
    """A store that publishes copies and collects gradients; `has_replay_logs` is ignored.

    It is that of a mover, which exchanges rows with one `home` of the PS. That of the first home is also the
    job's.
    """

    def __init__(self, server: CollectServer, job: int, has_replay_logs: bool = False, home: int = 0) -> None:
        super().__init__(server, job)
        self._server: CollectServer = server
        self._exchange = _exchange_of(server, self._job_index, home << PS_BITS)
        self._collected = server.collected[self._exchange]
        self._last_sums = server.last_sums[self._exchange]
        self._unsettled = server.unsettled[self._exchange]
        self._copies = server.copies[self._exchange]
        self._copies_by_home = [server.copies[e] for e in range(len(server.copies))[self._exchanges_of_job]]
        self._n_queues = LANES * len(server.dims)

    @cached_property
    def by_home(self) -> Sequence[CollectStore]:
        job, homes = int(self._server.jobs[self._job_index].job), range(1, len(self._copies_by_home))
        return [self, *(CollectStore(self._server, job, home=home) for home in homes)]

    @property
    def collector(self) -> Collector:
        collector: Collector = self._server.collectors[self._exchange]
        return collector

    @property
    def _exchanges_of_job(self) -> slice:
        homes = int(self._server.header.last_home) + 1
        return slice(self._job_index * homes, (self._job_index + 1) * homes)

    def _slice_of_exchange(self, size: int) -> slice:
        """Return the elements of the exchange in an array with `size` elements for each exchange."""
        return slice(self._exchange * size, (self._exchange + 1) * size)

    def hold(self, reason: int) -> None:
        self.collector.hold_reasons |= reason

    def resume(self, reason: int) -> None:
        if self.collector.hold_reasons & reason & BY_COMMAND:
            # Do not count ages reached during the hold, when no worker read copies.
            self._copies.read_time[:] = self._copies.last_read_time[:] = 0
        self.collector.hold_reasons &= ~reason
        self._server.header.due = 0

    def contents(self) -> ShareContents:
        contents = super().contents()
        cells = self._value_cells(self.locate(contents.keys))
        # The switches' sums still have what was applied at the last read.
        of_job, sums = self._exchanges_of_job, contents.sums
        for unsettled, last_sums in zip(
            self._server.unsettled[of_job], self._server.last_sums[of_job], strict=True
        ):
            sums = sums + unsettled[cells] - last_sums[cells]
        return contents._replace(sums=sums)

    def is_owned(self, places: Places) -> NDArray[np.bool_]:
        is_owned: NDArray[np.bool_] = self._copies.marks[places] & GIVEN == 0
        return is_owned

    def release(self, places: Places) -> Values:
        """Let the switch serve these keys from now on; return their rows, which the caller publishes."""
        self._words[self._head_cells(places)] |= NOT_OWNED
        self._copies.marks[places] |= GIVEN
        return self.values(places)

    def reclaim(self, places: Places) -> None:
        """Serve these keys from now on; the switch must hold none of their gradients."""
        self._copies.marks[places] &= ~GIVEN
        is_given = np.zeros(len(places), np.bool_)
        for copies in self._copies_by_home:
            is_given |= copies.marks[places] & GIVEN != 0
        self._words[self._head_cells(places[~is_given])] &= UPDATE_COUNT_MASK

    def begin_collecting(self, places: Places, now: int) -> None:
        """Queue keys, whose copies were published at `now` (ns), for collection."""
        self._copies.read_time[places] = self._copies.last_read_time[places] = now
        complete = np.full(len(places), now)
        for copies in self._copies_by_home:
            is_given = copies.marks[places] & GIVEN != 0
            np.minimum(complete, copies.last_read_time[places], out=complete, where=is_given)
        self._copies.complete_until[places] = complete
        self._copies.change[places] = 0
        self._queue_places(places, now)

    def _queue_places(self, places: Places, now: int) -> None:
        places = places[self._copies.marks[places] & QUEUED == 0]
        keys, dims = keys_at(self._share, places), self.dims(places)
        queues = LANES * np.searchsorted(self._server.dims, dims) + lanes_of_rows(keys, dims)
        queue_sizes = self._server.queue_sizes[self._queues_of_reads]
        if (queue_sizes + np.bincount(queues, minlength=self._n_queues)).max() > self._server.queues.shape[1]:
            # Some entries are of keys that have left the switch.
            self._empty(self._queues_of_reads)
            self.requeue()
            return
        self._copies.marks[places] |= QUEUED
        queue_keys(self._server, places, keys, self._exchange * self._n_queues + queues, now)

    @property
    def _queues_of_reads(self) -> slice:
        """The queues of the exchange's rows that wait for being read."""
        return self._slice_of_exchange(self._n_queues)

    @property
    def _queues_of_publications(self) -> slice:
        """The queues of the exchange's rows that wait for being published."""
        reads, n_queues = self._queues_of_reads, len(self._server.queue_sizes) // 2
        return slice(n_queues + reads.start, n_queues + reads.stop)

    def _empty(self, queues: slice) -> None:
        for q in range(queues.start, queues.stop):
            queued_places = self._server.queues["place"][q, : self._server.queue_sizes[q]]
            self._copies.marks[queued_places] &= ~QUEUED
            self._server.queue_sizes[q] = 0

    def _places_in_switch(self) -> Places:
        return np.flatnonzero(self._copies.marks & GIVEN)

    def requeue(self) -> None:
        """Queue all keys in the switch that are in no queue and no collection, due immediately."""
        self._queue_places(self._places_in_switch(), 0)

    def restore_queues(self) -> None:
        self._copies.marks &= ~QUEUED
        for queues in (self._queues_of_reads, self._queues_of_publications):
            self._server.queue_sizes[queues] = 0
        for collection in self._job_collections:
            collection.sent_time = 0
            if collection.phase != IDLE:
                live = [lane for lane in range(LANES) if int(collection.live) >> lane & 1]
                self._copies.marks[collection.places[live]] |= QUEUED
        self.requeue()

    def request_full_collection(self, now: int) -> None:
        """Request the collection of all gradients that the switch has added up to `now` (ns)."""
        self._empty(self._queues_of_reads)
        places = self._places_in_switch()
        self.collector.wanted_before = now + 1
        self.collector.n_wanted = len(places)  # no sum has been read yet
        # Rows that were read before `now` are queued again when they have been published.
        self.requeue()
        for q in range(self._queues_of_publications.start, self._queues_of_publications.stop):
            self._server.queues["due"][q, : self._server.queue_sizes[q]] = 0
        self._server.header.due = 0

    def end_full_collection(self) -> None:
        # In a replay of the journal, which has no times, no read counts as one after the request.
        self.collector.n_wanted = 0

    def absorb(self, places: Places, values: Values) -> None:
        """Apply what the sums of rows, which were taken out of the switch, had beyond the last read."""
        cells = self._value_cells(places)
        gradients = values - self._last_sums[cells]
        self._last_sums[cells] = 0
        self._collected[cells] += gradients
        self._apply_gradients(places, gradients)

    def settle(self) -> None:
        # All replays are in: apply their sum, less the gradients that had been collected already.
        places = self._places_of_cells(np.flatnonzero(self._unsettled))
        cells = self._value_cells(places)
        values = self._unsettled[cells]
        self._unsettled[cells] = 0
        self._apply_gradients(places, values)

    def _apply_gradients(self, places: Places, values: Values) -> None:
        step = max(int(self._server.collectors[self._exchanges_of_job.start].step), 1)
        keys, dims = keys_at(self._share, places), self.dims(places)
        words, dim_of_word = np.array(values, np.uint32), dims.repeat(dims)
        for dim in self._server.dims.tolist():
            apply_all(self._server, self._job_index, dim, keys[dims == dim], words[dim_of_word == dim], step)
        for copies in self._copies_by_home:
            copies.marks[places[copies.marks[places] & GIVEN != 0]] |= CHANGED

    def _places_of_cells(self, cells: Places) -> Places:
        """Return the places of the rows in the share that have any of these cells, ascending."""
        ranges, cells = self._share.ranges, cells[cells < self._share.header.outside_cell]
        index = np.searchsorted(ranges.first_cell, cells, side="right") - 1
        rows_before = (cells - ranges.first_cell[index]) // ranges.stride[index]
        return np.unique(ranges.first_place[index] + rows_before)

    def restore(self) -> None:
        """Own all keys again, after the switch was lost with gradients that workers will replay."""
        self.reclaim(self._places_in_switch())
        for queues in (self._queues_of_reads, self._queues_of_publications):
            self._empty(queues)
        self._last_sums[:] = 0
        cells = np.flatnonzero(self._collected)
        # Workers also replay gradients that were collected, which are applied already.
        self._unsettled[cells] -= self._collected[cells]
        self._collected[cells] = 0
        for collection in self._job_collections:
            if collection.phase != IDLE:
                self._copies.marks[collection.places] &= ~QUEUED
                collection.phase = IDLE
        self.collector.n_in_flight = self.collector.n_wanted = self.collector.hold_reasons = 0

    def renew(self, epoch: int) -> None:
        if epoch == self.collector.epoch:
            return
        self.collector.epoch, self.collector.n_used_up = epoch, 0
        for slot, collection in enumerate(self._job_collections):
            collection.seq = WINDOW + slot  # turn 1, the first of an epoch

    @property
    def _job_collections(self) -> list[Collection]:
        return list(self._server.collections[self._slice_of_exchange(COLLECTIONS)])

    def copy_ages(self) -> CopyAges | None:
        collectors = self._server.collectors[self._exchanges_of_job]
        if not collectors.rpcs.any():
            return None
        counts = self._server.ages.reshape(-1, AGES)[self._exchanges_of_job].sum(axis=0)
        bins = np.flatnonzero(counts)
        limits = upper_age_of(bins).astype(np.int64).tolist()
        copies = dict(zip(limits, counts[bins].tolist(), strict=True))
        return CopyAges(
            copies,
            int(collectors.oldest_ns.max()),
            int(collectors.n_late.sum()),
            int(collectors.staleness[0]),
            int(collectors.rpcs.sum()),
        )


def warm(server: CollectServer) -> None:
    """Compile, or load from the cache, the functions whose first calls would otherwise delay requests."""
    store, no_places = CollectStore(server, int(server.jobs[0].job)), np.zeros(0, np.int64)
    store.begin_collecting(no_places, 0)
    store.settle()


@entry_point
def queue_keys(server: CollectServer, places: Places, keys: Keys, queues: Ints, now: int) -> None:
    server = as_ref(server)
    for i in range(len(places)):
        push_entry(server, int64(queues[i]), now, int64(places[i]), keys[i])
    server.header.due = 0


@entry_point
def apply_all(server: CollectServer, j: int, dim: int, keys: Keys, values: Words, step: int) -> None:
    server = as_ref(server)
    most = MAX_VALUES // max(dim, QUAD)
    for first in range(0, len(keys), most):
        count = min(most, len(keys) - first)
        end = first + count
        rows = values[first * dim : end * dim]
        apply_words(server, j, dim, keys[first:end], rows, count, (1 << count) - 1, step)
