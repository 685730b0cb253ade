"""SwitchML for the judge: one packet a chunk, a window, and one pass over chunks or several.

With several passes, workers begin the next one when they have all sums of the last, as in consecutive
all-reduces, and as in the second pass of `exact`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hotline_allreduce.judge.description import Description, JudgedSystem, Sendable, SentFrame, letter
from hotline_allreduce.switchml.model.rules import SwitchMLSwitchModel, SwitchMLWindowModel
from hotline_allreduce.switchml.packet import SwitchMLPacket

Windows = list[SwitchMLWindowModel]
"""A worker: its windows of the passes that it has begun."""


class SwitchMLDescription(Description):
    def __init__(
        self, workers: int = 2, window: int = 1, passes: Sequence[int] = (3,), check: bool = False
    ) -> None:
        self.name = "SwitchML with its check" if check else "SwitchML as published"
        self.workers, self.window, self.passes, self.check = workers, window, tuple(passes), check
        self.chunks = range(sum(passes))

    def system(self) -> JudgedSystem:
        switch = SwitchMLSwitchModel(self.workers, self.window, check=self.check)
        for entry in (entry for entries in switch.sets for entry in entries):
            entry.values = (0,)  # a value stands for all of a packet's
        return JudgedSystem(switch, [[self._window(0)] for _ in range(self.workers)])

    def _window(self, number: int) -> SwitchMLWindowModel:
        return SwitchMLWindowModel(sum(self.passes[:number]), self.passes[number], self.window)

    def sendable(self, host: int, state: Windows) -> Iterator[Sendable]:
        for window in state:
            for number in sorted({*window.outstanding, *window.results}):
                chunk = window.first + number
                packet = SwitchMLPacket(chunk, *window.slot_and_set(number), (self.addend(host, chunk),))
                yield Sendable(f"{letter(host)}{chunk}", (host, packet), is_late=number in window.results)

    def at_switch(self, system: JudgedSystem, packet: tuple[int, SwitchMLPacket]) -> Sequence[SentFrame]:
        worker, request = packet
        answer = system.switch.take(worker, request)
        if answer is None:
            return []
        return self.to_workers(answer.packet) if answer.is_multicast else [SentFrame(worker, answer.packet)]

    def at_host(self, system: JudgedSystem, host: int, packet: SwitchMLPacket) -> None:
        windows: Windows = system.hosts[host]
        for window in windows:
            window.take(packet)
        if windows[-1].is_done and len(windows) < len(self.passes):
            windows.append(self._window(len(windows)))

    def results(self, host: Windows) -> Mapping[Any, int]:
        return {
            window.first + number: result.values[0]
            for window in host
            for number, result in window.results.items()
        }

    def is_done(self, host: Windows) -> bool:
        return len(host) == len(self.passes) and host[-1].is_done


PUBLISHED, CHECKED = SwitchMLDescription(), SwitchMLDescription(check=True)
EXACT = SwitchMLDescription(passes=(2, 1), check=True)
"""Design `exact`: SwitchML's check, and a second pass that depends on the first one's sums."""
EXACT.name = "exact"
