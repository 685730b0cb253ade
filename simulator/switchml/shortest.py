"""The shortest schedules in which the published rules give a wrong sum: looked for breadth first, in the
model.

`python -m simulator.switchml.shortest` prints them, and whether the check of the chunk's number mends
them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import NamedTuple

from hosts.switchml.packet import VALUES, SwitchMLPacket
from simulator.switchml.rules import Switch
from simulator.switchml.window import Window

CHUNKS = 3
LONGEST = 8


class Arrival(NamedTuple):
    """A packet comes to the switch."""

    worker: int
    chunk: int
    is_late: bool
    """A copy of one whose result its worker has already."""

    def __str__(self) -> str:
        return f"{'late ' if self.is_late else ''}{chr(ord('A') + self.worker)}{self.chunk}"


class State(NamedTuple):
    """After some arrivals. Answers are taken at once."""

    switch: Switch
    windows: tuple[Window, ...]
    arrivals: tuple[Arrival, ...] = ()

    @property
    def key(self) -> Hashable:
        """Equal where the same may happen from here on."""
        entries = [
            (each.bitmap, each.missing, each.values[0], each.number)
            for entries in self.switch.sets
            for each in entries
        ]
        taken = [tuple(sorted((n, r.values[0]) for n, r in each.results.items())) for each in self.windows]
        return tuple(entries), tuple(taken)


def addend(worker: int, chunk: int) -> int:
    """What a worker adds in a chunk: every sum of these tells what is in it."""
    return 1 << (8 * worker + 2 * chunk)


def request(window: Window, worker: int, chunk: int) -> SwitchMLPacket:
    """What it sends for that."""
    return SwitchMLPacket(chunk, *window.place(chunk), values=(addend(worker, chunk),) * VALUES)


def shortest(
    workers: int = 2, window: int = 1, check: bool = False, longest: int = LONGEST
) -> list[tuple[Arrival, ...]]:
    """Schedules of the least number of arrivals after which a worker has a wrong sum; none if it takes more
    than `longest`. Of beginnings that leave the same state there is the first."""
    windows = tuple(Window(0, CHUNKS, window) for _ in range(workers))
    states = [State(Switch(workers, window, check=check), windows)]
    seen = {states[0].key}
    for _ in range(longest):
        after = [each for state in states for each in _next(state)]
        wrong = [each.arrivals for each in after if any(is_wrong(one, workers) for one in each.windows)]
        if wrong:
            return wrong
        states = []
        for each in after:
            if each.key not in seen:
                seen.add(each.key)
                states.append(each)
    return []


def _next(state: State) -> Iterator[State]:
    for worker, window in enumerate(state.windows):
        for chunk in sorted({*window.outstanding, *window.results}):
            switch, windows = _copy(state.switch), tuple(map(_copy_window, state.windows))
            answer = switch.take(worker, request(window, worker, chunk))
            if answer is not None:
                for each in windows if answer.is_multicast else (windows[worker],):
                    each.take(answer.packet)
            arrival = Arrival(worker, chunk, chunk in window.results)
            yield State(switch, windows, (*state.arrivals, arrival))


def is_wrong(window: Window, workers: int) -> bool:
    """Whether a worker has a sum that is not that of all workers."""
    return any(
        result.values[0] != sum(addend(worker, chunk) for worker in range(workers))
        for chunk, result in window.results.items()
    )


def _copy(switch: Switch) -> Switch:
    copy = replace(switch)
    copy.sets = ([replace(each) for each in switch.sets[0]], [replace(each) for each in switch.sets[1]])
    return copy


def _copy_window(window: Window) -> Window:
    copy = replace(window, results=dict(window.results))
    copy.outstanding = set(window.outstanding)
    return copy


if __name__ == "__main__":
    for check in (False, True):
        found = shortest(check=check)
        print(f"{'with' if check else 'without'} the check, of at most {LONGEST} arrivals:")
        for arrivals in found:
            print("    " + ", ".join(map(str, arrivals)))
        if not found:
            print("    no sum is wrong")
