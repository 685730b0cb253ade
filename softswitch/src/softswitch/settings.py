"""What a switch is told when it starts: the same for its own command line and for BMv2's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import grpc

from softswitch.errors import SwitchError

if TYPE_CHECKING:  # with numpy, for which no port is to wait that clients look for
    from softswitch.ports.impairment import Direction, Impairment
    from softswitch.queues import Shape


K = TypeVar("K")
V = TypeVar("V")


class Datapath(Enum):
    """What the user asks for."""

    AUTO = "auto"
    KERNEL = "kernel"
    SOCKETS = "sockets"


TCX = "tcx"
HOOKS = (TCX, "xdp", "xdp-generic")
"""Values of `softswitch.kernel.hooks.Hook`, which takes long to import."""


@dataclass(frozen=True)
class Settings:
    """A switch: `program` for its first program (none: over P4Runtime), `ports` by number, and so on."""

    program: Path | None = None
    p4info: Path | None = None
    ports: Mapping[int, str] = field(default_factory=dict)
    device_id: int = 1
    addresses: tuple[str, ...] = ("127.0.0.1:9559",)
    """HOST:PORT, each of which serves P4Runtime."""
    credentials: grpc.ServerCredentials | None = None
    priority_queues: int = 1
    cpu_port: int | None = None
    impairments: Mapping[tuple[int, Direction], Impairment] = field(default_factory=dict)
    shapes: Mapping[int, Shape] = field(default_factory=dict)
    counters: Path | None = None
    datapath: Datapath = Datapath.AUTO
    hook: str = TCX
    pin: Path | None = None
    rps_cpu: int | None = None
    """On which the kernel is to run the program; None is where its frames come from."""
    busy_poll: bool = False
    trace: Path | None = None
    """File for what happens to packets (`softswitch.explain`)."""
    trace_filters: tuple[str, ...] = ()
    pcap: Path | None = None
    """Folder for the frames of each port, as BMv2's `--pcap` writes them."""


def parse_interface(text: str) -> tuple[int, str]:
    """Read PORT@INTERFACE, as `1@s1-eth1`."""
    found = re.fullmatch(r"(\d+)@(\S+)", text)
    if found is None:
        raise SwitchError(f"{text!r} is not PORT@INTERFACE, as 1@s1-eth1")
    return int(found[1]), found[2]


def by_port(option: str, texts: Iterable[str], parse: Callable[[str], tuple[K, V]]) -> dict[K, V]:
    """What an option that is repeated says of each port; SwitchError where it says two things of one."""
    found: dict[K, V] = {}
    for text in texts:
        key, value = parse(text)
        if key in found:
            raise SwitchError(f"{option} {text}: that port has one already")
        found[key] = value
    return found
