"""TLS of dask's own configuration, for its scheduler and for the supervisors."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from hotline_machines.errors import MachinesError

if TYPE_CHECKING:
    from distributed import Security


_LISTENING = "0A"  # Linux, <net/tcp_states.h>: TCP_LISTEN


def check_address(address: str, allow_plaintext: bool) -> None:
    """Raise `MachinesError` for a scheduler without TLS beyond this machine."""
    if address.startswith("tls://") or allow_plaintext or _is_loopback(host_of(address)):
        return
    raise MachinesError(
        f"MACHINES={address}: expected tls://HOST:PORT beyond this machine, since who reaches a scheduler "
        "without TLS executes code as root on all machines; dask's configuration has its certificates. In a "
        "network that only this run's users can reach, set plaintext = true in the table [wiring] of CONFIG"
    )


def check_listeners(addresses: Mapping[str, str]) -> None:
    """Raise `MachinesError` if a process of dask without TLS can be reached from beyond this machine.

    `addresses` has the command that starts each process, by the address at which it can be called. Without
    `--host`, both commands listen at all addresses, also if that address is the loopback's.
    """
    for address, command in addresses.items():
        listening = listening_addresses(port_of(address))
        exposed = [host for host in (host_of(address), *listening) if not _is_loopback(host)]
        if exposed or not listening:
            found = f"it listens at {exposed[0]}" if exposed else "no process of this machine listens there"
            raise MachinesError(
                f"{address}: expected a `{command}` without TLS to listen at the loopback only, since who "
                f"reaches it executes code as root; {found}. Start it by `{command} --host 127.0.0.1`, or "
                "all of dask with TLS"
            )


def listening_addresses(port: int) -> list[str]:
    """Return the addresses at which sockets of this machine listen with a TCP port."""
    return [
        _parse_address(fields[1].partition(":")[0])
        for file in ("tcp", "tcp6")
        if (path := Path("/proc/thread-self/net", file)).exists()
        for fields in map(str.split, path.read_text().splitlines()[1:])
        if fields[3] == _LISTENING and int(fields[1].partition(":")[2], 16) == port
    ]


def _parse_address(digits: str) -> str:
    """Return an address of /proc/net, whose words of 32 bits are in this machine's byte order."""
    words = [int(digits[start : start + 8], 16) for start in range(0, len(digits), 8)]
    address = ipaddress.ip_address(b"".join(word.to_bytes(4, sys.byteorder) for word in words))
    return str(getattr(address, "ipv4_mapped", None) or address)


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def host_of(address: str) -> str:
    host = address.partition("://")[2].rpartition(":")[0]
    return host.strip("[]")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(ipaddress.ip_address(each).is_loopback for each in found)


def security() -> Security:
    from distributed import Security

    return Security()


def client_context(address: str) -> ssl.SSLContext | None:
    """Return the TLS context of dask's clients for a connection to a supervisor; None without TLS."""
    if not address.startswith("tls://"):
        return None
    return cast(ssl.SSLContext, security().get_connection_args("client")["ssl_context"])


def server_context(address: str) -> ssl.SSLContext | None:
    """Return the TLS context of dask's workers, for a supervisor that listens; None without TLS."""
    if not address.startswith("tls://"):
        return None
    context: ssl.SSLContext | None = security().get_listen_args("worker").get("ssl_context")
    if context is None:
        raise MachinesError(
            "dask's configuration on this machine: expected distributed.comm.tls.worker.cert and its "
            "ca-file, found none"
        )
    return context
