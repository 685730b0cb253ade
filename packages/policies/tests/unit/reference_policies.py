"""Reference implementations of the policies: slow and as simple as possible."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from controller.hotset.migrate import WAVE
from controller.hotset.selection import Rates, SwapRule, choose, smooth_rates, sum_by_key
from controller.sizes import SLOTS
from foundation.protocol.header import LANES
from hotline_policies.log import PolicyLog
from hotline_policies.rules import counters, frequency, future, hashed, queues
from hotline_policies.rules.hashed import hash_key, to_bucket
from nativekit.plain import plain

plain_hash, plain_bucket = plain(hash_key), plain(to_bucket)


@cache
def bucket_of(key: int, seed: int, size: int) -> int:
    return int(plain_bucket(plain_hash(key, seed), size))


@dataclass
class ReferenceCache(ABC):
    """A policy of `size` keys that counts its installs and evictions."""

    log: PolicyLog
    size: int
    installs: int = 0
    evictions: int = 0

    @abstractmethod
    def serve(self, key: int) -> bool: ...

    def end_period(self) -> None:
        return  # most policies have no periods


@dataclass
class Lru(ReferenceCache):
    order: list[int] = field(default_factory=list)

    def serve(self, key: int) -> bool:
        return self.use(self.order, self.size, key)

    def use(self, order: list[int], capacity: int, key: int) -> bool:
        hit = key in order
        if hit:
            order.remove(key)
        elif len(order) == capacity:
            if not self.admits(key, order[-1]):
                return False
            order.pop()
            self.evictions += 1
        order.insert(0, key)
        self.installs += not hit
        return hit

    def admits(self, key: int, last: int) -> bool:
        """Return whether a key takes the place of the last one."""
        return True


@dataclass
class Lfu(ReferenceCache):
    """LFU with a list of (count, key) in the order of eviction."""

    cached: list[tuple[int, int]] = field(default_factory=list)

    def serve(self, key: int) -> bool:
        before = next((count for count, each in self.cached if each == key), 0)
        if before:
            self.cached.remove((before, key))
        elif len(self.cached) == self.size:
            self.cached.pop(0)
            self.evictions += 1
        self.installs += not before
        position = sum(count <= before + 1 for count, _ in self.cached)
        self.cached.insert(position, (before + 1, key))
        if frequency.MAX_MEAN_COUNT * self.size < sum(count for count, _ in self.cached):
            self.cached = [(max(count // 2, 1), each) for count, each in self.cached]
        return bool(before)


class Sketched:
    """A count-min sketch with a counter per row and bucket."""

    def __init__(self, size: int) -> None:
        self.size, self.accesses = size, 0
        self.rows: list[Counter[int]] = [Counter() for _ in range(hashed.SKETCH_ROWS)]

    def _places(self, key: int) -> list[int]:
        return [bucket_of(key, row, 4 * self.size) for row in range(hashed.SKETCH_ROWS)]

    def note(self, key: int) -> None:
        for row, place in zip(self.rows, self._places(key), strict=True):
            row[place] = min(row[place] + 1, hashed.MAX_COUNT)
        self.accesses += 1
        if self.accesses % (hashed.ACCESSES_PER_KEY * self.size) == 0:
            self.rows = [Counter({place: n // 2 for place, n in row.items()}) for row in self.rows]

    def estimate(self, key: int) -> int:
        return min(row[place] for row, place in zip(self.rows, self._places(key), strict=True))


@dataclass
class TinyLfu(Lru):
    def __post_init__(self) -> None:
        self.sketch = Sketched(self.size)

    def serve(self, key: int) -> bool:
        self.sketch.note(key)
        return super().serve(key)

    def admits(self, key: int, last: int) -> bool:
        return self.sketch.estimate(key) > self.sketch.estimate(last)


@dataclass
class WTinyLfu(ReferenceCache):
    def __post_init__(self) -> None:
        self.sketch = Sketched(self.size)
        self.window, self.probation, self.protected = list[int](), list[int](), list[int]()
        self.capacities = frequency.segment_capacities(self.size)

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
                if len(self.protected) > self.capacities[2]:
                    self.probation.insert(0, self.protected.pop())
                return True
        self.installs += 1
        self.window.insert(0, key)
        if len(self.window) > self.capacities[0]:
            self._leave(self.window.pop())
        return False

    def _leave(self, candidate: int) -> None:
        if len(self.probation) + len(self.protected) < self.capacities[1]:
            self.probation.insert(0, candidate)
            return
        self.evictions += 1
        queue = self.probation or self.protected
        if queue and self.sketch.estimate(candidate) > self.sketch.estimate(queue[-1]):
            queue.pop()
            self.probation.insert(0, candidate)


@dataclass
class P4Lru(Lru):
    def __post_init__(self) -> None:
        self.buckets: list[list[int]] = [[] for _ in range(max(self.size // 3, 1))]

    def serve(self, key: int) -> bool:
        bucket = self.buckets[bucket_of(key, 16, len(self.buckets))]
        return self.use(bucket, min(3, self.size), key)


@dataclass
class FirstCome(ReferenceCache):
    slots: dict[int, int] = field(default_factory=dict)

    def serve(self, key: int) -> bool:
        place = bucket_of(key, 17, self.size)
        hit = self.slots.get(place) == key
        self.installs += place not in self.slots
        self.slots.setdefault(place, key)
        return hit

    def end_period(self) -> None:
        self.evictions += len(self.slots)
        self.slots.clear()


@dataclass
class ReferencePeriodicSet(ReferenceCache):
    """A set selected at the end of a period, whose new keys are installed with their next access."""

    pending: set[int] = field(default_factory=set)
    hot: set[int] = field(default_factory=set)

    def serve(self, key: int) -> bool:
        hit = key in self.hot
        if key in self.pending and not hit:
            self.hot.add(key)
            self.installs += 1
        self.count(key)
        return hit

    @abstractmethod
    def count(self, key: int) -> None: ...

    def choose(self, keys: Sequence[int]) -> None:
        self.pending = set(keys)
        self.evictions += len(self.hot - self.pending)
        self.hot &= self.pending


@dataclass
class SpaceSaving(ReferencePeriodicSet):
    counters: list[tuple[int, int]] = field(default_factory=list)

    def count(self, key: int) -> None:
        found = next((each for each in self.counters if each[1] == key), None)
        if found is None and len(self.counters) == counters.COUNTERS_PER_KEY * self.size:
            found = self.counters[0]
        if found is not None:
            self.counters.remove(found)
        count = (found[0] if found else 0) + 1
        self.counters.insert(sum(each <= count for each, _ in self.counters), (count, key))

    def end_period(self) -> None:
        self.choose([key for _, key in sorted((-count, key) for count, key in self.counters)][: self.size])
        self.counters = []


@dataclass
class HeavyKeeper(ReferencePeriodicSet):
    draws: int = 0
    cells: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def count(self, key: int) -> None:
        for row in range(counters.CELL_ROWS):
            cell = row, bucket_of(key, 18 + row, self.size)
            stored, count = self.cells.get(cell, (key, 0))
            if stored == key:
                self.cells[cell] = key, count + 1
                continue
            self.draws += 1
            if plain_hash(self.draws, 32) < int(2**31 * counters.BASE**-count):
                self.cells[cell] = (stored, count - 1) if count > 1 else (key, 1)

    def end_period(self) -> None:
        best: Counter[int] = Counter()
        for key, count in self.cells.values():
            best[key] = max(best[key], count)
        self.choose([key for _, key in sorted((-count, key) for key, count in best.items())][: self.size])
        self.cells = {}


@dataclass
class ReferenceWindow(ReferencePeriodicSet):
    """`hotline follow`'s rule over keys, called as its follower calls it."""

    counts: Counter[int] = field(default_factory=Counter)
    rates: Rates = field(default_factory=Rates.none)
    selected: list[int] = field(default_factory=list)

    def count(self, key: int) -> None:
        self.counts[key] += 1

    def end_period(self) -> None:
        # The logs of tests have so few keys that all of them are candidates.
        assert len(self.log.keys) < 2 * WAVE
        keys = sorted({*self.counts, *self.selected})
        counts = np.array([self.counts[key] for key in keys], np.int64)
        self.rates = smooth_rates(self.rates, sum_by_key(self.log.keys[keys], counts))
        hot = self.log.keys[np.array(self.selected, np.int64)]
        change = choose(self.rates, hot, SwapRule(self.size), [SLOTS] * LANES)
        self.selected = np.searchsorted(
            self.log.keys, np.array(change.apply_to(hot.tolist()), np.uint64)
        ).tolist()
        self.choose(self.selected)
        self.counts.clear()


