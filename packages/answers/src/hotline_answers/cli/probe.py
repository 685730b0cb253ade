from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from pydantic import Field

from foundation.settings import Strict
from hotline.cli.common import (
    into_option,
    json_option,
    number_cells,
    one_line_errors,
    print_json,
    print_plain_table,
)
from hotline.cli.examples import add_example
from hotline.cli.fields import fills
from hotline.cli.interruption import INTERRUPTED
from hotline_answers.probe.processes import MAX_PID, MAX_PORT

if TYPE_CHECKING:
    from hotline_answers.probe.report import ProbeDistribution, ProbeReport
    from hotline_answers.probe.watch import WatchedServer

_POLL_S = 0.05
_MAX_SECONDS = 86_400


class ProbeSettings(Strict):
    pid: int | None = Field(default=None, ge=1, le=MAX_PID)
    """Process to watch, with its threads and the processes that it starts; None means those at the port."""
    port: int | None = Field(default=None, ge=1, le=MAX_PORT)
    """Port to watch; None means all at which the process listens over TCP or has a UDP socket."""
    seconds: float = Field(default=60.0, gt=0, le=_MAX_SECONDS)
    """Duration of the watch; Ctrl-C ends it earlier."""
    by_address: bool = False
    """Take all connections of a peer's address as one, for libraries that spread a request over several
    (torch.distributed.rpc)."""
    ps: int = Field(default=1, ge=1, le=65_535)
    """Number of this server in the log of connections, to put logs of several servers together."""


class _Watched(NamedTuple):
    server: WatchedServer
    end: str | None  # why it ended early, if so


@click.command()
@fills(ProbeSettings, "settings", pid={"metavar": "PID"}, port={"metavar": "PORT"})
@into_option("Folder for hosts.toml and connections.parquet.", Path("runs/probe"))
@json_option
def probe(settings: ProbeSettings, into: Path, as_json: bool) -> None:
    """Watch the sockets of a server of any make for a minute (root).

    RDMA and shared memory are out of its sight. It sees TCP and UDP: requests, bytes, connections, the CPU
    time of a request, and times from a request's arrival to its read and from there to its answer. A request
    over TCP is what the server reads before it writes again; over UDP it is a datagram.

    Writes hosts.toml for `hotline answer --hosts`, and connections.parquet, a log of requests by connection.
    """
    from foundation.logs.parts import check_output, make_folder
    from hotline_answers.probe.report import HOSTS_FILE, LOG_FILE, evaluate, write_files

    if settings.pid is None and settings.port is None:
        raise click.UsageError("give --pid PID or --port PORT, or both")
    with one_line_errors():
        pids = _find_processes(settings)
        make_folder(into)
        for name in (HOSTS_FILE, LOG_FILE):
            check_output(into / name)
        watched = _watch(settings, pids)
        report, log = evaluate(watched.server, [watched.end] if watched.end else [], settings.by_address)
        write_files(into, report, log, settings.ps)
    for note in report.notes:
        click.echo(f"hotline: {note}", err=True)
    if as_json:
        print_json({**report.model_dump(), "cpu_us_per_request": report.cpu_us_per_request})
    else:
        _print(report)
        click.echo(f"wrote {into / HOSTS_FILE} and {into / LOG_FILE}")
    if watched.end == _INTERRUPTED:
        raise click.exceptions.Exit(INTERRUPTED)


add_example(probe, "--pid 1234")
_INTERRUPTED = "interrupted; the results are of the time until then"


def _find_processes(settings: ProbeSettings) -> tuple[int, ...]:
    from hotline_answers.probe.processes import ProbeError, check_process, processes_at, served_ports
    from hotline_answers.probe.report import OUT_OF_SIGHT

    if os.geteuid() != 0:
        raise ProbeError(
            f"expected root, which may watch the sockets of other processes, got user {os.geteuid()}"
        )
    if settings.pid is None:
        assert settings.port is not None
        return processes_at(settings.port)
    check_process(settings.pid)
    if served_ports([settings.pid], settings.port):
        return (settings.pid,)
    others = ", ".join(map(str, sorted(served_ports([settings.pid])))) or "none"
    expected = "a port" if settings.port is None else f"port {settings.port}"
    raise ProbeError(
        f"--pid {settings.pid}: expected a process that listens over TCP or has a UDP socket at {expected}; "
        f"it has {others}. {OUT_OF_SIGHT}"
    )


