"""ATP for the judge: workers add up tensors, one after the other, at one switch and one server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hotline_allreduce.atp.model.rules import AtpSwitchModel, AtpWindowModel, Output, ServerModel
from hotline_allreduce.atp.packet import RESEND, VALUES, AtpPacket
from hotline_allreduce.judge.description import SERVER, Description, JudgedSystem, Sendable, SentFrame, letter

APP = 1  # number of the only job


Windows = list[AtpWindowModel]
"""A worker: its windows of the tensors that it has begun."""


class AtpDescription(Description):
    def __init__(
        self, workers: int = 2, window: int = 1, packets: int = 1, tensors: int = 2, check: bool = False
    ) -> None:
        self.workers, self.window, self.packets, self.tensors = workers, window, packets, tensors
        self.check, self.name = check, "ATP with its check" if check else "ATP as published"
        self.chunks = [f"{tensor + 1}.{n + 1}" for tensor in range(tensors) for n in range(packets)]

    def system(self) -> JudgedSystem:
        switch = AtpSwitchModel(cells=self.window, check=self.check)
        for cell in switch.memory:
            cell.values = ()  # a value stands for all of a packet's
        return JudgedSystem(
            switch, [[self._window(1)] for _ in range(self.workers)], ServerModel(check=self.check)
        )

    def _window(self, tensor: int) -> AtpWindowModel:
        window = AtpWindowModel(key=tensor, total=self.packets, places=list(range(self.window)))
        window.send()
        return window

    def sendable(self, host: int, state: Windows) -> Iterator[Sendable]:
        for window in state:
            for sequence in range(1, window.last_sent + 1):
                name, is_late = f"{window.key}.{sequence}", sequence in window.results
                first_copy = AtpPacket(
                    bitmap=1 << host, workers=self.workers, app=APP, sequence=sequence,
                    cell=(sequence - 1) % self.window, values=(self.addend(host, name),),
                    key=window.key, length=self.packets * VALUES,
                )  # fmt: skip
                yield Sendable(letter(host) + name, first_copy, is_late, is_single=True)
                yield Sendable(f"resent {letter(host)}{name}", first_copy._replace(flags=RESEND), is_late)

    def at_switch(self, system: JudgedSystem, packet: AtpPacket) -> list[SentFrame]:
        output: Output | None = system.switch.take(packet)
        if output is None:
            return []
        return self.to_workers(output.packet) if output.is_multicast else [SentFrame(SERVER, output.packet)]

    def at_server(self, system: JudgedSystem, packet: AtpPacket) -> list[SentFrame]:
        answer = system.server.take(packet)
        return self.at_switch(system, answer) if answer else []

    def at_host(self, system: JudgedSystem, host: int, packet: AtpPacket) -> None:
        window: AtpWindowModel = system.hosts[host][-1]
        window.take(packet)
        window.send()
        if window.is_done and window.key < self.tensors:
            system.hosts[host].append(self._window(window.key + 1))

    def results(self, host: Windows) -> Mapping[Any, int]:
        return {
            f"{window.key}.{sequence}": values[0]
            for window in host
            for sequence, values in window.results.items()
        }

    def is_done(self, host: Windows) -> bool:
        return len(host) == self.tensors and host[-1].is_done

    def has_leak(self, system: JudgedSystem) -> bool:
        return any(cell.owner for cell in system.switch.memory)
