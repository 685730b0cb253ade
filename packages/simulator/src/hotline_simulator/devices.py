"""Switches of `hotline answer --switch`: time of a frame, rate, lanes, hot keys, callers, and ports.

Lanes, hot keys and callers of chips are those of the programs that were compiled for them (packages/tofino),
ports and their bandwidth those of one pipe, as published. No chip was measured, nor was softswitch on a
machine of its own: its rate is that of the bench, on the core beside the sender's.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from controller.sizes import CALLERS
from experiment.run_config import max_top_k
from foundation.protocol.addressing import PORTS
from foundation.protocol.frames import FRAME_OVERHEAD
from foundation.protocol.header import KEY_BYTES, LANES, VALUE_BYTES, layout
from hotline_simulator.costs import HostCosts

_GAP_BYTES = 24  # preamble, frame check sequence and interframe gap
_IDEAL_MPPS = 1_000.0
_FRAME_US = 1.0  # a switch's time for a frame, an assumption
SOFTSWITCH_MPPS, SOFTSWITCH_FRAME_US = 0.527, 46.6
"""Measured by the bench with packet sockets on veths, 32 lanes hit: results/performance.json."""


class Device(NamedTuple):
    description: str
    frame_us: float  # time of a frame through the switch, in µs
    lanes: int
    callers: int
    """Workers, servers and controller whose RPCs have effect exactly once."""
    ports: int  # of one pipe, because registers are per pipe
    port_gbit: int | None = None
    """Bandwidth of a port in Gbit/s, all of which are busy at the pipe's rate; None means `mpps`."""
    mpps: float = _IDEAL_MPPS
    """Rate in million frames a second, if ports do not limit it."""
    cold_lanes: int = 0
    """Lanes of an RPC beside `lanes`, which the switch passes on without reading them."""

    def hot_rows(self, dim: int) -> int:
        """Return the maximum number of rows of `dim` values in the switch, whose lanes fill unevenly."""
        return max_top_k(1, dim) * self.lanes // LANES

    @property
    def rpc_lanes(self) -> int:
        return self.lanes + self.cold_lanes

    @property
    def has_rows(self) -> bool:
        """Whether the program serves rows of more than one value."""
        return self.lanes == LANES

    @property
    def network(self) -> dict[str, float]:
        """The switch's settings in the table [network] of a simulated run (`costs.Network`)."""
        return {
            "switch_us": self.frame_us,
            "switch_mpps": self._million_frames_per_s,
            "switch_lanes": self.lanes,
            "cold_lanes": self.cold_lanes,
        }

    @property
    def _million_frames_per_s(self) -> float:
        if self.port_gbit is None:
            return self.mpps
        lanes = self.rpc_lanes
        full_push = FRAME_OVERHEAD + layout(lanes).size + lanes * (KEY_BYTES + VALUE_BYTES)
        return round(self.ports * self.port_gbit * 1e3 / (8 * (full_push + _GAP_BYTES)), 1)

    def count_ports(self, uplink_mbit: float) -> int:
        """Return the number of ports that a rack's uplink takes."""
        return 1 if self.port_gbit is None else math.ceil(uplink_mbit / (1e3 * self.port_gbit))


def _make_chip(description: str, callers: int, port_gbit: int, cold_lanes: int = 0) -> Device:
    # A lane has as many slots as in the simulated program.
    return Device(description, _FRAME_US, 16, callers, ports=64, port_gbit=port_gbit, cold_lanes=cold_lanes)


DeviceName = Literal["ideal", "softswitch", "tofino", "tofino2", "tofino-long"]
DEVICES: dict[DeviceName, Device] = {
    "ideal": Device("a device", _FRAME_US, lanes=LANES, callers=CALLERS, ports=PORTS),
    "softswitch": Device(
        "a machine with softswitch on one core",
        SOFTSWITCH_FRAME_US,
        LANES,
        CALLERS,
        PORTS,
        mpps=SOFTSWITCH_MPPS,
    ),
    "tofino": _make_chip("a pipe of a Tofino", callers=1_024, port_gbit=25),
    "tofino2": _make_chip("a pipe of a Tofino 2", callers=512, port_gbit=50),
    "tofino-long": _make_chip(
        "a pipe of a Tofino with a program that nobody has written, for longer RPCs",
        callers=1_024,
        port_gbit=25,
        cold_lanes=16,
    ),
}
DEDICATED_SWITCH_NETWORK = DEVICES["ideal"].network
"""Settings of [network] for a dedicated switch: about one pipe of a switch ASIC."""


def with_dedicated_cores(hosts: HostCosts) -> HostCosts:
    """Return the costs of hosts whose agents have a core each, beside a switch that costs them nothing."""
    without_program = {"program_ns": None, "lookup_ns": 0, "hit_ns": 0, "answer_ns": 0}
    return hosts.model_copy(update={"worker_cores": None, "server_cores": None, **without_program})