def _watch(settings: ProbeSettings, pids: tuple[int, ...]) -> _Watched:
    from experiment.progress import progress_bar
    from foundation.errors import HotlineError
    from hotline_answers.probe.watch import MAX_EVENTS, ServerWatch
    from softswitch.errors import KernelError

    try:
        watch = ServerWatch(pids, settings.port)
    except KernelError as error:
        raise HotlineError(f"the kernel does not let this process watch sockets: {error}") from error
    end = None
    try:
        processes = ", ".join(map(str, watch.processes.pids))
        click.echo(
            f"watching process {processes} at {', '.join(map(str, sorted(watch.served)))} for "
            f"{settings.seconds:g} s; Ctrl-C ends it and writes what was seen",
            err=True,
        )
        begin = time.monotonic()
        try:
            with progress_bar("watching, s") as progress:
                while (elapsed := time.monotonic() - begin) < settings.seconds and end is None:
                    progress(int(elapsed), int(settings.seconds))
                    time.sleep(min(_POLL_S, settings.seconds - elapsed))
                    watch.poll()
                    if watch.processes.have_ended:
                        end = (
                            f"the process ended after {elapsed:.1f} s; the results are of the time until then"
                        )
                    elif watch.count >= MAX_EVENTS:
                        end = f"ended after {elapsed:.1f} s, with {watch.count:,} reads and writes"
        except KeyboardInterrupt:
            end = _INTERRUPTED
        return _Watched(watch.finish(), end)
    finally:
        watch.close()


def _print(report: ProbeReport) -> None:
    rows = [
        ("requests", f"{report.requests:,}", f"{report.requests / report.seconds:,.1f} a second"),
        ("answered", f"{report.answered:,}", "by a later write in the same connection"),
        ("bytes in", f"{report.bytes_in:,}", f"{report.bytes_in / report.requests:,.1f} a request"),
        ("bytes out", f"{report.bytes_out:,}", f"{report.bytes_out / report.requests:,.1f} a request"),
        ("connections", f"{report.connections:,}", _concurrency(report.concurrent)),
        ("CPU time, µs a request", f"{report.cpu_us_per_request:,.1f}", _cpu(report)),
        *_times("arrival to read, µs", report.wait_us),
        *_times("read to answer, µs", report.service_us),
        ("others' CPU", f"{report.others_cpu_share:.1%}", _contention(report)),
    ]
    columns = [f"{report.seconds:.1f} s at {', '.join(report.ports)}", "", ""]
    print_plain_table(columns, [(name, *number_cells(value), text) for name, value, text in rows])


def _concurrency(concurrent: ProbeDistribution) -> str:
    return (
        f"in windows of 1,000 µs: mean {concurrent.mean:.1f}, p50 {concurrent.p50:.0f}, "
        f"p99 {concurrent.p99:.0f}, max {concurrent.max:.0f}"
    )


def _cpu(report: ProbeReport) -> str:
    cores = report.cpu_us / 1e6 / report.seconds
    text = f"{cores:.2f} cores busy; processes: {report.processes}"
    if report.rpcs_per_request == 1:
        return text
    return f"{text}; as large as {report.rpcs_per_request:,.1f} RPCs of Hotline's"


def _contention(report: ProbeReport) -> str:
    return (
        f"of all CPUs' time; steal {report.steal_share:.1%}, longest wait for a CPU "
        f"{report.longest_wait_share:.1%} of the time"
    )


def _times(name: str, times: ProbeDistribution | None) -> list[tuple[str, str, str]]:
    if times is None:
        return [(name, "–", "not seen")]
    return [
        (
            name,
            f"{times.mean:,.1f}",
            f"p50 {times.p50:,.1f}, p99 {times.p99:,.1f}, of {times.count:,} requests",
        )
    ]
