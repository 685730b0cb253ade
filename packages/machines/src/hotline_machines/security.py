"""TLS of dask's own configuration, for its scheduler and for the supervisors."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from typing import TYPE_CHECKING, cast

from hotline_machines.errors import MachinesError

if TYPE_CHECKING:
    from distributed import Security


def check_address(address: str, allow_plaintext: bool) -> None:
    """Raise `MachinesError` for a scheduler without TLS beyond this machine."""
    if address.startswith("tls://") or allow_plaintext or _is_loopback(host_of(address)):
        return
    raise MachinesError(
        f"MACHINES={address}: expected tls://HOST:PORT beyond this machine, since who reaches a scheduler "
        "without TLS executes code as root on all machines; dask's configuration has its certificates. In a "
        "network that only this run's users can reach, set plaintext = true in the table [wiring] of CONFIG"
    )


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
