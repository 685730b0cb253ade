"""Ports of the switch: AF_PACKET rings, the compiled forwarding loop, and impairments for experiments."""

from softswitch.ports.impairment import Direction, Impairment, parse_impairment
from softswitch.ports.loop import NativePipeline, PortLoop
from softswitch.ports.report import PortCounters, SwitchCounters
from softswitch.ports.ring import PortError

__all__ = [
    "Direction",
    "Impairment",
    "NativePipeline",
    "PortCounters",
    "PortError",
    "PortLoop",
    "SwitchCounters",
    "parse_impairment",
]
