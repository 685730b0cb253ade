"""Placeholder for ports of a program without a switch (`softswitch explain`, `softswitch.testing`)."""

from __future__ import annotations

import socket

from softswitch.errors import SwitchError
from softswitch.hashing import Crc
from softswitch.interpreter import InterpretedPipeline


class NoPorts:
    """Ports of a switch that forwards nothing (`softswitch.p4runtime.pipelines.Ports`)."""

    def __init__(self) -> None:
        self.cpu_socket, self._cpu_end = socket.socketpair()
        self.notice_socket, self._notice_end = socket.socketpair()

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
        raise _no_switch_error(f"port {port}")

    def remove(self, port: int) -> None:
        raise _no_switch_error(f"port {port}")

    def set_queues(self, port: int | None, priority: int | None, rate: int | None, depth: int | None) -> None:
        raise _no_switch_error("a queue")

    def set_crc(self, calculation: str, crc: Crc) -> None:
        raise _no_switch_error(f"the CRC of {calculation}")


def _no_switch_error(subject: str) -> SwitchError:
    return SwitchError(f"Error: {subject} needs a running switch, but the P4 program runs without a switch")