@dataclass
class Fixed(ReferenceCache):
    def __post_init__(self) -> None:
        counts = Counter(self.log.accesses[: self.log.training_accesses].tolist())
        self.set = {key for _, key in sorted((-count, key) for key, count in counts.items())[: self.size]}

    def serve(self, key: int) -> bool:
        return key in self.set


@dataclass
class Optimum(ReferenceCache):
    """Belady's optimum with bypass, which begins with the keys seen before whose next access is soonest."""

    def __post_init__(self) -> None:
        self.coming = self.log.accesses[self.log.training_accesses :].tolist()
        seen = set(self.log.accesses[: self.log.training_accesses].tolist())
        self.at = 0
        self.cached = set([key for key in OrderedDict.fromkeys(self.coming) if key in seen][: self.size])

    def _next(self, key: int) -> int:
        rest = self.coming[self.at :]
        return rest.index(key) if key in rest else len(self.coming)

    def serve(self, key: int) -> bool:
        self.at += 1
        hit = key in self.cached
        ordered = sorted(
            (key for key in {*self.cached, key} if key in self.coming[self.at :]), key=self._next
        )
        after = set(ordered[: self.size])
        self.installs += len(after - self.cached)
        self.evictions += len(self.cached - after)
        self.cached = after
        return hit


