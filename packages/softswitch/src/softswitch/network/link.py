"""Links between nodes, with what they do to frames and what they have counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from softswitch.errors import SwitchError
from softswitch.network.state import NetworkState
from softswitch.queues.fifo import WIRE_OVERHEAD
from softswitch.queues.shape import MAX_PACKETS, UNLIMITED, Shape, packet_depth

_PICOSECONDS_PER_BYTE = 8e6  # at 1 Mbit/s
_NS_PER_US = 1e3
_PROBABILITIES = ("loss", "duplication", "reordering", "corruption")


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """Bandwidth, delay, queue and impairments of both directions of a link.

    `mbit` is in Mbit/s, None for no limit; `queue_frames` is the number of frames that may wait at each end,
    in each priority. A reordered frame arrives up to `reordering_us` later. `overhead_bytes` of the wire are
    taken by each frame besides its own: preamble, checksum and gap.
    """

    mbit: float | None = None
    delay_us: float = 0
    queue_frames: int = 64
    loss: float = 0
    duplication: float = 0
    reordering: float = 0
    reordering_us: float = 1000
    corruption: float = 0
    overhead_bytes: int = WIRE_OVERHEAD

    def __post_init__(self) -> None:
        if self.mbit is not None and not (self.mbit > 0 and math.isfinite(self.mbit)):
            raise SwitchError(f"mbit {self.mbit}: expected Mbit/s above 0, or None for no limit")
        for name in ("delay_us", "reordering_us", "overhead_bytes"):
            if not (0 <= getattr(self, name) < math.inf):
                raise SwitchError(f"{name} {getattr(self, name)}: expected 0 or more")
        if not 1 <= self.queue_frames <= MAX_PACKETS:
            raise SwitchError(f"queue_frames {self.queue_frames}: expected 1 to {MAX_PACKETS}")
        for name in _PROBABILITIES:
            if not 0 <= getattr(self, name) <= 1:
                raise SwitchError(f"{name} {getattr(self, name)}: expected a probability from 0 to 1")

    @property
    def shape(self) -> Shape:
        return Shape(UNLIMITED, packet_depth(self.queue_frames))

    @property
    def picoseconds_per_byte(self) -> int:
        return 0 if self.mbit is None else max(1, round(_PICOSECONDS_PER_BYTE / self.mbit))


class LinkCounters(NamedTuple):
    """Frames of one direction of a link: `offered` is the sum of `sent`, `queued` and `dropped`.

    Of the frames sent, `lost` were taken by loss or an outage; `doubled` came twice.
    """

    offered: int
    sent: int
    sent_bytes: int
    queued: int
    dropped: int
    lost: int
    doubled: int
    reordered: int
    corrupted: int
    delivered: int
    delivered_bytes: int
    busy_us: float
    waited_us: float


@dataclass(frozen=True, slots=True)
class End:
    """An end of a link: a node by its name, and the number of its port; a host has none."""

    node: str
    port: int | None = None

    def __str__(self) -> str:
        return self.node if self.port is None else f"{self.node}-p{self.port}"


def write_link(state: NetworkState, i: int, options: LinkOptions) -> None:
    """Write the options of a link into its direction that leaves interface `i`."""
    link = state.links[i]
    link.delay = round(options.delay_us * _NS_PER_US)
    link.picoseconds_per_byte = options.picoseconds_per_byte
    link.overhead = options.overhead_bytes
    link.max_extra_delay = round(options.reordering_us * _NS_PER_US)
    for name in _PROBABILITIES:
        setattr(link, name, getattr(options, name))
    link.is_impaired = any(getattr(options, name) for name in _PROBABILITIES)


def read_counters(state: NetworkState, i: int) -> LinkCounters:
    link, queues = state.links[i], state.queues.queues[i]
    queued, dropped = int(queues["packets"].sum()), int(queues["dropped"].sum())
    return LinkCounters(
        offered=int(link.frames) + queued + dropped,
        sent=int(link.frames),
        sent_bytes=int(link.bytes),
        queued=queued,
        dropped=dropped,
        lost=int(link.lost),
        doubled=int(link.doubled),
        reordered=int(link.delayed),
        corrupted=int(link.corrupted),
        delivered=int(link.delivered),
        delivered_bytes=int(link.delivered_bytes),
        busy_us=int(link.busy) / _NS_PER_US,
        waited_us=int(link.waited) / _NS_PER_US,
    )


class LinkNetwork(Protocol):
    """The part of a network that its links call."""

    def network_state(self) -> NetworkState: ...

    def call_at(self, time_us: float, call: Callable[..., object], *arguments: object) -> object: ...

    def capture(self, interface: int, path: Path) -> None: ...


class LinkHandle:
    """A link of a network; make it by `Network.add_link`. Each of its ends has counters of what it sends."""

    def __init__(
        self, ends: tuple[End, End], interfaces: tuple[int, int], options: LinkOptions, net: LinkNetwork
    ) -> None:
        self.ends, self.options = ends, options
        self._interfaces, self._net = interfaces, net

    def __repr__(self) -> str:
        return f"<link {self.ends[0]} - {self.ends[1]}>"

    def counters(self, sender: str) -> LinkCounters:
        """Return the counters of the direction that leaves the node of that name."""
        return read_counters(self._net.network_state(), self._interface_of(sender))

    def fail(self, at_us: float, for_us: float) -> None:
        """Lose all frames that either end sends from `at_us` on for `for_us`; failures may overlap."""
        self._net.call_at(at_us, self._change_down_count, 1)
        self._net.call_at(at_us + for_us, self._change_down_count, -1)

    def capture(self, path: str | Path, sender: str) -> None:
        """Write a pcap file of the frames that a node sends on this link; call it before the first run."""
        self._net.capture(self._interface_of(sender), Path(path))

    def _change_down_count(self, change: int) -> None:
        for i in self._interfaces:
            self._net.network_state().links[i].down_count += change

    def _interface_of(self, node: str) -> int:
        for end, i in zip(self.ends, self._interfaces, strict=True):
            if end.node == node:
                return i
        raise SwitchError(f"node {node!r}: expected one of this link, {self.ends[0]} or {self.ends[1]}")
