"""Routes by source, for workers' addresses in the root namespace: nothing else of the machine is led away."""

from __future__ import annotations

import subprocess
from ipaddress import ip_interface

_PREFERENCE = "9590"
"""Of our rules, by which they are told from others."""
_TABLES = 0x486F0000
"""Above the tables that people number."""


def add(address: str, network: str, interface: str) -> None:
    """Give an interface an address, from which the network (ADDRESS/BITS) is reached by it."""
    # Alone, and not with its network, to which the machine may have a route of its own.
    _ip("address", "replace", f"{address}/32", "dev", interface)
    number = _TABLES + (int(ip_interface(address)) & 0xFFFF)
    _ip("route", "replace", str(ip_interface(network).network), "dev", interface, "table", str(number))
    _ip("rule", "add", "pref", _PREFERENCE, "from", address, "table", str(number))
    # Loose, where the machine checks strictly whether answers take the way back.
    _write(interface, "rp_filter", "2")


def remove(address: str | None = None) -> None:
    """Remove the rule of an address, or what a killed process has left of all; routes go with interfaces."""
    of = [] if address is None else ["from", address]
    while _ip("rule", "delete", "pref", _PREFERENCE, *of) == 0:
        pass


def _ip(*arguments: str) -> int:
    return subprocess.run(["ip", *arguments], check=False, capture_output=True).returncode


def _write(interface: str, setting: str, value: str) -> None:
    with open(f"/proc/sys/net/ipv4/conf/{interface}/{setting}", "w") as file:
        file.write(value)