@dataclass
class Fifo(ReferenceCache):
    queue: list[int] = field(default_factory=list)

    def serve(self, key: int) -> bool:
        if key in self.queue:
            return True
        if len(self.queue) == self.size:
            self.queue.pop(0)
            self.evictions += 1
        self.queue.append(key)
        self.installs += 1
        return False


@dataclass
class Sieve(ReferenceCache):
    """A list of [key, was accessed], the oldest first, and the index of the hand."""

    queue: list[tuple[int, bool]] = field(default_factory=list)
    hand: int = 0

    def serve(self, key: int) -> bool:
        keys = [each for each, _ in self.queue]
        if key in keys:
            self.queue[keys.index(key)] = key, True
            return True
        if len(self.queue) == self.size:
            while self.queue[self.hand % self.size][1]:
                self.queue[self.hand % self.size] = self.queue[self.hand % self.size][0], False
                self.hand += 1
            self.hand %= self.size
            self.queue.pop(self.hand)
            self.hand %= self.size  # the end of the list is its head: the hand then goes on at the tail
            if self.hand == len(self.queue):
                self.hand = 0
            self.evictions += 1
        self.queue.append((key, False))
        self.installs += 1
        return False


@dataclass
class S3Fifo(ReferenceCache):
    def __post_init__(self) -> None:
        self.places, self.main_places, self.ghost_places = queues.queue_capacities(self.size)
        self.small: dict[int, int] = {}
        self.main: dict[int, int] = {}
        self.ghost: list[int] = []
        self.is_full = False

    def serve(self, key: int) -> bool:
        for queue in (self.small, self.main):
            if key in queue:
                queue[key] = min(queue[key] + 1, 3)
                return True
        was_ghost = key in self.ghost
        if was_ghost:
            self.ghost.remove(key)
        while len(self.small) + len(self.main) == self.size:
            self.is_full = True
            if len(self.main) > self.main_places or not self.small:
                self.evict_main()
            else:
                self.evict_small()
        overflows = not self.is_full and len(self.small) >= self.places
        (self.main if was_ghost or overflows else self.small)[key] = 0
        self.installs += 1
        return False

    def evict_small(self) -> None:
        for key, count in list(self.small.items()):
            del self.small[key]
            if count < queues.MIN_ACCESSES_TO_MAIN:
                self.ghost = [*self.ghost, key][-self.ghost_places :] if self.ghost_places else []
                self.evictions += 1
                return
            self.main[key] = 0

    def evict_main(self) -> None:
        while True:
            key = next(iter(self.main))
            count = self.main.pop(key)
            if not count:
                self.evictions += 1
                return
            self.main[key] = count - 1


@dataclass
class Arc(ReferenceCache):
    """The paper's figure 4; lists begin with the key that was accessed longest ago."""

    t1: list[int] = field(default_factory=list)
    t2: list[int] = field(default_factory=list)
    b1: list[int] = field(default_factory=list)
    b2: list[int] = field(default_factory=list)
    target: float = 0.0

    def serve(self, key: int) -> bool:
        for queue in (self.t1, self.t2):
            if key in queue:
                queue.remove(key)
                self.t2.append(key)
                return True
        self.installs += 1
        if key in self.b1:
            self.target = min(self.target + max(len(self.b2) / len(self.b1), 1.0), self.size)
            self.replace(False)
            self.b1.remove(key)
            self.t2.append(key)
        elif key in self.b2:
            self.target = max(self.target - max(len(self.b1) / len(self.b2), 1.0), 0.0)
            self.replace(True)
            self.b2.remove(key)
            self.t2.append(key)
        else:
            self.make_room()
            self.t1.append(key)
        return False

    def make_room(self) -> None:
        everything = len(self.t1) + len(self.t2) + len(self.b1) + len(self.b2)
        if len(self.t1) + len(self.b1) == self.size:
            if self.b1:
                self.b1.pop(0)
                self.replace(False)
            else:
                self.t1.pop(0)
                self.evictions += 1
        elif everything >= self.size:
            if everything == 2 * self.size:
                self.b2.pop(0)
            if len(self.t1) + len(self.t2) == self.size:
                self.replace(False)

    def replace(self, is_in_b2: bool) -> None:
        if self.t1 and (len(self.t1) > self.target or (is_in_b2 and len(self.t1) == self.target)):
            self.b1.append(self.t1.pop(0))
        else:
            self.b2.append(self.t2.pop(0))
        self.evictions += 1


