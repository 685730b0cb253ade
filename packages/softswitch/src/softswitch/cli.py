"""The switch's command line, which resembles that of `simple_switch_grpc`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import grpc

from softswitch import __version__
from softswitch.errors import SwitchError
from softswitch.kernel.pins import unpin as remove_pins
from softswitch.p4runtime.access import make_policy
from softswitch.p4runtime.tls import load_credentials
from softswitch.ports.impairment import parse_impairment
from softswitch.ports.shaping import make_shapes, parse_port_queue, parse_port_rate
from softswitch.program_options import source_options
from softswitch.settings import (
    HOOKS,
    TCX,
    XDP,
    Datapath,
    FrameTransport,
    Settings,
    parse_interface,
    parse_options_by_port,
)
from softswitch.v1model import DROP_PORT, MAX_PRIORITY_QUEUES


def run(settings: Settings) -> None:
    # Imported late, because it takes 0.7 s, for which --help and errors need not wait.
    import_module("softswitch.running").run(settings)


@click.command(
    epilog="Subcommands: `softswitch compile` writes BMv2's JSON and P4Info of P4 source, `softswitch cli` "
    "runs BMv2's CLI commands on a running switch, `softswitch explain` shows what a program does to a "
    "packet, `softswitch conformance` runs test vectors, and `softswitch install-as` writes scripts with the "
    "program names of BMv2 and p4c into a folder. Each has --help."
)
@click.version_option(__version__)
@click.argument("program", required=False, type=click.Path(path_type=Path))
@click.option(
    "-i",
    "--interface",
    "interfaces",
    multiple=True,
    metavar="PORT@INTERFACE",
    help="A port and its interface; repeat the option for each port.",
)
@click.option("--p4info", type=click.Path(path_type=Path), help="P4Info of a PROGRAM in JSON, for P4Runtime.")
@source_options
@click.option("--no-p4", is_flag=True, help="Start without PROGRAM and wait for one over P4Runtime.")
@click.option("--device-id", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--grpc-server-addr", default="127.0.0.1:9559", show_default=True, metavar="HOST:PORT")
@click.option("--tls-cert", type=click.Path(path_type=Path), help="Certificate of the gRPC port, for TLS.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Private key of the certificate.")
@click.option("--tls-ca", type=click.Path(path_type=Path), help="Clients need a certificate of this CA.")
@click.option(
    "--allow-user",
    "allowed_users",
    multiple=True,
    metavar="USER",
    help="User of this machine who may call, besides root and the one who started the switch; repeat it.",
)
@click.option("--allow-everyone", is_flag=True, help="Serve every client that reaches the gRPC port.")
@click.option(
    "--priority-queues",
    type=click.IntRange(1, MAX_PRIORITY_QUEUES),
    default=1,
    show_default=True,
    help="Queues of a port; packets whose `priority` is not below this number are dropped.",
)
@click.option("--cpu-port", type=click.IntRange(1, DROP_PORT - 1), help="Number of the controller's port.")
@click.option(
    "--impair",
    "impairments",
    multiple=True,
    metavar="PORT:in|out:loss=P,dup=P,reorder=P,seed=N",
    help="Lose, duplicate or reorder frames; repeat the option for each port and direction.",
)
@click.option(
    "--port-rate",
    "port_rates",
    multiple=True,
    metavar="PORT=RATE",
    help="Maximum rate of a port, such as 1=1000pps or 1=10mbit; *=RATE is for all. Repeat the option.",
)
@click.option(
    "--port-queue",
    "port_queues",
    multiple=True,
    metavar="PORT=DEPTH",
    help="Depth of a port's queue, such as 1=64 packets or 1=64kb; 64 packets by default.",
)
@click.option(
    "--counters",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the counters of the ports as JSON: at the start, at SIGUSR1, and at the end.",
)
@click.option(
    "--datapath",
    type=click.Choice([mode.value for mode in Datapath]),
    default=Datapath.AUTO.value,
    show_default=True,
    help="Process packets in the kernel (BPF) or by packet sockets; auto: in the kernel if possible.",
)
@click.option(
    "--hook",
    type=click.Choice(HOOKS),
    default=TCX,
    show_default=True,
    help="Hook in the kernel; xdp: in a NIC's driver, for programs that send at most one frame per frame.",
)
@click.option(
    "--rps-cpu",
    type=click.IntRange(min=0),
    metavar="CPU",
    help="CPU on which the kernel runs the program (receive packet steering); default: the senders' CPUs.",
)
@click.option(
    "--pin",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep forwarding after the switch ends; the next switch with DIR resumes its tables and registers.",
)
@click.option(
    "--unpin",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Remove the datapath pinned in DIR, and exit.",
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a trace of packets as lines of JSON. The interpreter processes them, which is slow.",
)
@click.option(
    "--trace-filter",
    "trace_filters",
    multiple=True,
    metavar="NAME=PATTERN",
    help="Trace only these events, such as table=ipv4_lpm or kind=drop; repeat the option for more.",
)
@click.option(
    "--dp-grpc-server-addr",
    metavar="HOST:PORT",
    help="Receive and send frames over gRPC at HOST:PORT, as BMv2 does; needs no root and no -i.",
)
@click.option("--busy-poll", is_flag=True, help="Poll in a loop: lower latency, but takes a whole core.")
@click.option(
    "-L",
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
)
def command(**values: Any) -> None:  # of click, by the fields of `Options`
    """Run PROGRAM (P4 source, or BMv2 JSON) on ports, controlled over P4Runtime.

    As with simple_switch_grpc, a `--` may stand before the options of the target. SIGUSR1 prints the counters
    of the ports, which are logged at the end too, at level `info`.
    """
    options = Options(**values)
    if options.unpin is not None:
        remove_pins(options.unpin)
        return
    settings = make_settings(options)
    logging.basicConfig(level=options.log_level.upper(), format="softswitch: %(levelname)s: %(message)s")
    run(settings)


@dataclass(frozen=True)
class Options:
    """The values of all options, in the types that click gives them."""

    program: Path | None
    interfaces: Sequence[str]
    p4info: Path | None
    include_folders: tuple[Path, ...]
    definitions: tuple[tuple[str, str], ...]
    no_p4: bool
    device_id: int
    grpc_server_addr: str
    tls_cert: Path | None
    tls_key: Path | None
    tls_ca: Path | None
    allowed_users: Sequence[str]
    allow_everyone: bool
    priority_queues: int
    cpu_port: int | None
    impairments: Sequence[str]
    port_rates: Sequence[str]
    port_queues: Sequence[str]
    counters: Path | None
    datapath: str
    hook: str
    rps_cpu: int | None
    pin: Path | None
    unpin: Path | None
    trace: Path | None
    trace_filters: Sequence[str]
    dp_grpc_server_addr: str | None
    busy_poll: bool
    log_level: str


def make_settings(options: Options) -> Settings:
    """Return the settings; raises UsageError for options that exclude each other, SwitchError for values."""
    if (options.program is None) != options.no_p4:
        raise click.UsageError("give either PROGRAM or --no-p4")
    if options.p4info is not None and options.program is None:
        raise click.UsageError("--p4info goes with PROGRAM")
    credentials = _credentials(options.tls_cert, options.tls_key, options.tls_ca)
    ports = parse_options_by_port("-i", options.interfaces, parse_interface)
    impairments = parse_options_by_port("--impair", options.impairments, parse_impairment)
    datapath = Datapath(options.datapath)
    _check_kernel_options(options, datapath)
    rates = parse_options_by_port("--port-rate", options.port_rates, parse_port_rate)
    depths = parse_options_by_port("--port-queue", options.port_queues, parse_port_queue)
    for flag, values in (("--port-rate", rates), ("--port-queue", depths), ("--trace", options.trace)):
        if values and (datapath is Datapath.KERNEL or options.pin is not None):
            conflict = "--pin" if options.pin is not None else "--datapath kernel"
            raise click.UsageError(f"{flag} goes with --datapath sockets or auto, not with {conflict}")
    shapes = make_shapes(ports, rates, depths)
    if options.trace_filters and options.trace is None:
        raise click.UsageError("--trace-filter goes with --trace")
    frames = None
    if options.dp_grpc_server_addr is not None:
        _refuse_interface_options(options, datapath)
        frames = FrameTransport("grpc", options.dp_grpc_server_addr)
    is_open = options.allow_everyone or options.tls_ca is not None
    return Settings(
        program=options.program,
        p4info=options.p4info,
        include_folders=options.include_folders,
        definitions=options.definitions,
        ports=ports,
        device_id=options.device_id,
        addresses=(options.grpc_server_addr,),
        credentials=credentials,
        access=make_policy(options.allowed_users, is_open),
        priority_queues=options.priority_queues,
        cpu_port=options.cpu_port,
        impairments=impairments,
        shapes=shapes,
        counters=options.counters,
        datapath=datapath,
        hook=options.hook,
        pin=options.pin,
        rps_cpu=options.rps_cpu,
        busy_poll=options.busy_poll,
        trace=options.trace,
        trace_filters=tuple(options.trace_filters),
        frames=frames,
    )


def _check_kernel_options(options: Options, datapath: Datapath) -> None:
    if datapath is Datapath.SOCKETS and options.hook != TCX:
        raise click.UsageError(f"--hook {options.hook} goes with --datapath kernel or auto")
    if options.rps_cpu is not None and (datapath is Datapath.SOCKETS or options.hook == XDP):
        conflict = "--datapath sockets" if datapath is Datapath.SOCKETS else f"--hook {XDP}"
        raise click.UsageError(f"--rps-cpu goes with --datapath kernel or auto, not with {conflict}")
    if datapath is Datapath.SOCKETS and options.pin is not None:
        raise click.UsageError("--pin goes with --datapath kernel or auto")


def _refuse_interface_options(options: Options, datapath: Datapath) -> None:
    given: dict[str, object] = {
        "-i": options.interfaces,
        "--impair": options.impairments,
        "--port-rate": options.port_rates,
        "--port-queue": options.port_queues,
        "--datapath": datapath is not Datapath.AUTO,
        "--pin": options.pin,
        "--trace": options.trace,
        "--rps-cpu": options.rps_cpu is not None,
        "--busy-poll": options.busy_poll,
    }
    for flag, value in given.items():
        if value:
            raise click.UsageError(f"{flag} goes with interfaces, not with --dp-grpc-server-addr")


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if argument != "--"]
    try:
        command.main(arguments, prog_name="softswitch")
    except SwitchError as error:
        sys.exit(f"softswitch: error: {error}")


def _credentials(cert: Path | None, key: Path | None, ca: Path | None) -> grpc.ServerCredentials | None:
    if cert is None and key is None and ca is None:
        return None
    if cert is None or key is None:
        raise click.UsageError("TLS needs --tls-cert and --tls-key")
    return load_credentials(cert, key, ca)
