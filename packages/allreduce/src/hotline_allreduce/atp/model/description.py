"""ATP for the judge: workers add up tensors, one after the other, at one switch and one server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hotline_allreduce.atp.model.rules import AtpSwitchModel, AtpWindowModel, ServerModel
from hotline_allreduce.atp.packet import RESEND, VALUES, AtpPacket
from hotline_allreduce.judge.description import SERVER, SWITCH, Description, Sendable, SentFrame, letter

APP = 1  # number of the only job
AtpChunkId = tuple[int, int]
"""A tensor, and a sequence number in it, both from 1 on."""


@dataclass
class AtpHost:
    window: AtpWindowModel  # of the tensor that the worker is at
    earlier_sums: dict[AtpChunkId, int] = field(default_factory=dict)


class AtpDescription(Description):
    name = "ATP"

    def __init__(
        self, workers: int = 2, window: int = 1, chunks: int = 1, tensors: int = 2, check: bool = False
    ) -> None:
        self.workers, self.window, self.chunks, self.tensors = workers, window, chunks, tensors
        self.check = check

    def nodes(self) -> Sequence[AtpSwitchModel | ServerModel]:
        switch = AtpSwitchModel(cells=self.window, check=self.check)
        for cell in switch.memory:
            cell.values = ()  # a value stands for all of a packet's
        return [switch, ServerModel(check=self.check)]

    def host(self, worker: int) -> AtpHost:
        return AtpHost(self._window(1))

    def _window(self, tensor: int) -> AtpWindowModel:
        window = AtpWindowModel(key=tensor, total=self.chunks, places=list(range(self.window)))
        window.send()
        return window

    def addend(self, worker: int, chunk: AtpChunkId) -> int:
        """Return a worker's addend in a packet: a distinct power of two, so that a sum shows its addends."""
        # A worker has 6 bits, for up to three tensors of two packets.
        tensor, sequence = chunk
        return 1 << 6 * worker + 2 * (tensor - 1) + sequence - 1

    def sendable(self, worker: int, host: AtpHost) -> Iterator[Sendable]:
        window = host.window
        for tensor in range(1, window.key + 1):
            for sequence in range(1, (window.last_sent if tensor == window.key else self.chunks) + 1):
                name = f"{letter(worker)}{tensor}.{sequence}"
                is_late = tensor < window.key or sequence in window.results
                for is_resent in (False, True):
                    packet = AtpPacket(
                        bitmap=1 << worker, workers=self.workers, app=APP, sequence=sequence,
                        cell=(sequence - 1) % self.window, values=(self.addend(worker, (tensor, sequence)),),
                        key=tensor, length=self.chunks * VALUES, flags=RESEND * is_resent,
                    )  # fmt: skip
                    yield Sendable(name, packet, is_late, is_resent, is_first_copy=not is_resent)

    def at_node(
        self, nodes: Sequence[AtpSwitchModel | ServerModel], index: int, packet: AtpPacket
    ) -> list[SentFrame]:
        node = nodes[index]
        if isinstance(node, ServerModel):
            answer = node.take(packet)
            return [SentFrame(False, SWITCH, answer)] if answer else []
        output = node.take(packet)
        if output is None:
            return []
        if not output.is_multicast:
            return [SentFrame(False, SERVER, output.packet)]
        return [SentFrame(True, worker, output.packet) for worker in range(self.workers)]

    def at_host(self, host: AtpHost, packet: AtpPacket) -> None:
        host.window.take(packet)
        if host.window.is_done and host.window.key < self.tensors:
            host.earlier_sums = dict(self.results(host))
            host.window = self._window(host.window.key + 1)
        host.window.send()

    def results(self, host: AtpHost) -> Mapping[AtpChunkId, int]:
        sums = {(host.window.key, sequence): values[0] for sequence, values in host.window.results.items()}
        return host.earlier_sums | sums

    def expected_sum(self, chunk: AtpChunkId) -> int:
        return sum(self.addend(worker, chunk) for worker in range(self.workers))

    def is_done(self, host: AtpHost) -> bool:
        return host.window.key == self.tensors and host.window.is_done

    def has_leak(self, nodes: Sequence[AtpSwitchModel | ServerModel]) -> bool:
        switch = nodes[SWITCH]
        assert isinstance(switch, AtpSwitchModel)
        return any(cell.owner for cell in switch.memory)

    def node_lines(self, nodes: Sequence[AtpSwitchModel | ServerModel]) -> Iterator[str]:
        switch, server = nodes
        assert isinstance(switch, AtpSwitchModel) and isinstance(server, ServerModel)
        for number, cell in enumerate(switch.memory):
            owner = f"owner: packet {cell.owner & 0xFFFF}" if cell.owner else "no owner"
            yield f"cell {number}: {owner}; bits {self._letters(cell.bitmap)}; count {cell.count}"
        for sequence, chunk in enumerate(server.tensor.chunks, 1):
            yield f"server, {server.tensor.key}.{sequence}: bits {self._letters(chunk.bitmap)}"

    def _letters(self, bitmap: int) -> str:
        return ", ".join(letter(w) for w in range(self.workers) if bitmap >> w & 1) or "none"

    def addends_of(self, total: int) -> str:
        chunks = [(tensor + 1, s + 1) for tensor in range(self.tensors) for s in range(self.chunks)]
        addends = ((w, chunk) for w in range(self.workers) for chunk in chunks)
        names = [f"{letter(w)}{c[0]}.{c[1]}" for w, c in addends if total & self.addend(w, c)]
        return " + ".join(names) or "nothing"

    def host_line(self, host: AtpHost) -> str:
        window = host.window
        waits = [s for s in range(window.last_in_order + 1, window.last_sent + 1) if s not in window.results]
        return f"waits for {', '.join(f'{window.key}.{s}' for s in waits)}" if waits else "has all sums"
