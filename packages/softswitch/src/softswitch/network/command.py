"""The subcommand `softswitch simulate`: a network from a file, in virtual time."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import click

from nativekit.files import replace_file
from softswitch.errors import SwitchError
from softswitch.network.files import read_network
from softswitch.network.flow import FlowHandle
from softswitch.network.network import Network
from softswitch.network.picture import draw
from softswitch.network.report import SentTraffic, as_json, describe

INTERRUPTED = 130  # exit status: 128 + SIGINT
_FLOW = re.compile(r"(?P<source>[^:]+):(?P<destination>[^:]+):(?P<pps>[\d.]+)pps(:(?P<bytes>\d+))?")
_DEFAULT_BYTES, _HEADERS_BYTES = 1000, 42
_UDP_PORT = 5001
_STEPS = 20  # of a run, after each of which progress is shown
_PROGRESS_INTERVAL_S = 1.0


@dataclass(frozen=True)
class SimulateOptions:
    file: Path
    sources: Path | None
    flows: tuple[str, ...]
    seconds: float
    seed: int
    pcap: Path | None
    picture: Path | None
    is_json: bool


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--sources",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Folder that is searched for P4 source first, as the solution's of an exercise.",
)
@click.option(
    "--flow",
    "flows",
    multiple=True,
    metavar="A:B:NNNpps[:BYTES]",
    help=f"Frames of UDP from host A to host B, of {_DEFAULT_BYTES} bytes by default; repeat the option. "
    "Without one, all hosts ping each other.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=2,
    show_default=True,
    help="Virtual time.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of all random numbers.")
@click.option(
    "--pcap",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write a pcap file of each direction of each link.",
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    metavar="FILE.svg",
    help="Draw the network with the loads of its links.",
)
@click.option("--json", "is_json", is_flag=True, help="Print the report as JSON.")
def simulate(**options: Any) -> None:  # the fields of `SimulateOptions`
    """Simulate the network of a topology.json (p4lang/tutorials) or p4app.json (p4-utils).

    The switches run their programs with the entries of the file, in virtual time and without root.
    """
    _simulate(SimulateOptions(**options))


def _simulate(options: SimulateOptions) -> None:
    with Network(seed=options.seed) as net:
        read_network(options.file, net, options.sources)
        if options.pcap is not None:
            _capture(net, options.pcap)
        traffic = _begin_traffic(net, options.flows, options.seconds)
        _run(net, options.seconds)
        if options.picture is not None:
            replace_file(options.picture, draw(net).encode(), 0o644)
        if options.is_json:
            print(json.dumps(as_json(net, traffic), indent=1))
        else:
            print("\n".join(describe(net, traffic)))


def _capture(net: Network, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for link in net.links:
        for sender, receiver in (link.ends, link.ends[::-1]):
            link.capture(folder / f"{sender}_{receiver}.pcap", sender.node)


def _begin_traffic(net: Network, flows: tuple[str, ...], seconds: float) -> SentTraffic:
    if not flows:
        pings = {(a.name, b.name): a.ping(str(b.ip)) for a, b in permutations(net.hosts, 2)}
        return SentTraffic(pings, {})
    return SentTraffic({}, {text: _begin_flow(net, text, seconds) for text in flows})


def _begin_flow(net: Network, text: str, seconds: float) -> FlowHandle:
    found = _FLOW.fullmatch(text)
    pps = float(found["pps"]) if found is not None else 0
    size = int(found["bytes"] or _DEFAULT_BYTES) if found is not None else 0
    if found is None or not pps > 0 or size < _HEADERS_BYTES:
        raise SwitchError(
            f"--flow {text}: expected A:B:NNNpps[:BYTES] with a rate above 0 and at least {_HEADERS_BYTES} "
            "bytes, as h1:h2:1000pps:500"
        )
    source, destination = net.host(found["source"]), net.host(found["destination"])
    frame = source.udp_frame(str(destination.ip), _UDP_PORT, bytes(size - _HEADERS_BYTES))
    return source.send(frame, every_us=1e6 / pps, count=max(1, round(seconds * pps)))


def _run(net: Network, seconds: float) -> None:
    """Run, and show progress on stderr if it takes long."""
    shown_at = time.monotonic()
    for step in range(1, _STEPS + 1):
        net.run(until_s=seconds * step / _STEPS)
        if time.monotonic() - shown_at >= _PROGRESS_INTERVAL_S and step < _STEPS:
            shown_at = time.monotonic()
            print(f"simulated {seconds * step / _STEPS:g} of {seconds:g} s", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> None:
    logging.basicConfig(format="softswitch: %(message)s", level=logging.WARNING)
    try:
        simulate.main(arguments, prog_name="softswitch simulate", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except (SwitchError, OSError) as error:
        sys.exit(f"softswitch: error: {error}")
