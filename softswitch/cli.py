"""The switch's command line, shaped like that of `simple_switch_grpc`."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import click
import grpc
from google.protobuf import text_format
from google.protobuf.message import DecodeError

from softswitch import __version__
from softswitch.datapath import Datapath, LivePipeline, SwitchPorts
from softswitch.errors import ProgramError, SwitchError
from softswitch.kernel.errors import KernelError
from softswitch.kernel.hooks import Hook
from softswitch.kernel.pins import unpin as give_up
from softswitch.p4runtime import P4RuntimeServer
from softswitch.p4runtime.kept import Kept
from softswitch.p4runtime.messages import p4i, p4r
from softswitch.p4runtime.status import Refusal
from softswitch.p4runtime.tls import load_credentials
from softswitch.ports import SwitchCounters, parse_impairment
from softswitch.ports.report import describe
from softswitch.ports.shaping import parse_port_queue, parse_port_rate, shapes_of
from softswitch.runtime.service import runtime_handlers
from softswitch.runtime.switch import SwitchRuntime
from softswitch.v1model import DROP_PORT
from softswitch.words import counted

_LOG = logging.getLogger(__name__)
K = TypeVar("K")
V = TypeVar("V")
BINARY_P4INFO = (".bin", ".binpb", ".pb")  # other names are of protobuf text
GRPC_LOGGER = "grpc._cython.cygrpc"
_RPCS_END_S = 1.0
# Table entries are many objects that live long: look for cycles among them seldom.
GC_THRESHOLDS = (100_000, 50, 100)


def parse_interface(text: str) -> tuple[int, str]:
    """Read PORT@INTERFACE, as `1@s1-eth1`."""
    found = re.fullmatch(r"(\d+)@(\S+)", text)
    if found is None:
        raise SwitchError(f"{text!r} is not PORT@INTERFACE, as 1@s1-eth1")
    return int(found[1]), found[2]


def is_no_cancellation(record: logging.LogRecord) -> bool:
    """Whether to log a record: to gRPC it is worth one when a call is cancelled because the switch ends."""
    cancelled = record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not cancelled and "due to server stop" not in record.getMessage()


@click.command()
@click.version_option(__version__)
@click.argument("program", required=False, type=click.Path(path_type=Path))
@click.option(
    "-i",
    "--interface",
    "interfaces",
    multiple=True,
    metavar="PORT@INTERFACE",
    help="A port; repeat it for each.",
)
@click.option("--p4info", type=click.Path(path_type=Path), help="P4Info of PROGRAM, for its control.")
@click.option("--no-p4", is_flag=True, help="Start without PROGRAM and wait for one over P4Runtime.")
@click.option("--device-id", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--grpc-server-addr", default="127.0.0.1:9559", show_default=True, metavar="HOST:PORT")
@click.option("--tls-cert", type=click.Path(path_type=Path), help="Certificate of the gRPC port, for TLS.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its private key.")
@click.option("--tls-ca", type=click.Path(path_type=Path), help="Clients need a certificate of this CA.")
@click.option(
    "--priority-queues",
    type=click.IntRange(1, 8),
    default=1,
    show_default=True,
    help="Packets of a higher `priority` are dropped.",
)
@click.option("--cpu-port", type=click.IntRange(1, DROP_PORT - 1), help="Number of the controller's port.")
@click.option(
    "--impair",
    "impairments",
    multiple=True,
    metavar="PORT:in|out:loss=P,dup=P,reorder=P,seed=N",
    help="Lose, duplicate or reorder frames; repeat it for each port and direction.",
)
@click.option(
    "--port-rate",
    "port_rates",
    multiple=True,
    metavar="PORT=RATE",
    help="What a port sends at most, as 1=1000pps or 1=10mbit; *=RATE is for all. Repeat it for each.",
)
@click.option(
    "--port-queue",
    "port_queues",
    multiple=True,
    metavar="PORT=DEPTH",
    help="What waits for a port at most, as 1=64 packets or 1=64kb; 64 packets unless told otherwise.",
)
@click.option(
    "--counters",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the counters of the ports here, as JSON: at the start, at SIGUSR1, and at the end.",
)
@click.option(
    "--datapath",
    type=click.Choice([each.value for each in Datapath]),
    default=Datapath.AUTO.value,
    show_default=True,
    help="Process packets in the kernel (BPF) or by packet sockets; auto: in the kernel where it can.",
)
@click.option(
    "--hook",
    type=click.Choice([each.value for each in Hook]),
    default=Hook.TCX.value,
    show_default=True,
    help="Where the kernel runs it; xdp: in the driver of a NIC, for programs that copy no frame.",
)
@click.option(
    "--pin",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Packets go on when the switch ends; the next one with DIR has its tables and registers.",
)
@click.option(
    "--unpin",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Give up what DIR keeps, and nothing else.",
)
@click.option("--busy-poll", is_flag=True, help="Spin for frames: lower latency for a whole core.")
@click.option(
    "-L",
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
)
def command(
    program: Path | None,
    interfaces: Sequence[str],
    p4info: Path | None,
    no_p4: bool,
    device_id: int,
    grpc_server_addr: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_ca: Path | None,
    priority_queues: int,
    cpu_port: int | None,
    impairments: Sequence[str],
    port_rates: Sequence[str],
    port_queues: Sequence[str],
    counters: Path | None,
    datapath: str,
    hook: str,
    pin: Path | None,
    unpin: Path | None,
    busy_poll: bool,
    log_level: str,
) -> None:
    """Run PROGRAM (BMv2 JSON, as p4c-bm2-ss prints it) on some ports, under P4Runtime.

    As with simple_switch_grpc, a `--` may stand before the options of the target. SIGUSR1 prints the counters
    of the ports, which are logged at the end too, at level `info`.
    """
    if unpin is not None:
        give_up(unpin)
        return
    if (program is None) != no_p4:
        raise click.UsageError("give either PROGRAM or --no-p4")
    if p4info is not None and program is None:
        raise click.UsageError("--p4info goes with PROGRAM")
    credentials = _credentials(tls_cert, tls_key, tls_ca)
    logging.basicConfig(level=log_level.upper(), format="softswitch: %(levelname)s: %(message)s")
    logging.getLogger(GRPC_LOGGER).addFilter(is_no_cancellation)
    numbered = _by_key("-i", interfaces, parse_interface)
    impaired = _by_key("--impair", impairments, parse_impairment)
    wanted = Datapath(datapath)
    if wanted is Datapath.SOCKETS and Hook(hook) is not Hook.TCX:
        raise click.UsageError(f"--hook {hook} goes with --datapath kernel or auto")
    if wanted is Datapath.SOCKETS and pin is not None:
        raise click.UsageError("--pin goes with --datapath kernel or auto")
    rates = _by_key("--port-rate", port_rates, parse_port_rate)
    depths = _by_key("--port-queue", port_queues, parse_port_queue)
    for flag, given in (("--port-rate", rates), ("--port-queue", depths)):
        if given and (wanted is Datapath.KERNEL or pin is not None):
            what = "--pin" if pin is not None else "--datapath kernel"
            raise click.UsageError(f"{flag} goes with --datapath sockets or auto, not with {what}")
    shapes = shapes_of(numbered, rates, depths)
    with SwitchPorts(
        numbered, cpu_port, impaired, busy_poll, wanted, priority_queues, Hook(hook), pin, shapes
    ) as ports:
        server = P4RuntimeServer[LivePipeline](device_id, ports, ports.make, ports.folder_of)
        if ports.kept is not None:
            _go_on(server, ports, ports.kept, program, p4info)
        elif program is not None:
            _load(server, program, p4info)
        if wanted is not Datapath.SOCKETS:
            print(f"softswitch: {ports.describe_datapath()}", file=sys.stderr, flush=True)
        count = partial(_count, ports, server)
        _write(count(), counters)
        report = partial(_report, count, counters)
        runtime = SwitchRuntime[LivePipeline](server.pipelines, ports, device_id)
        server.beside.append(runtime_handlers(runtime, server.changed))
        asyncio.run(_serve(server, grpc_server_addr, credentials, len(interfaces), report))
        ports.stop()
        for line in describe(count()):
            _LOG.info("%s", line)
        _write(count(), counters)


def main() -> None:
    """Run the switch; errors are one line on stderr, and the exit status is not 0."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--"]
    try:
        command.main(arguments, prog_name="softswitch")
    except SwitchError as error:
        sys.exit(f"softswitch: error: {error}")


