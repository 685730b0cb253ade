"""The subcommand `softswitch explain`: trace packets through a program, or through a network of switches."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from softswitch.errors import ProgramError, SwitchError
from softswitch.explain.commands import run_commands
from softswitch.explain.filters import PROPERTIES, parse_filter
from softswitch.explain.frames import TimedFrame, parse_packet, read_pcap
from softswitch.explain.record import Recorder
from softswitch.explain.state import from_switch
from softswitch.explain.tree import show
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.load import load_program
from softswitch.messages import pluralize
from softswitch.program_files import read_program
from softswitch.program_options import source_options
from softswitch.v1model import DROP_PORT, MAX_PRIORITY_QUEUES

INTERRUPTED = 130  # exit status: 128 + SIGINT


@dataclass(frozen=True)
class ExplainOptions:
    program: Path | None
    include_folders: tuple[Path, ...]
    definitions: tuple[tuple[str, str], ...]
    packets: tuple[str, ...]
    pcap: Path | None
    port: int
    commands: Path | None
    address: str | None
    device_id: int
    priority_queues: int
    filters: tuple[str, ...]
    as_json: bool
    show_all: bool
    destination: str | None
    sources: Path | None
    live: str | None


@click.command()
@click.argument("program", required=False, type=click.Path(path_type=Path))
@source_options
@click.option(
    "--packet", "packets", multiple=True, metavar="HEX", help="A frame; repeat the option for more."
)
@click.option("--pcap", type=click.Path(path_type=Path), metavar="FILE", help="A capture with the frames.")
@click.option(
    "--port",
    type=click.IntRange(0, DROP_PORT),
    default=1,
    show_default=True,
    help="Ingress port of the frames.",
)
@click.option(
    "--commands",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Execute BMv2's commands, as `softswitch cli` does, before the first packet.",
)
@click.option(
    "--from",
    "address",
    metavar="HOST:PORT|NAME",
    help="Use the program and state of the switch that serves P4Runtime at this address. If PROGRAM is the "
    "file of a network, the name of the host that sends the frames.",
)
@click.option(
    "--to",
    "destination",
    metavar="NAME",
    help="In a network: send a UDP datagram to this host, in place of --packet.",
)
@click.option(
    "--sources",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="In a network: folder that is searched for P4 source first.",
)
@click.option(
    "--live",
    metavar="HOST:PORT",
    help="In a network: read programs and state of running switches. The first one serves P4Runtime at this "
    "address, and the next ones at the next ports, as those of `softswitch net` from 127.0.0.1:50051 on.",
)
@click.option(
    "--device-id",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Device ID of the switch of --from.",
)
@click.option("--priority-queues", type=click.IntRange(1, MAX_PRIORITY_QUEUES), default=1, show_default=True)
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="NAME=PATTERN",
    help=f"Show only these events, such as table=ipv4_lpm; NAME is {', '.join(PROPERTIES)}. "
    "Repeat the option for more.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each event.")
@click.option("--all", "show_all", is_flag=True, help="Also show steps without effect.")
def command(**values: Any) -> None:  # of click, by the fields of `ExplainOptions`
    """Explain what PROGRAM (P4 source, or BMv2 JSON) does to packets.

    Packets go through the program one after another, and read what earlier ones have written to registers.
    No switch needs to run, and a running switch is not affected. PROGRAM may also be the file of a network
    (topology.json, p4app.json) with --from NAME: the packets of this host are followed through all switches.
    """
    options = ExplainOptions(**values)
    if options.program is not None and options.address is not None and ":" not in options.address:
        _explain_network(options, options.program, options.address)
        return
    of_networks = {"--to": options.destination, "--sources": options.sources, "--live": options.live}
    for flag, value in of_networks.items():
        if value is not None:
            raise click.UsageError(f"{flag} goes with the file of a network and --from NAME")
    program, commands, address, pcap = options.program, options.commands, options.address, options.pcap
    if program is None and address is None:
        raise click.UsageError("give PROGRAM, or --from for a switch that runs a program")
    if commands is not None and address is not None:
        raise click.UsageError("give either --commands or --from")
    if bool(options.packets) == (pcap is not None):
        raise click.UsageError("give either --packet or --pcap")
    selected_filters = [parse_filter(text) for text in options.filters]
    packet_frames = [TimedFrame(time=0, data=parse_packet(text)) for text in options.packets]
    recorders: list[Recorder] = []  # one, once `make_pipeline` has been called

    def make_pipeline(loaded: Program) -> InterpretedPipeline:
        for event_filter in selected_filters:
            event_filter.check(loaded)
        recorders.append(Recorder(loaded))
        return InterpretedPipeline(loaded, options.priority_queues, recorders[0])

    program_data = None
    if program is not None:
        program_data = read_program(program, options.include_folders, options.definitions).json
    if address is not None:
        pipeline = from_switch(address, options.device_id, make_pipeline, program_data)
    else:
        assert program is not None and program_data is not None
        try:
            loaded = load_program(program_data)
        except ProgramError as error:
            raise SwitchError(f"{program}: {error}") from error
        pipeline = (
            make_pipeline(loaded) if commands is None else run_commands(program_data, make_pipeline, commands)
        )
    frame_count = 0
    try:
        for time, frame in packet_frames if pcap is None else _read_with_progress(pcap):
            pipeline.process(options.port, frame, time, time)
            show(recorders[0].take(), selected_filters, options.as_json, options.show_all)
            frame_count += 1
    except KeyboardInterrupt:
        print(f"softswitch: interrupted after {pluralize(frame_count, 'packet')}", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _explain_network(options: ExplainOptions, file: Path, host: str) -> None:
    for flag, value in (("--commands", options.commands), ("--pcap", options.pcap)):
        if value is not None:
            raise click.UsageError(f"{flag} goes with a program, not with a network")
    if bool(options.packets) == (options.destination is not None):
        raise click.UsageError("give either --packet or --to")
    # Imported on demand, as networks take longer to import than all else.
    from softswitch.network.explained_route import NetworkRequest, print_route

    request = NetworkRequest(
        file=file,
        sources=options.sources,
        host=host,
        destination=options.destination,
        frames=[parse_packet(text) for text in options.packets],
        live=options.live,
        filters=[parse_filter(text) for text in options.filters],
        as_json=options.as_json,
        show_all=options.show_all,
    )
    print_route(request)


def main(arguments: list[str]) -> None:
    logging.basicConfig(level="WARNING", format="softswitch: %(levelname)s: %(message)s")
    try:
        command.main(arguments, prog_name="softswitch explain")
    except SwitchError as error:
        sys.exit(f"softswitch: error: {error}")


def _read_with_progress(pcap: Path) -> Iterator[TimedFrame]:
    """Yield the frames; show progress if stderr is a terminal and stdout, which would mix with it, is not."""
    if not sys.stderr.isatty() or sys.stdout.isatty() or not pcap.is_file():
        yield from (frame for frame, _ in read_pcap(pcap))
        return
    with click.progressbar(length=pcap.stat().st_size, label=pcap.name, file=sys.stderr) as bar:
        for frame, position in read_pcap(pcap):
            yield frame
            bar.update(position - bar.pos)
