"""Networks of p4lang/tutorials: `topology.json` with the runtime files of its switches."""

from __future__ import annotations

import re
from pathlib import Path

from softswitch.errors import SwitchError
from softswitch.network.json_files import JsonPart, read_json
from softswitch.network.network import Network
from softswitch.network.runtime_json import read_updates
from softswitch.p4runtime.messages import p4r
from softswitch.program_files import SOURCE_SUFFIX

_PORT = re.compile(r"(?P<switch>[^-]+)-p(?P<port>\d+)")
_LATENCY = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<unit>us|ms|s|)")
_UNIT_US = {"us": 1.0, "ms": 1e3, "s": 1e6, "": 1.0}  # as tc reads them
_GATEWAY = re.compile(r"route add default gw (?P<address>\S+)( dev \S+)?")
_NEIGHBOUR = re.compile(r"arp (-i \S+ )?-s (?P<address>\S+) (?P<mac>\S+)")
_JSON_SUFFIX = ".json"


def read_topology(file: Path, net: Network, sources: Path | None = None) -> None:
    """Add the network of a `topology.json` to `net`, with all entries; raises `SwitchError`.

    Paths in it are relative to the exercise's folder, in which `make run` is called. The program of a switch
    is the P4 source whose name its runtime file, or its own `program`, has; `sources` is searched for it
    before that folder.
    """
    topology = read_json(file)
    folder = _exercise_folder(file, topology)
    net.uses_arp = True  # as the tutorials' hosts on Mininet, which have no entries but those of the file
    for name, host in topology["hosts"].members():
        _add_host(net, name, host)
    for name, switch in topology["switches"].members():
        _add_switch(net, name, switch, folder, sources)
    for link in topology["links"].items():
        _add_link(net, link)


def _exercise_folder(file: Path, topology: JsonPart) -> Path:
    """Return the folder, of the file's own and its parents, that the paths of runtime files begin in."""
    runtimes = [part.text() for _, switch in topology["switches"].members() for part in _runtime(switch)]
    for folder in file.resolve().parents:
        if all((folder / runtime).is_file() for runtime in runtimes):
            return folder
    raise SwitchError(f"{file}: {runtimes[0]}: no such file in the folder of the topology or one above it")


def _runtime(switch: JsonPart) -> list[JsonPart]:
    part = switch.get("runtime_json")
    return [] if part is None else [part]


def _add_host(net: Network, name: str, host: JsonPart) -> None:
    mac, commands, gateway = host.get("mac"), host.get("commands"), None
    neighbours, others = [], []
    for command in [] if commands is None else commands.items():
        text = command.text()
        if found := _GATEWAY.fullmatch(text):
            gateway = found["address"]
        elif found := _NEIGHBOUR.fullmatch(text):
            neighbours.append((found["address"], found["mac"]))
        else:
            others.append(text)
    added = net.add_host(name, host["ip"].text(), mac=None if mac is None else mac.text(), gateway=gateway)
    for address, neighbour_mac in neighbours:
        added.set_neighbour(address, neighbour_mac)
    for text in others:
        net.add_host_command(name, text)


def _add_switch(net: Network, name: str, switch: JsonPart, folder: Path, sources: Path | None) -> None:
    runtimes = [read_json(folder / part.text()) for part in _runtime(switch)]
    cpu_port, queues = switch.get("cpu_port"), switch.get("priority_queues")
    added = net.add_switch(
        name,
        _find_program(switch, runtimes, folder, sources),
        cpu_port=None if cpu_port is None else cpu_port.integer(),
        priority_queues=1 if queues is None else queues.integer(),
    )
    for runtime in runtimes:
        for part, update in read_updates(runtime, added.p4info):
            try:
                added.write(p4r.WriteRequest(updates=[update]))
            except SwitchError as error:
                raise part.refused(error) from None


def _find_program(switch: JsonPart, runtimes: list[JsonPart], folder: Path, sources: Path | None) -> Path:
    named = switch.get("program") or next(
        (found for runtime in runtimes if (found := runtime.get("bmv2_json")) is not None), None
    )
    folders = [folder] if sources is None else [sources, folder]
    if named is None:
        return _only_source(switch, folders)
    stem = Path(named.text()).name.removesuffix(_JSON_SUFFIX)
    for each in folders:
        if (path := each / f"{stem}{SOURCE_SUFFIX}").is_file():
            return path
    if (compiled := folder / named.text()).is_file():
        return compiled
    raise named.error(f"{stem}{SOURCE_SUFFIX} in {' or '.join(map(str, folders))}")


def _only_source(switch: JsonPart, folders: list[Path]) -> Path:
    for folder in folders:
        if len(sources := sorted(folder.glob(f"*{SOURCE_SUFFIX}"))) == 1:
            return sources[0]
    raise switch.error(f"a program, or one file of P4 source in {' or '.join(map(str, folders))}")


def _add_link(net: Network, link: JsonPart) -> None:
    items = link.items()
    if len(items) < 2:
        raise link.error("a list of two nodes, perhaps with latency and bandwidth")
    ends, rest = [_read_end(net, end) for end in items[:2]], items[2:]
    net.add_link(
        ends[0][0],
        ends[1][0],
        ports=(ends[0][1], ends[1][1]),
        delay_us=_read_latency(rest[0]) if rest else 0,
        mbit=rest[1].number() if len(rest) > 1 and rest[1].value is not None else None,
    )


def _read_end(net: Network, end: JsonPart) -> tuple[str, int | None]:
    if end.text() in net.nodes:
        return end.text(), None
    found = _PORT.fullmatch(end.text())
    if found is None or found["switch"] not in net.nodes:
        raise end.error("a host, or a switch with its port, as s1-p2")
    return found["switch"], int(found["port"])


def _read_latency(latency: JsonPart) -> float:
    """Return a latency in µs; a number is in ms, and text as tc reads it."""
    if not isinstance(latency.value, str):
        return latency.number() * _UNIT_US["ms"]
    found = _LATENCY.fullmatch(latency.value)
    if found is None:
        raise latency.error("a latency such as 10ms")
    return float(found["number"]) * _UNIT_US[found["unit"]]
