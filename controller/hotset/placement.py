"""Choose hot rows in a switch that has rows of several dims: pure functions, no I/O.

A row takes one slot in all banks of its lane. If all rows have one dim, the numbers of free slots decide
whether a row fits (`selection`). Rows of several dims can leave free slots with different numbers in the
banks of a wider row, so here each arriving row gets its slot: a free one, or that of rows which together have
a lower rate of updates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from controller.hotset.quotas import ALL_SLOTS, Slots, slots_of
from controller.hotset.selection import HotSetChange, HotSetState, Rates, RuleChoice, SelectedKeys, SwapRule
from controller.tables import HotParam
from foundation.protocol.codec import Keys
from foundation.protocol.header import LANES
from foundation.protocol.rows import RowRanges, banks_of_row, dims_in, lanes_of_rows

Occupied: TypeAlias = NDArray[np.bool_]
"""Which slots of each bank are taken: [LANES, slots]."""
_FREE, _TAKEN = -1, -2


def occupied_by(rows: Sequence[HotParam], slots: int) -> Occupied:
    occupied = np.zeros((LANES, slots), np.bool_)
    for row in rows:
        occupied[row.bank : row.banks.stop, row.slot] = True
    return occupied


def in_slots(
    selected: HotSetState | RuleChoice, rows: Sequence[HotParam], occupied: Occupied
) -> SelectedKeys:
    """Return a selection that places its arriving rows; `rows` are those of its job in the switch.

    `occupied` has all rows of the switch. `choose` marks the slots of arriving rows in it, so that another
    job's selection does not take them in the same period.
    """
    if isinstance(selected, HotSetState):
        return _PlacedHotSet(selected, rows, occupied)
    return _PlacedRuleChoice(selected, rows, occupied)


class _PlacedHotSet(NamedTuple):
    """A hot set whose rows are replaced by rates."""

    state: HotSetState
    rows: Sequence[HotParam]
    occupied: Occupied

    def choose(self, room: Slots) -> HotSetChange:
        rates, _, rule, ranges = self.state
        others = self.occupied & ~occupied_by(self.rows, self.occupied.shape[1])
        change = choose_rows(rates, self.rows, rule, ranges, room, others)
        _mark(self.occupied, change, ranges)
        return change

    def wanted_slots(self) -> Slots:
        rates, _, rule, ranges = self.state
        alone = np.zeros_like(self.occupied)
        change = choose_rows(rates, self.rows, rule, ranges, ALL_SLOTS, alone)
        return slots_of(change.apply_to([row.key for row in self.rows]), ranges)


class _PlacedRuleChoice(NamedTuple):
    """The keys that a rule has chosen; those that find no slot wait for another period."""

    choice: RuleChoice
    rows: Sequence[HotParam]
    occupied: Occupied

    def choose(self, room: Slots) -> HotSetChange:
        change = self.choice.choose(room)
        leaving = set(change.leaving)
        left = occupied_by([row for row in self.rows if row.key in leaving], self.occupied.shape[1])
        places, slots = _Places(self.occupied & ~left, ALL_SLOTS), dict[int, int]()
        for key, banks in zip(change.filling, _banks_of(change.filling, self.choice.ranges), strict=True):
            if (slot := places.free_slot(banks)) is not None:
                places.put(_TAKEN, banks, slot, 0.0)
                slots[key] = slot
        change = replace(change, filling=tuple(slots), slots=slots)
        _mark(self.occupied, change, self.choice.ranges)
        return change

    def wanted_slots(self) -> Slots:
        return self.choice.wanted_slots()


def choose_rows(
    rates: Rates,
    hot: Sequence[HotParam],
    rule: SwapRule,
    ranges: RowRanges,
    room: Slots,
    others: Occupied,
) -> HotSetChange:
    """Return a change of a job's rows in the switch, with the slot of each arriving row.

    `room` has the number of slots of each bank that the job may take, and `others` the slots that other jobs
    have taken. Rows beyond the room leave, the coldest first. Of equal rates, smaller keys come first.
    """
    places = _Places(others, room)
    hot_keys = np.array([row.key for row in hot], np.uint64)
    hot_rates = rates.lookup(hot_keys)
    staying: dict[int, None] = {}  # indices of `hot`, the hottest first
    surplus: list[int] = []
    for k in np.lexsort((hot_keys, -hot_rates)).tolist():
        if len(staying) < rule.top_k and places.has_room(hot[k].banks):
            places.put(k, hot[k].banks, hot[k].slot, float(hot_rates[k]))
            staying[k] = None
        else:
            surplus.append(hot[k].key)
    is_cold = ~np.isin(rates.keys, hot_keys, assume_unique=True)
    slots: dict[int, int] = {}
    filling: list[int] = []
    waiting: list[_Arrival] = []
    for arrival in _rank_arrivals(rates.keys[is_cold], rates.rates[is_cold], ranges):
        is_full = len(staying) + len(filling) == rule.top_k
        slot = None if is_full else places.free_slot(arrival.banks)
        if slot is None:
            waiting.append(arrival)
        else:
            places.put(_TAKEN, arrival.banks, slot, arrival.rate)
            slots[arrival.key] = slot
            filling.append(arrival.key)
    swaps: list[tuple[int, int]] = []
    for arrival in waiting:
        if len(swaps) == rule.max_swaps:
            break
        slot = free_slot = places.free_slot(arrival.banks)
        if free_slot is None:
            slot, victims = places.cheapest_slot(arrival.banks)
            other_slot, coldest = _room_of_coldest(places, arrival.banks, hot, staying)
            if other_slot is not None and (
                slot is None or hot_rates[coldest].sum() < hot_rates[victims].sum()
            ):
                slot, victims = other_slot, coldest
        else:
            victims = [next(reversed(staying))] if staying else []
        if slot is None or not victims or not rule.beats(arrival.rate, float(hot_rates[victims].sum())):
            if free_slot is not None:
                break  # later arrivals have lower rates
            continue
        for victim in victims:
            places.remove(hot[victim].banks, hot[victim].slot)
            del staying[victim]
        places.put(_TAKEN, arrival.banks, slot, arrival.rate)
        slots[arrival.key] = slot
        swaps.append((arrival.key, hot[victims[0]].key))
        surplus += [hot[victim].key for victim in victims[1:]]
    return HotSetChange(tuple(swaps), tuple(filling), tuple(surplus), slots)


def _room_of_coldest(
    places: _Places, banks: range, hot: Sequence[HotParam], staying: Iterable[int]
) -> tuple[int | None, list[int]]:
    """Return a slot that is free in all these banks, and the coldest row whose leaving gives room in them.

    None if there is no such slot or row. A slot's number can be free while the job has no room in its bank.
    """
    lacking, slot = places.lacking(banks), places.empty_slot(banks)
    coldest = next((k for k in reversed(list(staying)) if lacking <= set(hot[k].banks)), None)
    return (None, []) if slot is None or coldest is None else (slot, [coldest])


class _Arrival(NamedTuple):
    key: int
    rate: float
    banks: range


def _rank_arrivals(keys: Keys, rates: NDArray[np.float64], ranges: RowRanges) -> list[_Arrival]:
    order = np.lexsort((keys, -rates))
    ranked = keys[order].tolist()
    return [
        _Arrival(key, rate, banks)
        for key, rate, banks in zip(ranked, rates[order].tolist(), _banks_of(ranked, ranges), strict=True)
    ]


def _banks_of(keys: Sequence[int], ranges: RowRanges) -> list[range]:
    """Return the banks of each key's row [n]."""
    key_array = np.array(keys, np.uint64)
    dims = dims_in(ranges, key_array)
    lanes, banks = lanes_of_rows(key_array, dims), [banks_of_row(dim) for dim in dims.tolist()]
    return [range(lane * n, (lane + 1) * n) for lane, n in zip(lanes.tolist(), banks, strict=True)]


