"""Policies as plainly as they can be said: slow, and without any structure of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from controller.hotset.follow.selection import Rates, Rule, choose, smoothed, summed
from controller.hotset.migrate import WAVE
from controller.tables import SLOTS
from foundation.protocol.header import LANES
from nativekit.plain import plain
from studies.policies.log import Log
from studies.policies.rules import heavy_keeper, lfu, sketch, space_saving, w_tinylfu
from studies.policies.rules.hashing import mixed, reduced

hashed = plain(mixed)


def place_of(key: int, seed: int, size: int) -> int:
    return int(plain(reduced)(hashed(key, seed), size))


class Twin(Protocol):
    installs: int
    evictions: int

    def serve(self, key: int) -> bool: ...

    def turn(self) -> None: ...


class Kept:
    """Counts what comes into a set and leaves it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.installs = self.evictions = 0

    def turn(self) -> None:
        pass


class Lru(Kept):
    def __init__(self, log: Log, size: int) -> None:
        super().__init__(size)
        self.order: list[int] = []

    def serve(self, key: int) -> bool:
        hit = key in self.order
        if hit:
            self.order.remove(key)
        elif len(self.order) == self.size:
            self.order.pop()
            self.evictions += 1
        self.order.insert(0, key)
        self.installs += not hit
        return hit


