"""The parameters of one job at a PS that owns all of them, also those whose copies are in the switch."""

from __future__ import annotations

import numpy as np

from foundation.compiled import entry_point
from foundation.protocol.codec import Keys, Values
from foundation.protocol.hashing import lanes_of
from foundation.protocol.header import LANES, WINDOW
from hosts.collect.collector import apply_words
from hosts.collect.schedule import push_entry, upper_age_of
from hosts.collect.state import AGES, CHANGED, COLLECTIONS, IDLE, QUEUED, Collection, Collector, CollectServer
from hosts.hotset.ps.store import OffloadingStore
from hosts.ps.share import Places, keys_at
from hosts.ps.store import CopyAges, ShareContents
from hosts.ps.values import AWAY
from nativekit.compile import int64
from nativekit.records import Ints, Words
from nativekit.reference import as_ref

BY_COMMAND, BY_MOVE = 1, 2
"""Reasons to pause collections, bits of `is_held`: the controller's command HOLD; keys leave the switch."""


class CollectStore(OffloadingStore):
    """A store that publishes copies and collects gradients; `replayed` is ignored."""

    def __init__(self, server: CollectServer, job: int, replayed: bool = False) -> None:
        super().__init__(server, job)
        self._server: CollectServer = server
        self._collected, self._unsettled = server.collected[self._j], server.unsettled[self._j]
        self._copies = server.copies[self._j]

    @property
    def collector(self) -> Collector:
        collector: Collector = self._server.collectors[self._j]
        return collector

    def hold(self, why: int) -> None:
        self.collector.is_held |= why

    def resume(self, why: int) -> None:
        if self.collector.is_held & why & BY_COMMAND:
            self._copies.read[:] = 0  # Do not count ages reached during the hold, when no worker read copies.
        self.collector.is_held &= ~why
        self._server.header.due = 0

    def contents(self) -> ShareContents:
        contents = super().contents()
        return contents._replace(sums=contents.sums + self._unsettled[self.locate(contents.keys)])

    def release(self, at: Places) -> Values:
        """Let the switch serve these keys from now on; return their values, which the caller publishes."""
        self._cells.updates[at] |= AWAY
        return self.values(at)

    def reclaim(self, at: Places) -> None:
        """Serve these keys from now on; the switch must have none of their gradients left."""
        self._cells.updates[at] &= AWAY - 1

    def begin_collecting(self, at: Places, now: int) -> None:
        """Queue keys, whose copies were published at `now` (ns), for collection."""
        self._copies.read[at], self._copies.change[at] = now, 0
        self._queue(at, now)

    def _queue(self, at: Places, now: int) -> None:
        at = at[self._copies.marks[at] & QUEUED == 0]
        keys = keys_at(self._share, at)
        lanes = lanes_of(keys).astype(np.int64)
        queued = self._server.queued[self._j * LANES : (self._j + 1) * LANES]
        if (queued + np.bincount(lanes, minlength=LANES)).max() > self._server.queues.shape[1]:
            # Some entries are of keys that have left the switch.
            self._empty_queues()
            self.requeue()
            return
        self._copies.marks[at] |= QUEUED
        queue_keys(self._server, self._j, at, keys, lanes, now)

    def _empty_queues(self) -> None:
        for q in range(self._j * LANES, (self._j + 1) * LANES):
            queued_places = self._server.queues["place"][q, : self._server.queued[q]]
            self._copies.marks[queued_places] &= ~QUEUED
            self._server.queued[q] = 0

    def requeue(self) -> None:
        """Queue all keys in the switch that are in no queue and no collection, due immediately."""
        self._queue(np.flatnonzero(self._cells.updates[: self._share.header.places] >= AWAY), 0)

    def restore_queues(self) -> None:
        self._copies.marks &= ~QUEUED
        self._server.queued[self._j * LANES : (self._j + 1) * LANES] = 0
        for collection in self._own_collections:
            collection.sent = 0
            if collection.phase != IDLE:
                live = [lane for lane in range(LANES) if int(collection.live) >> lane & 1]
                self._copies.marks[collection.places[live]] |= QUEUED
        self.requeue()

    def request_full_collection(self, now: int) -> None:
        """Request the collection of all gradients that the switch has added up to `now` (ns)."""
        self._empty_queues()
        at = np.flatnonzero(self._cells.updates[: self._share.header.places] >= AWAY)
        self.collector.wanted_at, self.collector.wanted = now + 1, len(at)
        # Keys in a collection that has read its sums before `now` are queued again when it ends.
        self.requeue()
        self._server.header.due = 0

    def absorb(self, at: Places, values: Values) -> None:
        """Apply gradients [n] that were taken out of the switch."""
        self._collected[at] += values
        self._apply(at, values)

    def settle(self) -> None:
        at = np.flatnonzero(self._unsettled)
        values = self._unsettled[at]
        self._unsettled[at] = 0
        self._apply(at, values)
        self._copies.marks[at] |= CHANGED

    def _apply(self, at: Places, values: Values) -> None:
        step = max(int(self.collector.step), 1)
        apply_all(self._server, self._j, keys_at(self._share, at), np.array(values, np.uint32), step)

    def restore(self) -> None:
        """Own all keys again, after the switch was lost with gradients that workers will replay."""
        super().restore()
        self._empty_queues()
        at = np.flatnonzero(self._collected)
        self._unsettled[at] -= self._collected[at]
        self._collected[at] = 0
        for collection in self._own_collections:
            if collection.phase != IDLE:
                self._copies.marks[collection.places] &= ~QUEUED
                collection.phase = IDLE
        self.collector.under_way = self.collector.wanted = self.collector.is_held = 0

    def renew(self, epoch: int) -> None:
        if epoch == self.collector.epoch:
            return
        self.collector.epoch = epoch
        for slot, collection in enumerate(self._own_collections):
            collection.seq = WINDOW + slot

    @property
    def _own_collections(self) -> list[Collection]:
        return list(self._server.collections[self._j * COLLECTIONS : (self._j + 1) * COLLECTIONS])

    def copy_ages(self) -> CopyAges | None:
        collector, counts = self.collector, self._server.ages[self._j * AGES : (self._j + 1) * AGES]
        if not collector.rpcs:
            return None
        bins = np.flatnonzero(counts)
        limits = upper_age_of(bins).astype(np.int64).tolist()
        copies = dict(zip(limits, counts[bins].tolist(), strict=True))
        return CopyAges(
            copies, int(collector.oldest), int(collector.late), int(collector.staleness), int(collector.rpcs)
        )


def warm(server: CollectServer) -> None:
    """Compile, or load from the cache, the functions whose first calls would otherwise delay requests."""
    store, no_places = CollectStore(server, int(server.jobs[0].job)), np.zeros(0, np.int64)
    store.begin_collecting(no_places, 0)
    store.settle()


@entry_point
def queue_keys(server: CollectServer, j: int, places: Places, keys: Keys, lanes: Ints, now: int) -> None:
    server = as_ref(server)
    for i in range(len(places)):
        push_entry(server, j * LANES + int64(lanes[i]), now, int64(places[i]), keys[i])
    server.header.due = 0


@entry_point
def apply_all(server: CollectServer, j: int, keys: Keys, values: Words, step: int) -> None:
    server = as_ref(server)
    for first in range(0, len(keys), LANES):
        count = min(LANES, len(keys) - first)
        part = keys[first : first + count], values[first : first + count]
        apply_words(server, j, part[0], part[1], count, (1 << count) - 1, step)
