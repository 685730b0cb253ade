"""Search for shortest schedules with a wrong sum: `python -m hotline_allreduce.switchml.model.shortest`."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import NamedTuple

from hotline_allreduce.switchml.model.rules import SwitchMLSwitchModel, SwitchMLWindowModel
from hotline_allreduce.switchml.packet import VALUES, SwitchMLPacket

CHUNKS = 3
MAX_ARRIVALS = 8


class Arrival(NamedTuple):
    worker: int
    chunk: int
    is_late: bool  # whether it is a copy of a packet whose result its worker already has

    def __str__(self) -> str:
        return f"{'late ' if self.is_late else ''}{chr(ord('A') + self.worker)}{self.chunk}"


class SwitchMLSearchState(NamedTuple):
    switch: SwitchMLSwitchModel
    windows: tuple[SwitchMLWindowModel, ...]
    arrivals: tuple[Arrival, ...] = ()

    @property
    def key(self) -> Hashable:
        """Hash key, equal for states that react equally to all further arrivals."""
        entries = [
            (entry.bitmap, entry.missing_workers, entry.values[0], entry.number)
            for entries in self.switch.sets
            for entry in entries
        ]
        results = [
            tuple(sorted((chunk, result.values[0]) for chunk, result in window.results.items()))
            for window in self.windows
        ]
        return tuple(entries), tuple(results)


def addend(worker: int, chunk: int) -> int:
    """Return the value that a worker adds in a chunk; different sets of addends have different sums."""
    # A worker has 8 bits, and a chunk 2 of them, so that a value added twice shows.
    return 1 << (8 * worker + 2 * chunk)


def request(window: SwitchMLWindowModel, worker: int, chunk: int) -> SwitchMLPacket:
    return SwitchMLPacket(chunk, *window.slot_and_set(chunk), values=(addend(worker, chunk),) * VALUES)


def shortest_counterexamples(
    workers: int = 2, window: int = 1, check: bool = False, max_arrivals: int = MAX_ARRIVALS
) -> list[tuple[Arrival, ...]]:
    """Return the shortest schedules with a wrong sum; [] if none has at most `max_arrivals` arrivals."""
    windows = tuple(SwitchMLWindowModel(first=0, total=CHUNKS, window=window) for _ in range(workers))
    states = [SwitchMLSearchState(SwitchMLSwitchModel(workers, window, check=check), windows)]
    seen_keys = {states[0].key}
    for _ in range(max_arrivals):
        successors = [successor for state in states for successor in _successors(state)]
        wrong_schedules = [
            successor.arrivals
            for successor in successors
            if any(is_wrong(window_after, workers) for window_after in successor.windows)
        ]
        if wrong_schedules:
            return wrong_schedules
        states = []
        for successor in successors:
            if successor.key not in seen_keys:
                seen_keys.add(successor.key)
                states.append(successor)
    return []


def _successors(state: SwitchMLSearchState) -> Iterator[SwitchMLSearchState]:
    for worker, window in enumerate(state.windows):
        for chunk in sorted({*window.outstanding, *window.results}):
            switch, windows = _copy_switch(state.switch), tuple(map(_copy_window, state.windows))
            answer = switch.take(worker, request(window, worker, chunk))
            if answer is not None:
                for receiver in windows if answer.is_multicast else (windows[worker],):
                    receiver.take(answer.packet)
            arrival = Arrival(worker, chunk, chunk in window.results)
            yield SwitchMLSearchState(switch, windows, (*state.arrivals, arrival))


def is_wrong(window: SwitchMLWindowModel, workers: int) -> bool:
    return any(
        result.values[0] != sum(addend(worker, chunk) for worker in range(workers))
        for chunk, result in window.results.items()
    )


def _copy_switch(switch: SwitchMLSwitchModel) -> SwitchMLSwitchModel:
    copy = replace(switch)
    copy.sets = ([replace(each) for each in switch.sets[0]], [replace(each) for each in switch.sets[1]])
    return copy


def _copy_window(window: SwitchMLWindowModel) -> SwitchMLWindowModel:
    copy = replace(window, results=dict(window.results))
    copy.outstanding = set(window.outstanding)
    return copy


if __name__ == "__main__":
    for check in (False, True):
        schedules = shortest_counterexamples(check=check)
        print(f"schedules {'with' if check else 'without'} the check, of at most {MAX_ARRIVALS} arrivals:")
        for arrivals in schedules:
            print("    " + ", ".join(map(str, arrivals)))
        if not schedules:
            print("    no sum is wrong")
