"""Protocols of ports and of the pipelines that they run; this module imports only what imports quickly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from softswitch.ir import Program
from softswitch.pipeline import ControlPlane, Notice


class RunnablePipeline(ControlPlane, Protocol):
    """A pipeline that ports can run, and whose notices they pass on as bytes."""

    def decode_notice(self, data: bytes) -> Notice: ...


PL_contra = TypeVar("PL_contra", contravariant=True)
PL = TypeVar("PL", bound=RunnablePipeline)


MakePipeline = Callable[[Program], PL]
FolderOf = Callable[[PL], Path | None]  # returns the folder of the journal; None for no journal


class DatagramSocket(Protocol):
    """The part of a socket of datagrams that the service calls."""

    def fileno(self) -> int: ...

    def recv(self, size: int, flags: int, /) -> bytes: ...

    def send(self, data: bytes, flags: int, /) -> int: ...


class Ports(Protocol[PL_contra]):
    @property
    def cpu_socket(self) -> DatagramSocket:
        """The controller's end of the CPU port: a datagram for each frame, in both directions."""

    @property
    def notice_socket(self) -> DatagramSocket:
        """Socket from which the notices of the running pipeline are read, one per datagram."""

    def now(self) -> int:
        """Return the time that packets are stamped with, in µs since start."""

    def start(self, pipeline: PL_contra) -> None: ...

    def stop(self) -> None: ...
