"""Settings of a switch, from its own command line or BMv2's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import grpc

from softswitch.errors import SwitchError
from softswitch.p4runtime.access import AccessPolicy, make_policy

if TYPE_CHECKING:  # they import numpy, which would delay listening
    from softswitch.ports.impairment import Direction, Impairment
    from softswitch.queues.shape import Shape


K = TypeVar("K")
V = TypeVar("V")


class Datapath(Enum):
    AUTO = "auto"
    KERNEL = "kernel"
    SOCKETS = "sockets"


TCX, XDP = "tcx", "xdp"
HOOKS = (TCX, XDP, "xdp-generic")
"""Values of `softswitch.kernel.hooks.Hook`, which is slow to import."""


class FrameTransport(NamedTuple):
    """A transport that replaces interfaces (`softswitch.frames`).

    `argument` is its address; for "files", the number of seconds to wait before reading them.
    """

    kind: Literal["grpc", "nanomsg", "files"]
    argument: str


class ThriftSettings(NamedTuple):
    """The port of BMv2's Thrift services, HOST:PORT, and who may call them.

    Digests are sent to the nanomsg address `notifications`; without one, to BMv2's default address if the
    program has digests.
    """

    address: str
    access: AccessPolicy
    notifications: str | None = None


@dataclass(frozen=True)
class Settings:
    """The settings of a switch, which gets its program over P4Runtime if `program` is None."""

    program: Path | None = None
    p4info: Path | None = None
    include_folders: tuple[Path, ...] = ()
    """Folders of files that a program as P4 source includes, and its macros with their values."""
    definitions: tuple[tuple[str, str], ...] = ()
    ports: Mapping[int, str] = field(default_factory=dict)  # interface of each port number
    device_id: int = 1
    addresses: tuple[str, ...] = ("127.0.0.1:9559",)
    credentials: grpc.ServerCredentials | None = None
    access: AccessPolicy = field(default_factory=make_policy)  # who may call the gRPC services
    thrift: ThriftSettings | None = None
    refuses_unset_config: bool = False
    """Whether GetForwardingPipelineConfig fails until a config is set, as in BMv2."""
    priority_queues: int = 1
    cpu_port: int | None = None
    impairments: Mapping[tuple[int, Direction], Impairment] = field(default_factory=dict)
    shapes: Mapping[int, Shape] = field(default_factory=dict)
    counters: Path | None = None  # file to which the ports' counters are written
    datapath: Datapath = Datapath.AUTO
    hook: str = TCX
    pin: Path | None = None
    rps_cpu: int | None = None
    """CPU on which the kernel runs the program; None for the CPU of the frames' senders."""
    busy_poll: bool = False
    trace: Path | None = None  # file
    trace_filters: tuple[str, ...] = ()
    pcap: Path | None = None
    """Folder for pcap files of each port, in the format of BMv2's `--pcap`."""
    frames: FrameTransport | None = None
    """Transport of frames that replaces interfaces; for "files", `ports` has the names of the files."""


def parse_interface(text: str) -> tuple[int, str]:
    """Parse PORT@INTERFACE, such as `1@s1-eth1`; raises SwitchError."""
    match = re.fullmatch(r"\s*(\d+)@(\S+)", text)  # p4c's STF runner writes a space
    if match is None:
        raise SwitchError(f"expected PORT@INTERFACE, as 1@s1-eth1, got {text!r}")
    return int(match[1]), match[2]


def parse_options_by_port(
    option: str, texts: Iterable[str], parse: Callable[[str], tuple[K, V]]
) -> dict[K, V]:
    value_by_port: dict[K, V] = {}
    for text in texts:
        key, value = parse(text)
        if key in value_by_port:
            raise SwitchError(f"{option} {text}: the option is given twice for this port")
        value_by_port[key] = value
    return value_by_port