@dataclass
class Lirs(ReferenceCache):
    """The paper's section 3.2; lists end with the top of the stack or of the queue."""

    def __post_init__(self) -> None:
        self.places = max(1, self.size // 100)
        self.stack: list[int] = []
        self.queue: list[int] = []
        self.evicted: list[int] = []
        self.lirs: set[int] = set()

    def serve(self, key: int) -> bool:
        is_hit, was_in_stack = key in self.lirs or key in self.queue, key in self.stack
        self.installs += not is_hit
        self.stack = [*(each for each in self.stack if each != key), key]
        if key not in self.lirs:
            if key not in self.queue and len(self.lirs) < self.size - self.places:
                self.lirs.add(key)
            elif was_in_stack and self.size > self.places:
                self.forget(key)
                self.lirs.add(key)
                self.demote()
            else:
                self.forget(key)
                if not is_hit:
                    self.make_room()
                self.queue.append(key)
        self.prune()
        while len(self.stack) > 2 * self.size and self.evicted:
            self.stack.remove(self.evicted.pop(0))
        return is_hit

    def forget(self, key: int) -> None:
        for keys in (self.queue, self.evicted):
            if key in keys:
                keys.remove(key)

    def demote(self) -> None:
        """Replace the LIR key at the bottom of the stack, if there is one too many."""
        if len(self.lirs) > self.size - self.places:
            key = next(each for each in self.stack if each in self.lirs)
            self.lirs.remove(key)
            self.stack.remove(key)
            self.make_room()
            self.queue.append(key)

    def make_room(self) -> None:
        if len(self.queue) == self.places:
            key = self.queue.pop(0)
            self.evictions += 1
            if key in self.stack:
                self.evicted.append(key)

    def prune(self) -> None:
        while len(self.stack) > 1 and self.lirs and self.stack[0] not in self.lirs:
            self.forget_ghost(self.stack.pop(0))

    def forget_ghost(self, key: int) -> None:
        if key in self.evicted:
            self.evicted.remove(key)


@dataclass
class LookAhead(ReferenceCache):
    """The cached keys, the least recently used first; what is to come is looked up anew each time."""

    at: int = 0
    cached: list[int] = field(default_factory=list)

    def known_next(self, key: int) -> int | None:
        step = int(np.searchsorted(self.log.starts, self.at - 1, side="right")) - 1
        end = int(self.log.starts[min(step + 1 + future.KNOWN_STEPS, self.log.steps)])
        coming = self.log.accesses[self.at : end].tolist()
        return coming.index(key) if key in coming else None

    def serve(self, key: int) -> bool:
        self.at += 1
        if key in self.cached:
            self.cached.remove(key)
            self.cached.append(key)
            return True
        if len(self.cached) == self.size and not self.makes_room_for(key):
            return False
        self.cached.append(key)
        self.installs += 1
        return False

    def makes_room_for(self, key: int) -> bool:
        known = {each: at for each in [*self.cached, key] if (at := self.known_next(each)) is not None}
        unknown = [each for each in self.cached if each not in known]
        leaving = unknown[0] if unknown else max(self.cached, key=lambda each: known[each])
        if not unknown and known.get(key, self.log.steps + len(self.log.accesses)) > known[leaving]:
            return False
        self.cached.remove(leaving)
        self.evictions += 1
        return True


REFERENCES: dict[str, type[ReferenceCache]] = {
    "belady": Optimum,
    "top-k": Fixed,
    "window": ReferenceWindow,
    "tinylfu": TinyLfu,
    "w-tinylfu": WTinyLfu,
    "lfu": Lfu,
    "lru": Lru,
    "fifo": Fifo,
    "sieve": Sieve,
    "s3-fifo": S3Fifo,
    "arc": Arc,
    "lirs": Lirs,
    "look-ahead": LookAhead,
    "p4-lru": P4Lru,
    "spacesaving": SpaceSaving,
    "heavykeeper": HeavyKeeper,
    "first-come": FirstCome,
}