def _mark(occupied: Occupied, change: HotSetChange, ranges: RowRanges) -> None:
    for (_, slot), banks in zip(change.slots.items(), _banks_of(list(change.slots), ranges), strict=True):
        occupied[banks.start : banks.stop, slot] = True


class _Places:
    """The slots of the switch, and the rows of one job in them."""

    def __init__(self, others: Occupied, room: Slots) -> None:
        self._row_at = np.where(others, _TAKEN, _FREE)  # the index of a row that may be replaced
        self._rate_at = np.zeros(others.shape)  # of the row at each slot
        self._banks_at = np.ones(others.shape, np.int64)  # number of banks of that row
        self._room = room.copy()
        """Number of slots of each bank that the job may take beside those it has."""

    def has_room(self, banks: range) -> bool:
        return bool(self._room[banks.start : banks.stop].min() > 0)

    def put(self, row: int, banks: range, slot: int, rate: float) -> None:
        """Put a row into a free slot; `row` is _TAKEN if it must not be replaced."""
        cells = slice(banks.start, banks.stop), slot
        self._row_at[cells], self._rate_at[cells], self._banks_at[cells] = row, rate, len(banks)
        self._room[cells[0]] -= 1

    def remove(self, banks: range, slot: int) -> None:
        cells = slice(banks.start, banks.stop), slot
        self._row_at[cells], self._rate_at[cells], self._banks_at[cells] = _FREE, 0.0, 1
        self._room[cells[0]] += 1

    def free_slot(self, banks: range) -> int | None:
        """Return the lowest slot that is free in all these banks, or None without room or such a slot."""
        return self.empty_slot(banks) if self.has_room(banks) else None

    def empty_slot(self, banks: range) -> int | None:
        """Return the lowest slot that no row has in any of these banks, or None."""
        is_free = (self._row_at[banks.start : banks.stop] == _FREE).all(axis=0)
        return int(is_free.argmax()) if is_free.any() else None

    def lacking(self, banks: range) -> set[int]:
        """Return those of these banks in which the job may take no further slot."""
        return {bank for bank in banks if self._room[bank] <= 0}

    def cheapest_slot(self, banks: range) -> tuple[int | None, list[int]]:
        """Return the slot whose rows in these banks have the lowest total rate, and these rows.

        Where the job has no room left, only a slot counts that gives back one of its own in that bank.
        """
        cells = slice(banks.start, banks.stop)
        row_at = self._row_at[cells]
        is_own = row_at >= 0
        fits = is_own | ((row_at == _FREE) & (self._room[cells] > 0)[:, np.newaxis])
        is_candidate = fits.all(axis=0) & is_own.any(axis=0)
        if not is_candidate.any():
            return None, []
        # Each row's rate is divided by the number of these banks that it is in; the numbers are powers of 2.
        parts = self._rate_at[cells] / np.minimum(self._banks_at[cells], len(banks))
        slot = int(np.where(is_candidate, parts.sum(axis=0), np.inf).argmin())
        return slot, sorted({row for row in row_at[:, slot].tolist() if row >= 0})
