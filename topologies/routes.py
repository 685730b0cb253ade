"""Policy routes for workers' addresses in the root namespace, which leave all other routes alone."""

from __future__ import annotations

import subprocess
from ipaddress import ip_interface
from pathlib import Path

_PREFERENCE = "9590"  # preference of our rules, by which they are found and removed
_HOST_MASK = 0xFFFF  # host part of an address in the testbed's network
_FIRST_TABLE = 0x486F0000  # "Ho" in ASCII: first number of our routing tables, above administrators' numbers


def add(address: str, network: str, interface: str) -> None:
    """Give an interface an address, and route packets from that address to the network (ADDRESS/BITS)."""
    # A /32, because the machine may have another route to the network.
    _run_ip("address", "replace", f"{address}/32", "dev", interface)
    table_number = _FIRST_TABLE + (int(ip_interface(address)) & _HOST_MASK)
    _run_ip(
        "route", "replace", str(ip_interface(network).network), "dev", interface, "table", str(table_number)
    )
    _run_ip("rule", "add", "pref", _PREFERENCE, "from", address, "table", str(table_number))
    # Loose reverse-path filtering: answers may take another interface.
    Path(f"/proc/sys/net/ipv4/conf/{interface}/rp_filter").write_text("2")


def remove(address: str | None = None) -> None:
    """Remove the rule of an address, or all of our rules; routes are removed with their interfaces."""
    selector = [] if address is None else ["from", address]
    while _run_ip("rule", "delete", "pref", _PREFERENCE, *selector) == 0:
        pass


def _run_ip(*arguments: str) -> int:
    return subprocess.run(["ip", *arguments], check=False, capture_output=True).returncode
