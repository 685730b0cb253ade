"""Networks of p4-utils: `p4app.json` with the command files of its switches, and its IP addresses."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from softswitch.errors import SwitchError
from softswitch.files import read_file
from softswitch.network.json_files import JsonPart, read_json
from softswitch.network.network import Network

_NUMBERED = re.compile(r"[a-zA-Z]+(\d+)")
_STRATEGIES = ("l2", "mixed", "l3")
_MAX_NUMBER = 253
_OPTIONS = {"bw": "mbit", "delay": "delay_us", "loss": "loss", "queue_length": "queue_frames"}
_US_PER_MS, _PERCENT = 1e3, 100
_MS = re.compile(r"(\d+(?:\.\d+)?)(?:ms)?")


def read_p4app(file: Path, net: Network, sources: Path | None = None) -> None:
    """Add the network of a `p4app.json` to `net`, and run the switches' command files; raises `SwitchError`.

    Paths in it are relative to its folder, or to `sources` if they exist there. Scripts (`exec_scripts`) are
    not run.
    """
    app = read_json(file)
    topology = app["topology"]
    folders = [*([] if sources is None else [sources]), file.resolve().parent]
    links = [_read_link(link) for link in topology["links"].items()]
    hosts = [name for name, _ in topology["hosts"].members()]
    switches = {name: part for name, part in topology["switches"].members()}
    ids = _number_switches(list(switches))
    addresses = dict(_assign(topology, hosts, links, ids))
    for name in hosts:
        ip, gateway = addresses[name]
        net.add_host(name, ip, mac=_mac(ip, 0), gateway=gateway)
        if gateway is not None:
            net.host(name).set_neighbour(gateway, _mac(ip, 1))
    _set_neighbours(net)
    for name, switch in switches.items():
        _add_switch(net, name, switch, app, folders, links)
    default = topology.get("default")
    for first, second, options in links:
        net.add_link(first, second, **_read_options(default), **_read_options(options))
    for name, switch in switches.items():
        if (commands := switch.get("cli_input")) is not None:
            lines = read_file(_find(commands, folders)).decode().splitlines()
            net.switch(name).run_file(lines, commands.text())


def _set_neighbours(net: Network) -> None:
    """Give each host the MAC addresses of all others in its IP network, as p4-utils' `auto_arp_tables`."""
    for host in net.hosts:
        for other in net.hosts:
            if other is not host and other.ip in host.interface.network:
                host.set_neighbour(str(other.ip), other.mac)


def _read_link(link: JsonPart) -> tuple[str, str, JsonPart | None]:
    items = link.items()
    if not 2 <= len(items) <= 3:  # two ends, and options
        raise link.error("a list of two nodes, perhaps with options")
    return items[0].text(), items[1].text(), items[2] if len(items) > 2 else None


def _read_options(options: JsonPart | None) -> dict[str, Any]:  # fields of `LinkOptions`
    read: dict[str, Any] = {}
    for name, value in [] if options is None else options.members():
        if name not in _OPTIONS:
            continue  # ports' names and addresses, which have no effect here
        number = _read_ms(value) * _US_PER_MS if name == "delay" else value.number()
        read[_OPTIONS[name]] = number / _PERCENT if name == "loss" else number
    return read


def _read_ms(delay: JsonPart) -> float:
    if not isinstance(delay.value, str):
        return delay.number()
    found = _MS.fullmatch(delay.value)
    if found is None:
        raise delay.error("a delay such as 10ms")
    return float(found[1])


def _add_switch(
    net: Network,
    name: str,
    switch: JsonPart,
    app: JsonPart,
    folders: list[Path],
    links: list[tuple[str, str, JsonPart | None]],
) -> None:
    program = switch.get("p4_src") or switch.get("program") or app["p4_src"]
    cpu_port, queues = switch.get("cpu_port"), switch.get("priority_queues_num")
    has_cpu_port = cpu_port is not None and bool(cpu_port.value)
    ports = sum(name in link[:2] for link in links)
    net.add_switch(
        name,
        _find(program, folders),
        cpu_port=ports + 1 if has_cpu_port else None,  # the link to the controller is made last
        priority_queues=1 if queues is None else queues.integer(),
    )


def _find(name: JsonPart, folders: list[Path]) -> Path:
    """Return the file of that name in the first folder that has it, or else in the last."""
    paths = [folder / name.text() for folder in folders]
    return next((path for path in paths if path.is_file()), paths[-1])


# -- addresses


def _number_switches(names: list[str]) -> dict[str, int]:
    """Return the switches' IDs: the number in a name, or else the first that is free."""
    ids = {name: int(found[1]) for name in names if (found := _NUMBERED.fullmatch(name))}
    free = (number for number in range(1, _MAX_NUMBER) if number not in ids.values())
    return {name: ids[name] if name in ids else next(free) for name in names}


def _assign(
    topology: JsonPart, hosts: list[str], links: list[tuple[str, str, JsonPart | None]], ids: dict[str, int]
) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """Yield each host's address with its prefix, and its gateway, as p4-utils' strategies assign them."""
    strategy = topology["assignment_strategy"]
    if strategy.value not in _STRATEGIES:
        raise strategy.error(f"one of {', '.join(_STRATEGIES)}")
    numbers = {name: int(found[1]) for name in hosts if (found := _NUMBERED.fullmatch(name))}
    used: defaultdict[int, set[int]] = defaultdict(set)
    for name in hosts:
        switch = _switch_of(name, links, ids)
        place = switch if strategy.value != "l2" else 0
        if name not in numbers:
            taken = used[place] | set(numbers.values())
            numbers[name] = next(n for n in range(1, _MAX_NUMBER) if n not in taken)
        number = numbers[name]
        used[place].add(number)
        if strategy.value == "l2":
            yield name, (f"10.0.{number >> 8}.{number & 0xFF}/16", None)
        elif strategy.value == "mixed":
            yield (
                name,
                (f"10.{switch >> 8}.{switch & 0xFF}.{number}/24", f"10.{switch >> 8}.{switch & 0xFF}.254"),
            )
        else:
            yield name, (f"10.{switch}.{number}.2/24", f"10.{switch}.{number}.1")


def _switch_of(host: str, links: list[tuple[str, str, JsonPart | None]], ids: dict[str, int]) -> int:
    for first, second, _ in links:
        if host in (first, second):
            return ids[second if first == host else first]
    raise SwitchError(f"host {host}: expected a link to a switch, got none")


def _mac(ip: str, kind: int) -> str:
    """Return the MAC address of a host (kind 0), or of the switch's port to it (kind 1)."""
    octets = IPv4Address(ip.partition("/")[0]).packed
    return f"00:{kind:02x}:" + ":".join(f"{octet:02x}" for octet in octets)
