"""Networks of P4 switches in virtual time: switches, hosts and links in one process, without root."""

from softswitch.network.controller import CallRefused, Controller
from softswitch.network.flow import FlowHandle
from softswitch.network.host import Host, Ping
from softswitch.network.link import LinkCounters, LinkHandle
from softswitch.network.network import Network
from softswitch.network.switch import NetworkSwitch
from softswitch.network.trace import Hop, PacketTrace, explain

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
    "explain",
]
