"""Names, ports and addresses of everything in the testbed. Numbers are 1-based unless said otherwise."""

from __future__ import annotations

from dataclasses import dataclass

SWITCH_NAME = "s1"  # `switch_name(0)`
PREFIX_LENGTH = 16
WORKER_UDP_PORT_BASE = 20_000
MAX_HOSTS_OF_A_KIND = 99
"""Maximum number of workers, and of servers, in a network of namespaces; in a simulation the limit is the
number of switch ports."""
CPU_PORT = 255  # port of packet-ins and packet-outs
PORTS = 509
"""Number of ports for hosts: the 512 of v1model without 0, the drop port (511) and the CPU port."""
MAX_HOSTS = 1024
"""Number of entries of the table `forward`; beyond the number of ports, the hosts of a rack share a port."""
HOSTS_PER_BLOCK = 250
"""Number of hosts of a kind whose addresses share the first two bytes."""
_WORKER_SUBNET, _SERVER_SUBNET, _SERVICE_SUBNET, _CONTROLLER_SUBNET = 1, 2, 3, 4  # third byte of an address


@dataclass(frozen=True, slots=True)
class Endpoint:
    name: str
    address: str
    mac: str


def _endpoint(name: str, subnet: int, number: int) -> Endpoint:
    if not 1 <= number <= MAX_HOSTS:
        raise ValueError(f"{name}: number {number} is not in 1..{MAX_HOSTS}")
    block, last_byte = (number - 1) // HOSTS_PER_BLOCK, (number - 1) % HOSTS_PER_BLOCK + 1
    return Endpoint(
        name, f"10.{block}.{subnet}.{last_byte}", f"02:00:00:{block:02x}:{subnet:02x}:{last_byte:02x}"
    )


def worker(number: int) -> Endpoint:
    return _endpoint(f"w{number}", _WORKER_SUBNET, number)


def server(number: int) -> Endpoint:
    return _endpoint(f"p{number}", _SERVER_SUBNET, number)


def service(number: int) -> Endpoint:
    """Return a PS's service address, which is the switch's; workers send to it and never to the server."""
    return _endpoint(f"service{number}", _SERVICE_SUBNET, number)


def controller() -> Endpoint:
    """Return the source of the controller's packet-outs; no host has this address."""
    return _endpoint("controller", _CONTROLLER_SUBNET, number=1)


def host_port(number: int) -> int:
    """Return the switch port of the host with this number; the CPU port is left out."""
    return number if number < CPU_PORT else number + 1


def worker_port(number: int, workers_per_port: int = 1) -> int:
    # The workers of a rack share a port: round up.
    return host_port(-(-number // workers_per_port))


def server_port(workers: int, number: int, workers_per_port: int = 1) -> int:
    """Return the switch port of a parameter server, after the ports of the workers or of their racks."""
    return host_port(-(-workers // workers_per_port) + number)


def switch_name(number: int) -> str:
    """Return the name of a switch of a network, counted from 0, of which the first has the run's hot set."""
    return f"s{number + 1}"


def interface(port: int, switch: int = 0) -> str:
    return f"{switch_name(switch)}-eth{port}"


def switch_interfaces(workers: int, servers: int) -> list[str]:
    return [interface(host_port(number)) for number in range(1, workers + servers + 1)]


def worker_udp_port(job: int) -> int:
    return WORKER_UDP_PORT_BASE + job
