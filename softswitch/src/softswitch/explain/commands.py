"""State from a file of BMv2's commands, those of `softswitch cli`, without a running switch."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

from softswitch import ir
from softswitch.commands.shell import FileError, Shell
from softswitch.errors import SwitchError
from softswitch.hashing import Crc
from softswitch.interpreter import InterpretedPipeline
from softswitch.p4runtime.pipelines import Pipelines
from softswitch.runtime.device import SwitchRuntime

_Make: TypeAlias = Callable[[ir.Program], InterpretedPipeline]


def run_commands(data: bytes, make: _Make, path: Path) -> InterpretedPipeline:
    """Return a program's pipeline after a file of commands. Raises SwitchError with file, line and word."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text"
        raise SwitchError(f"{path}: {reason}") from None
    with closing(_NoPorts()) as ports:
        # An interpreted pipeline cannot decode notices of ports, of which there are none here.
        pipelines = Pipelines[Any](ports, make, lambda _: None)
        pipelines.load_bare(data)
        assert pipelines.bare is not None
        runtime = SwitchRuntime[Any](pipelines, ports, device_id=0)
        Shell(runtime, say=lambda _: None, runs_shell=False).run_all(lines, str(path), _raise)
        found: InterpretedPipeline = pipelines.bare.pipeline
        return found


def _raise(mistake: FileError) -> None:
    raise mistake


class _NoPorts:
    """Ports of a switch that forwards nothing (`softswitch.p4runtime.pipelines.Ports`)."""

    def __init__(self) -> None:
        self.cpu_socket, self._cpu_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notice_socket, self._notice_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

    def close(self) -> None:
        for end in (self.cpu_socket, self._cpu_end, self.notice_socket, self._notice_end):
            end.close()

    def now(self) -> int:
        return 0

    def start(self, pipeline: InterpretedPipeline) -> None:
        pass

    def stop(self) -> None:
        pass

    def names(self) -> dict[int, str]:
        return {}

    def is_up(self, port: int) -> bool:
        return False

    def add(self, port: int, interface: str) -> None:
        raise _of_a_switch(f"port {port}")

    def remove(self, port: int) -> None:
        raise _of_a_switch(f"port {port}")

    def set_queues(self, port: int | None, priority: int | None, rate: int | None, depth: int | None) -> None:
        raise _of_a_switch("a queue")

    def set_crc(self, calculation: str, crc: Crc) -> None:
        raise _of_a_switch(f"the CRC of {calculation}")


def _of_a_switch(what: str) -> SwitchError:
    return SwitchError(f"Error: {what} is a running switch's: explain has a program alone")
