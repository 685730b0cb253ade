"""Networks of P4 switches in virtual time: switches, hosts and links in one process, without root.

Names are imported when they are asked for, since some modules of this package need Scapy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softswitch.network.compiled_handlers import add_frame
    from softswitch.network.controller import CallRefused, Controller
    from softswitch.network.flow import FlowHandle
    from softswitch.network.host import Host, Ping
    from softswitch.network.link import LinkCounters, LinkHandle
    from softswitch.network.network import Network
    from softswitch.network.switch import NetworkSwitch
    from softswitch.network.trace import Hop, PacketTrace, explain

_MODULES = {
    "add_frame": "compiled_handlers",
    "CallRefused": "controller",
    "Controller": "controller",
    "FlowHandle": "flow",
    "Hop": "trace",
    "Host": "host",
    "LinkCounters": "link",
    "LinkHandle": "link",
    "Network": "network",
    "NetworkSwitch": "switch",
    "PacketTrace": "trace",
    "Ping": "host",
    "explain": "trace",
}
__all__ = [
    "CallRefused",
    "Controller",
    "FlowHandle",
    "Hop",
    "Host",
    "LinkCounters",
    "LinkHandle",
    "Network",
    "NetworkSwitch",
    "PacketTrace",
    "Ping",
    "add_frame",
    "explain",
]


def __getattr__(name: str) -> Any:  # of any type
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