async def _serve(
    server: P4RuntimeServer[LivePipeline],
    address: str,
    credentials: grpc.ServerCredentials | None,
    ports: int,
    report: Callable[[], None],
) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, report)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    port = await server.start(address, credentials)
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    host = address.rpartition(":")[0]
    ready = f"{counted(ports, 'port')}, P4Runtime on {host}:{port}"
    print(f"softswitch: ready: {ready}", file=sys.stderr, flush=True)
    await stop.wait()
    await server.stop()
    # gRPC's own: cancelled with the loop, each that a client has just left would print a traceback.
    if rest := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(rest, timeout=_RPCS_END_S)


def _count(ports: SwitchPorts, server: P4RuntimeServer[LivePipeline]) -> SwitchCounters:
    return ports.counters()._replace(lost_messages=server.lost_messages)


def _report(count: Callable[[], SwitchCounters], file: Path | None) -> None:
    counters = count()
    for line in describe(counters):
        print(f"softswitch: {line}", file=sys.stderr)
    sys.stderr.flush()
    try:
        _write(counters, file)
    except SwitchError as error:  # the switch goes on without
        _LOG.error("%s", error)


def _write(counters: SwitchCounters, file: Path | None) -> None:
    if file is not None:
        counters.write(file)


def _credentials(cert: Path | None, key: Path | None, ca: Path | None) -> grpc.ServerCredentials | None:
    if cert is None and key is None and ca is None:
        return None
    if cert is None or key is None:
        raise click.UsageError("TLS needs --tls-cert and --tls-key")
    return load_credentials(cert, key, ca)


