"""A switch in this process that takes commands: a program, interpreted, with ports that forward nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from softswitch.commands.shell import Shell
from softswitch.errors import SwitchError
from softswitch.hashing import Crc
from softswitch.interpreter import InterpretedPipeline
from softswitch.p4runtime.messages import adopt
from softswitch.p4runtime.pipelines import Pipelines
from softswitch.runtime.device import SwitchRuntime
from switch_harness.p4runtime import CONTROL, Control, FakePorts, config


class DevicePorts(FakePorts):
    def __init__(self) -> None:
        super().__init__()
        self.interfaces = {1: "s1-eth1", 2: "s1-eth2"}
        self.calls: list[tuple[Any, ...]] = []

    def names(self) -> dict[int, str]:
        return dict(self.interfaces)

    def is_up(self, port: int) -> bool:
        return port == 1

    def add(self, port: int, interface: str) -> None:
        self.interfaces[port] = interface

    def remove(self, port: int) -> None:
        del self.interfaces[port]

    def set_queues(self, port: int | None, priority: int | None, rate: int | None, depth: int | None) -> None:
        self.calls.append((port, priority, rate, depth))

    def set_crc(self, calculation: str, crc: Crc) -> None:
        self.calls.append((calculation, crc))


class ShellSwitch(AbstractContextManager["ShellSwitch"]):
    """A switch with a command shell, whose program has a P4Info or not."""

    def __init__(self, program: Path = CONTROL, p4info: bool = False) -> None:
        self.ports = DevicePorts()
        self.pipelines = Pipelines[Any](self.ports, InterpretedPipeline, lambda _: None)
        if p4info:
            self.pipelines.load(adopt(config(program=program)))
        else:
            self.pipelines.load_bare(program.with_suffix(".json").read_bytes())
        self.runtime = SwitchRuntime[Any](self.pipelines, self.ports, 1)
        self.output: list[str] = []
        self.shell = Shell(self.runtime, self.output.append)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.ports.close()

    def ports_of(self, frame: bytes) -> list[int]:
        return [output.port for output in self.pipeline.process(1, frame, 0, 0)]

    @property
    def pipeline(self) -> Any:
        return self.ports.started[-1]

    @property
    def control(self) -> Control:
        """What commands are about."""
        return self.runtime.control()

    def does(self, *lines: str) -> list[str]:
        """Do commands; what the last one printed."""
        for line in lines:
            self.output.clear()
            self.shell.run(line)
        return list(self.output)

    def refuses(self, line: str) -> str:
        return str(self._error(line))

    def wrong_word(self, line: str) -> str:
        """The word of a command that is to be mended."""
        return str(getattr(self._error(line), "word", ""))

    def _error(self, line: str) -> SwitchError:
        try:
            self.does(line)
        except SwitchError as error:
            return error
        raise AssertionError(f"{line} was done")


def shells(program: Path, *p4infos: bool) -> Any:
    """Make a fixture: a switch with a program, once for each choice of whether it has a P4Info."""

    @pytest.fixture(params=p4infos or [False], ids=lambda p4info: "p4info" if p4info else "bare")
    def switch(request: pytest.FixtureRequest) -> Iterator[ShellSwitch]:
        with ShellSwitch(program, request.param) as found:
            yield found

    return switch