class Lfu(Kept):
    """Keys and counts in the order in which they leave."""

    def __init__(self, log: Log, size: int, mean: int = lfu.MEAN) -> None:
        super().__init__(size)
        self.kept: list[tuple[int, int]] = []
        self.mean = mean

    def serve(self, key: int) -> bool:
        before = next((count for count, each in self.kept if each == key), 0)
        if before:
            self.kept.remove((before, key))
        elif len(self.kept) == self.size:
            self.kept.pop(0)
            self.evictions += 1
        self.installs += not before
        behind = sum(count <= before + 1 for count, _ in self.kept)
        self.kept.insert(behind, (before + 1, key))
        if 0 < self.mean * self.size < sum(count for count, _ in self.kept):
            self.kept = [(max(count // 2, 1), each) for count, each in self.kept]
        return bool(before)


class Sketched:
    """Counts without any sharing of rows but the sketch's own."""

    def __init__(self, size: int) -> None:
        self.size, self.seen = size, 0
        self.rows: list[Counter[int]] = [Counter() for _ in range(sketch.ROWS)]

    def _places(self, key: int) -> list[int]:
        return [place_of(key, row, 4 * self.size) for row in range(sketch.ROWS)]

    def note(self, key: int) -> None:
        for row, place in zip(self.rows, self._places(key), strict=True):
            row[place] = min(row[place] + 1, sketch.MOST)
        self.seen += 1
        if self.seen % (sketch.SAMPLE * self.size) == 0:
            self.rows = [Counter({place: n // 2 for place, n in row.items()}) for row in self.rows]

    def estimate(self, key: int) -> int:
        return min(row[place] for row, place in zip(self.rows, self._places(key), strict=True))


class TinyLfu(Kept):
    def __init__(self, log: Log, size: int) -> None:
        super().__init__(size)
        self.sketch, self.order = Sketched(size), list[int]()

    def serve(self, key: int) -> bool:
        self.sketch.note(key)
        hit = key in self.order
        if hit:
            self.order.remove(key)
        elif len(self.order) == self.size:
            if self.sketch.estimate(key) <= self.sketch.estimate(self.order[-1]):
                return False
            self.order.pop()
            self.evictions += 1
        self.order.insert(0, key)
        self.installs += not hit
        return hit


class WTinyLfu(Kept):
    def __init__(self, log: Log, size: int) -> None:
        super().__init__(size)
        self.sketch = Sketched(size)
        self.window, self.probation, self.protected = list[int](), list[int](), list[int]()
        self.rooms = w_tinylfu.rooms(size)

    def serve(self, key: int) -> bool:
        self.sketch.note(key)
        if key in self.window:
            self.window.remove(key)
            self.window.insert(0, key)
            return True
        for queue in (self.probation, self.protected):
            if key in queue:
                queue.remove(key)
                self.protected.insert(0, key)
                if len(self.protected) > self.rooms[2]:
                    self.probation.insert(0, self.protected.pop())
                return True
        self.installs += 1
        self.window.insert(0, key)
        if len(self.window) > self.rooms[0]:
            self._leave(self.window.pop())
        return False

    def _leave(self, candidate: int) -> None:
        if len(self.probation) + len(self.protected) < self.rooms[1]:
            self.probation.insert(0, candidate)
            return
        self.evictions += 1
        queue = self.probation or self.protected
        if queue and self.sketch.estimate(candidate) > self.sketch.estimate(queue[-1]):
            queue.pop()
            self.probation.insert(0, candidate)


class P4Lru(Kept):
    def __init__(self, log: Log, size: int) -> None:
        super().__init__(size)
        self.buckets: list[list[int]] = [[] for _ in range(max(size // 3, 1))]

    def serve(self, key: int) -> bool:
        bucket = self.buckets[place_of(key, 16, len(self.buckets))]
        hit = key in bucket
        if hit:
            bucket.remove(key)
        elif len(bucket) == min(3, self.size):
            bucket.pop()
            self.evictions += 1
        bucket.insert(0, key)
        self.installs += not hit
        return hit


class FirstCome(Kept):
    def __init__(self, log: Log, size: int) -> None:
        super().__init__(size)
        self.slots: dict[int, int] = {}

    def serve(self, key: int) -> bool:
        place = place_of(key, 17, self.size)
        hit = self.slots.get(place) == key
        self.installs += place not in self.slots
        self.slots.setdefault(place, key)
        return hit

    def turn(self) -> None:
        self.evictions += len(self.slots)
        self.slots.clear()


class Chosen(Kept, ABC):
    """Of a set that is chosen at the end of a period; who is new comes in with its next access."""

    def __init__(self, log: Log, size: int) -> None:
        super().__init__(size)
        self.wanted, self.hot = set[int](), set[int]()

    def serve(self, key: int) -> bool:
        hit = key in self.hot
        if key in self.wanted and not hit:
            self.hot.add(key)
            self.installs += 1
        self.count(key)
        return hit

    @abstractmethod
    def count(self, key: int) -> None: ...

    def choose(self, keys: Sequence[int]) -> None:
        self.wanted = set(keys)
        self.evictions += len(self.hot - self.wanted)
        self.hot &= self.wanted


class SpaceSaving(Chosen):
    def __init__(self, log: Log, size: int) -> None:
        super().__init__(log, size)
        self.counters: list[tuple[int, int]] = []

    def count(self, key: int) -> None:
        found = next((each for each in self.counters if each[1] == key), None)
        if found is None and len(self.counters) == space_saving.COUNTERS * self.size:
            found = self.counters[0]
        if found is not None:
            self.counters.remove(found)
        count = (found[0] if found else 0) + 1
        self.counters.insert(sum(each <= count for each, _ in self.counters), (count, key))

    def turn(self) -> None:
        self.choose([key for _, key in sorted((-count, key) for count, key in self.counters)][: self.size])
        self.counters = []


class HeavyKeeper(Chosen):
    def __init__(self, log: Log, size: int) -> None:
        super().__init__(log, size)
        self.rolled = 0
        self.cells: dict[tuple[int, int], tuple[int, int]] = {}

    def count(self, key: int) -> None:
        for row in range(heavy_keeper.ROWS):
            cell = row, place_of(key, 18 + row, self.size)
            held, count = self.cells.get(cell, (key, 0))
            if held == key:
                self.cells[cell] = key, count + 1
                continue
            self.rolled += 1
            if hashed(self.rolled, 32) < int(2**31 * heavy_keeper.BASE**-count):
                self.cells[cell] = (held, count - 1) if count > 1 else (key, 1)

    def turn(self) -> None:
        best: Counter[int] = Counter()
        for key, count in self.cells.values():
            best[key] = max(best[key], count)
        self.choose([key for _, key in sorted((-count, key) for key, count in best.items())][: self.size])
        self.cells = {}


class Window(Chosen):
    """`hotline follow`'s rule, by keys, as its own follower calls it."""

    def __init__(self, log: Log, size: int) -> None:
        super().__init__(log, size)
        self.log, self.counts, self.rates = log, Counter[int](), Rates.none()
        self.set: list[int] = []

    def count(self, key: int) -> None:
        self.counts[key] += 1

    def turn(self) -> None:
        # Logs of tests have fewer keys than are looked at.
        assert len(self.log.keys) < 2 * WAVE
        keys = sorted({*self.counts, *self.set})
        counts = np.array([self.counts[key] for key in keys], np.int64)
        self.rates = smoothed(self.rates, summed(self.log.keys[keys], counts))
        hot = self.log.keys[np.array(self.set, np.int64)]
        change = choose(self.rates, hot, Rule(self.size), [SLOTS] * LANES)
        self.set = np.searchsorted(self.log.keys, np.array(change.applied(hot.tolist()), np.uint64)).tolist()
        self.choose(self.set)
        self.counts.clear()


class Fixed(Kept):
    def __init__(self, log: Log, size: int) -> None:
        super().__init__(size)
        seen = log.accesses[: log.split].tolist()
        self.set = {key for _, key in sorted((-count, key) for key, count in Counter(seen).items())[:size]}

    def serve(self, key: int) -> bool:
        return key in self.set


class Optimum(Kept):
    """With all of the future; it begins with the seen keys that come soonest."""

    def __init__(self, log: Log, size: int) -> None:
        super().__init__(size)
        self.coming = log.accesses[log.split :].tolist()
        seen = set(log.accesses[: log.split].tolist())
        self.at = 0
        self.kept = set([key for key in OrderedDict.fromkeys(self.coming) if key in seen][:size])

    def _next(self, key: int) -> int:
        rest = self.coming[self.at :]
        return rest.index(key) if key in rest else len(self.coming)

    def serve(self, key: int) -> bool:
        self.at += 1
        hit = key in self.kept
        ordered = sorted((key for key in {*self.kept, key} if key in self.coming[self.at :]), key=self._next)
        after = set(ordered[: self.size])
        self.installs += len(after - self.kept)
        self.evictions += len(self.kept - after)
        self.kept = after
        return hit


TWINS: dict[str, Callable[[Log, int], Twin]] = {
    "belady": Optimum,
    "top-k": Fixed,
    "window": Window,
    "tinylfu": TinyLfu,
    "w-tinylfu": WTinyLfu,
    "lfu": Lfu,
    "lru": Lru,
    "p4-lru": P4Lru,
    "spacesaving": SpaceSaving,
    "heavykeeper": HeavyKeeper,
    "first-come": FirstCome,
}