def _load(server: P4RuntimeServer[LivePipeline], program: Path, p4info: Path | None) -> None:
    data = _read(program)
    message = _p4info(p4info) if p4info is not None else None
    try:
        config = p4r.ForwardingPipelineConfig(p4info=message, p4_device_config=data)
        if message is not None:
            server.load(config)
        else:
            server.pipelines.load_bare(data)
    except (ProgramError, Refusal) as error:
        beside = "" if p4info is None else f" with {p4info}"
        raise SwitchError(f"{program}{beside}: {error}") from error


def _go_on(
    server: P4RuntimeServer[LivePipeline],
    ports: SwitchPorts,
    folder: Path,
    program: Path | None,
    p4info: Path | None,
) -> None:
    """Go on with the program that packets meet, which must be the one that is asked for."""
    kept = Kept(folder)
    config = kept.config()
    give_up_hint = f"`--unpin {folder.parent}` gives it up"
    if program is not None and _read(program) != config.p4_device_config:
        raise SwitchError(
            f"{program}: {folder.parent} keeps another program: `--no-p4` goes on with that, {give_up_hint}"
        )
    if p4info is not None and _p4info(p4info) != config.p4info:
        raise SwitchError(f"{p4info}: {folder.parent} keeps another P4Info: leave it out; {give_up_hint}")
    try:
        server.go_on(kept, ports.make_kept)
    except (KernelError, Refusal) as error:
        raise SwitchError(f"--pin {folder.parent}: {error}; {give_up_hint}") from error
    print(f"softswitch: goes on with what {folder.parent} keeps", file=sys.stderr, flush=True)


def _by_key(option: str, texts: Iterable[str], parse: Callable[[str], tuple[K, V]]) -> dict[K, V]:
    found: dict[K, V] = {}
    for text in texts:
        key, value = parse(text)
        if key in found:
            raise SwitchError(f"{option} {text}: that port has one already")
        found[key] = value
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SwitchError(f"{path}: {error.strerror}") from None


def _p4info(path: Path) -> p4i.P4Info:
    data = _read(path)
    try:
        if path.suffix in BINARY_P4INFO:
            return p4i.P4Info.FromString(data)
        return text_format.Parse(data, p4i.P4Info())
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        form = "binary" if path.suffix in BINARY_P4INFO else "text"
        reason = str(error) or f"the file is binary; names of binary P4Info end in {', '.join(BINARY_P4INFO)}"
        raise SwitchError(f"{path} is not P4Info in protobuf's {form} format: {reason}") from None
