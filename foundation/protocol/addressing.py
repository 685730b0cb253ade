"""Names, ports and addresses of everything in the testbed. Numbers are 1-based unless said otherwise.

A service address belongs to the switch: workers talk to the service address of a parameter server, never
to the server itself.
"""

from __future__ import annotations

from dataclasses import dataclass

SWITCH_NAME = "s1"
PREFIX_LENGTH = 16
WORKER_PORT_BASE = 20_000
MAX_HOSTS_OF_A_KIND = 99
"""Of a network of namespaces; in virtual time the switch's ports are the limit."""
CPU_PORT = 255
PORTS = 509
"""Of v1model, but 0, the one that drops (511) and the CPU's."""
MAX_HOSTS = 1024
"""Entries of table `forward`; beyond its ports, hosts of a rack share one."""
BLOCK = 250
"""Hosts of a kind that share their first two bytes."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A name with its IPv4 and MAC address."""

    name: str
    address: str
    mac: str


def _endpoint(name: str, subnet: int, number: int) -> Endpoint:
    if not 1 <= number <= MAX_HOSTS:
        raise ValueError(f"{name}: number {number} is not in 1..{MAX_HOSTS}")
    block, last = (number - 1) // BLOCK, (number - 1) % BLOCK + 1
    return Endpoint(name, f"10.{block}.{subnet}.{last}", f"02:00:00:{block:02x}:{subnet:02x}:{last:02x}")


def worker(number: int) -> Endpoint:
    """Host of a worker."""
    return _endpoint(f"w{number}", 1, number)


def server(number: int) -> Endpoint:
    """Host of a parameter server."""
    return _endpoint(f"p{number}", 2, number)


def service(number: int) -> Endpoint:
    """Service address of a parameter server; the switch owns it."""
    return _endpoint(f"service{number}", 3, number)


def controller() -> Endpoint:
    """Source of the controller's packet-outs; no host has this address."""
    return _endpoint("controller", 4, 1)


def host_port(number: int) -> int:
    """The switch's port of that number, the CPU's left out."""
    return number if number < CPU_PORT else number + 1


def worker_port(number: int, rack: int = 1) -> int:
    """Switch port of a worker, which all workers of its rack share."""
    return host_port(-(-number // rack))


def server_port(workers: int, number: int, rack: int = 1) -> int:
    """Switch port of a parameter server, behind the ports of the `workers` workers, or of their racks."""
    return host_port(-(-workers // rack) + number)


def interface(port: int) -> str:
    """Name of the switch's interface at a port, in the root namespace."""
    return f"{SWITCH_NAME}-eth{port}"


def switch_interfaces(workers: int, servers: int) -> list[str]:
    """Names of all of the switch's interfaces, in port order."""
    return [interface(host_port(number)) for number in range(1, workers + servers + 1)]


def worker_udp_port(job: int) -> int:
    """UDP port that every worker binds for a job."""
    return WORKER_PORT_BASE + job
