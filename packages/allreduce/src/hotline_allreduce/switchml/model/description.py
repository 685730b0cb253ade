"""SwitchML for the judge: one packet a chunk, a window, and one pass over chunks or several.

With several passes, workers begin the next one when they have all sums of the last, as in consecutive
all-reduces, and as in the second pass of `exact`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hotline_allreduce.judge.description import SWITCH, Description, Sendable, SentFrame, letter
from hotline_allreduce.switchml.model.rules import SwitchMLSwitchModel, SwitchMLWindowModel
from hotline_allreduce.switchml.packet import SwitchMLPacket

_NO_SUM = (0,)


class SwitchMLDescription(Description):
    name = "SwitchML"

    def __init__(
        self, workers: int = 2, window: int = 1, passes: Sequence[int] = (3,), check: bool = False
    ) -> None:
        self.workers, self.window, self.passes, self.check = workers, window, tuple(passes), check

    def nodes(self) -> Sequence[SwitchMLSwitchModel]:
        switch = SwitchMLSwitchModel(self.workers, self.window, check=self.check)
        for entry in (entry for entries in switch.sets for entry in entries):
            entry.values = _NO_SUM  # a value stands for all of a packet's
        return [switch]

    def host(self, worker: int) -> list[SwitchMLWindowModel]:
        return [self._window(0)]

    def _window(self, number: int) -> SwitchMLWindowModel:
        return SwitchMLWindowModel(sum(self.passes[:number]), self.passes[number], self.window)

    def addend(self, worker: int, chunk: int) -> int:
        """Return the value that a worker adds in a chunk; different sets of addends have different sums."""
        # A worker has 8 bits, and a chunk 2 of them, so that a value added twice shows.
        return 1 << (8 * worker + 2 * chunk)

    def sendable(self, worker: int, host: list[SwitchMLWindowModel]) -> Iterator[Sendable]:
        for window in host:
            for number in sorted({*window.outstanding, *window.results}):
                chunk = window.first + number
                packet = SwitchMLPacket(chunk, *window.slot_and_set(number), (self.addend(worker, chunk),))
                name = f"{letter(worker)}{chunk}"
                yield Sendable(name, (worker, packet), is_late=number in window.results)

    def at_node(
        self, nodes: Sequence[SwitchMLSwitchModel], index: int, packet: tuple[int, SwitchMLPacket]
    ) -> Iterable[SentFrame]:
        worker, request = packet
        answer = nodes[SWITCH].take(worker, request)
        if answer is None:
            return []
        receivers = range(self.workers) if answer.is_multicast else [worker]
        return [SentFrame(True, each, answer.packet) for each in receivers]

    def at_host(self, host: list[SwitchMLWindowModel], packet: SwitchMLPacket) -> None:
        for window in host:
            window.take(packet)
        if host[-1].is_done and len(host) < len(self.passes):
            host.append(self._window(len(host)))

    def results(self, host: list[SwitchMLWindowModel]) -> Mapping[Any, int]:
        return {
            window.first + number: result.values[0]
            for window in host
            for number, result in window.results.items()
        }

    def expected_sum(self, chunk: int) -> int:
        return sum(self.addend(worker, chunk) for worker in range(self.workers))

    def is_done(self, host: list[SwitchMLWindowModel]) -> bool:
        return len(host) == len(self.passes) and host[-1].is_done

    def node_lines(self, nodes: Sequence[SwitchMLSwitchModel]) -> Iterator[str]:
        for slot in range(self.window):
            for set_, entries in enumerate(nodes[SWITCH].sets):
                entry = entries[slot]
                bits = [letter(worker) for worker in range(self.workers) if entry.bitmap >> worker & 1]
                yield (
                    f"slot {slot}, set {set_}: bits {', '.join(bits) or 'none'}; "
                    f"{entry.missing_workers} to come; sum of {self.addends_of(entry.values[0])}"
                )

    def addends_of(self, total: int) -> str:
        """Return the addends of a sum, by their packets' names."""
        chunks, names = range(sum(self.passes)), []
        for worker in range(self.workers):
            for chunk in chunks:
                count = total // self.addend(worker, chunk) & 3
                names += [f"{letter(worker)}{chunk}"] * count
        return " + ".join(names) or "nothing"

    def host_line(self, host: list[SwitchMLWindowModel]) -> str:
        chunks = [str(host[-1].first + number) for number in sorted(host[-1].outstanding)]
        return f"waits for chunk {', '.join(chunks)}" if chunks else "has all sums"


PUBLISHED, CHECKED = SwitchMLDescription(), SwitchMLDescription(check=True)
EXACT = SwitchMLDescription(passes=(2, 1), check=True)
"""Design `exact`: SwitchML's check, and a second pass that depends on the first one's sums."""
