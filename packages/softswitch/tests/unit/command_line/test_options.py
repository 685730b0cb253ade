"""The switch's command line: what it refuses, in which words, and how it ends."""

import asyncio
import json
import logging
import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT, SIGTERM, SIGUSR1
from types import SimpleNamespace
from typing import IO, Any, cast

import pytest

import softswitch
from softswitch import cli, verbs
from softswitch import running as life
from softswitch.datapath import SwitchPorts
from softswitch.errors import SwitchError
from softswitch.kernel.hooks import Hook
from softswitch.machine import Machine
from softswitch.ports.report import PortCounters, SwitchCounters
from softswitch.settings import HOOKS, Settings
from switch_harness import PROGRAMS
from switch_harness.p4runtime import asynchronous
from switch_harness.waiting import wait_for
from switch_harness.wording import says, says_in_one_line

PROGRAM = PROGRAMS / "control.json"
P4INFO = PROGRAM.with_suffix(".p4info.txtpb")
ROOT = Path(__file__).parents[3]


@pytest.fixture
def taken() -> Iterator[str]:
    """Return an address with a listening socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str | int | None:
    """What the process would exit with."""
    monkeypatch.setattr(sys, "argv", ["softswitch", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def test_a_hook_is_refused_without_the_kernel_datapath(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, str(PROGRAM), "--datapath", "sockets", "--hook", "xdp") == 2
    assert says(capsys.readouterr().err, "--hook", "--datapath")


def test_the_command_offers_the_hooks_of_the_kernel_datapath() -> None:
    assert [each.value for each in Hook] == list(HOOKS)


@contextmanager
def running(*options: str) -> Iterator[subprocess.Popen[str]]:
    """A switch that says it is ready, and does not outlive the test."""
    command = [
        sys.executable,
        "-m",
        "softswitch",
        str(PROGRAM),
        "--grpc-server-addr",
        "127.0.0.1:0",
        *options,
    ]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as switch:
        try:
            yield switch
        finally:
            switch.kill()


def lines(switch: subprocess.Popen[str]) -> IO[str]:
    """What it prints."""
    assert switch.stderr is not None
    return switch.stderr


def next_line(switch: subprocess.Popen[str]) -> str:
    """Return the next line of output, without those of a first start."""
    line = lines(switch).readline()
    return lines(switch).readline() if line.startswith("softswitch: compiling the switch") else line


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["nothing.json"], "nothing.json: No such file or directory"),
        (
            [str(P4INFO)],
            f"{P4INFO}: the BMv2 JSON is not JSON: line 1, column 1: expected a value, "
            "got '# proto-file: p4/con'",
        ),
        ([str(PROGRAM), "--p4info", "nothing.txtpb"], "nothing.txtpb: No such file or directory"),
        (
            [str(PROGRAM), "--p4info", str(PROGRAM)],
            f"{PROGRAM} is not P4Info in protobuf's text format: "
            '1:1 : \'{"header_types":[{"name":"scalars_0","id...\': Expected identifier or number, got {.',
        ),
        (["--no-p4", "-i", "s1-eth1"], "expected PORT@INTERFACE, as 1@s1-eth1, got 's1-eth1'"),
        (["--no-p4", "-i", "1@lo", "-i", "1@eth0"], "-i 1@eth0: the option is given twice for this port"),
        (["--no-p4", "-i", "1@nowhere"], "port 1: there is no interface 'nowhere' here"),
        (
            ["--no-p4", "--impair", "1:in:loss=2"],
            "impairment '1:in:loss=2': loss is '2', expected a probability from 0 to 1",
        ),
        (
            ["--no-p4", "--impair", "1:in:loss=0.1", "--impair", "1:in:dup=0.1"],
            "--impair 1:in:dup=0.1: the option is given twice for this port",
        ),
        (
            ["--no-p4", "--port-rate", "1:1000pps"],
            "--port-rate 1:1000pps: expected a port, or * for all, with its value, as 1=1000pps",
        ),
        (
            ["--no-p4", "--port-rate", "1=fast"],
            "--port-rate 1=fast: rate 'fast': expected a whole number with one of "
            "pps, bit, kbit, mbit, gbit, up to 1000gbit, as 1000pps or 10mbit",
        ),
        (
            ["--no-p4", "--port-queue", "*=64kib"],
            "--port-queue *=64kib: queue '64kib': expected packets from 1 to 65536, or bytes with one of "
            "b, kb, mb, up to 3840kb, as 64 or 64kb",
        ),
        (
            ["--no-p4", "--port-rate", "1=1mbit", "--port-rate", "01=2mbit"],
            "--port-rate 01=2mbit: the option is given twice for this port",
        ),
        (
            ["--no-p4", "--port-queue", "7=64"],
            "rate or queue of port 7: the switch has no such port",
        ),
        (
            ["--no-p4", "--counters", "/nowhere/counters.json"],
            "counters cannot be written to /nowhere/counters.json: No such file or directory",
        ),
        (["--no-p4", "--trace", "/nowhere/t.jsonl"], "--trace /nowhere/t.jsonl: No such file or directory"),
        (
            [str(PROGRAM), "--trace", "/dev/null", "--trace-filter", "table=pear"],
            "filter table=pear: the program has no table 'pear': there are tbl_control113, "
            "ControlIngress.pairs, ControlIngress.types, ControlIngress.forward, tbl_control119, "
            "tbl_control122",
        ),
        (["--no-p4", "--grpc-server-addr", "here"], "cannot listen on 'here': expected HOST:PORT"),
        (["--no-p4", "--grpc-server-addr", "999"], "cannot listen on '999': expected HOST:PORT"),
    ],
)
def test_errors_of_the_command_are_one_line(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], error: str
) -> None:
    assert run(monkeypatch, *arguments) == f"softswitch: error: {error}"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "give either PROGRAM or --no-p4"),
        ([str(PROGRAM), "--no-p4"], "give either PROGRAM or --no-p4"),
        (["--no-p4", "--p4info", str(P4INFO)], "--p4info goes with PROGRAM"),
        (
            ["--no-p4", "--datapath", "kernel", "--port-rate", "*=10mbit"],
            "--port-rate goes with --datapath sockets or auto, not with --datapath kernel",
        ),
        (
            ["--no-p4", "--pin", "/nowhere", "--port-queue", "*=64"],
            "--port-queue goes with --datapath sockets or auto, not with --pin",
        ),
        (
            ["--no-p4", "--datapath", "kernel", "--trace", "trace.jsonl"],
            "--trace goes with --datapath sockets or auto, not with --datapath kernel",
        ),
        (
            ["--no-p4", "--pin", "/nowhere", "--trace", "trace.jsonl"],
            "--trace goes with --datapath sockets or auto, not with --pin",
        ),
        (
            ["--no-p4", "--dp-grpc-server-addr", "127.0.0.1:0", "-i", "1@veth0"],
            "-i goes with interfaces, not with --dp-grpc-server-addr",
        ),
        (["--no-p4", "--trace-filter", "kind=drop"], "--trace-filter goes with --trace"),
        (["--no-p4", "--tls-cert", "cert.pem"], "TLS needs --tls-cert and --tls-key"),
        (["--no-p4", "--tls-ca", "ca.pem"], "TLS needs --tls-cert and --tls-key"),
        (
            ["--no-p4", "--cpu-port", "511"],
            "Invalid value for '--cpu-port': 511 is not in the range 1<=x<=510.",
        ),
    ],
)
def test_usage_errors_are_reported_with_exit_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    assert run(monkeypatch, *arguments) == 2
    assert capsys.readouterr().err.endswith(f"\nError: {error}\n")


def test_a_taken_grpc_port_is_one_error(monkeypatch: pytest.MonkeyPatch, taken: str) -> None:
    error = f"softswitch: error: cannot listen on {taken}: Address already in use"
    assert run(monkeypatch, "--no-p4", "--grpc-server-addr", taken) == error


def test_an_empty_or_unreadable_p4info_is_one_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    p4info = tmp_path / "p4info.txtpb"
    p4info.write_text("")
    assert says_in_one_line(
        run(monkeypatch, str(PROGRAM), "--p4info", str(p4info)),
        "softswitch",
        "error",
        "P4Info",
        "ControlIngress.pairs",
        PROGRAM,
        p4info,
    )
    p4info.write_bytes(b"\xff\xfe")
    assert says_in_one_line(
        run(monkeypatch, str(PROGRAM), "--p4info", str(p4info)),
        "softswitch",
        "error",
        "P4Info",
        "format",
        ".bin",
        ".binpb",
        ".pb",
        p4info,
    )


def test_the_counters_of_the_ports_come_by_signal_and_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "counters.json"
    nothing: dict[str, object] = {**dict.fromkeys(PortCounters._fields[1:], 0), "program_runs": []}
    written = {
        "ports": {"255": {"name": "CPU", **nothing}},
        "no_such_port": 0,
        "lost_notices": 0,
        "lost_messages": 0,
        "datapath": "sockets",
    }
    counters = "port 255 (CPU): received 0, sent 0"
    options = ("--cpu-port", "255", "--datapath", "sockets", "--log-level", "info")
    with running(*options, "--counters", str(file)) as switch:
        assert says_in_one_line(next_line(switch), "softswitch", "INFO")
        assert says(next_line(switch), "softswitch", "ready", 0)
        assert json.loads(file.read_bytes()) == written
        for _ in range(2):
            file.unlink()
            switch.send_signal(SIGUSR1)
            assert lines(switch).readline() == f"softswitch: {counters}\n"
            wait_for(file.exists)
            assert json.loads(file.read_bytes()) == written
        file.unlink()
        switch.send_signal(SIGTERM)
        assert lines(switch).read() == f"softswitch: INFO: {counters}\n"
        assert switch.wait() == 0
    assert json.loads(file.read_bytes()) == written


def test_counters_printed_by_signal_include_lost_messages(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "counters.json"
    machine = object.__new__(Machine)
    machine.ports = cast(
        SwitchPorts,
        SimpleNamespace(counters=lambda: SwitchCounters({}, no_such_port=0, lost_notices=7)),
    )
    machine._server = cast(Any, SimpleNamespace(lost_messages=9))
    machine._settings = Settings(counters=file)
    machine.report()
    assert capsys.readouterr().err == (
        "softswitch: digests and log records lost (not read in time): 7\n"
        "softswitch: messages to controllers lost (not read in time): 9\n"
    )
    written = json.loads(file.read_bytes())
    assert (written["lost_notices"], written["lost_messages"]) == (7, 9)
    file.unlink()
    file.mkdir()
    machine.report()  # logged; the switch goes on


@pytest.mark.parametrize(("error", "logged"), [(asyncio.CancelledError(), 0), (ValueError(), 1)])
def test_calls_that_end_with_the_switch_are_no_errors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: BaseException, logged: int
) -> None:
    run(monkeypatch, "--no-p4", "--grpc-server-addr", "here")
    try:
        raise error
    except BaseException:
        logging.getLogger(life.GRPC_LOGGER).exception("Exception not handled by _handle_exceptions")
    logging.getLogger(life.GRPC_LOGGER).warning("Aborting method [%s] due to server stop.", "/Read")
    assert len(caplog.records) == logged


class Ending:
    """A server that a signal ends as soon as it serves, and of whose calls one ends after it."""

    def __init__(self, turns: float) -> None:
        self._turns = turns
        self.call: asyncio.Task[None] | None = None
        self.extra_handlers: list[object] = []

    async def start(self, address: str, credentials: object, *more: str) -> int:
        return 9559

    def begin(self) -> None:
        os.kill(os.getpid(), SIGTERM)

    def reschedule_notifications(self) -> None:
        pass

    async def stop(self) -> None:
        self.call = self.call or asyncio.create_task(self._end())

    async def _end(self) -> None:
        while self._turns > 0:
            self._turns -= 1
            await asyncio.sleep(0)


@pytest.mark.parametrize(("turns", "cancelled"), [(10, False), (float("inf"), True)])
def test_calls_that_have_just_ended_are_waited_for_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, turns: float, cancelled: bool
) -> None:
    """Cancelled with the loop, a call of gRPC's prints a traceback."""
    monkeypatch.setattr(life, "_RPC_END_TIMEOUT_S", 0.1 if cancelled else 60.0)
    monkeypatch.setattr(life, "gc", SimpleNamespace(freeze=lambda: None))
    server: Any = Ending(turns)
    loops: list[object] = []
    machine: Any = SimpleNamespace(
        report=None, close=lambda: None, runtime=None, watch_interfaces=loops.append
    )
    assert asyncio.run(life.serve(Settings(), server, lambda: machine))
    assert server.call.cancelled() is cancelled
    assert len(loops) == 1


def test_too_low_a_limit_of_open_files_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = (0, 0)

    def set_limits(_: int, new: tuple[int, int]) -> None:
        nonlocal limits
        limits = new

    monkeypatch.setattr("resource.getrlimit", lambda _: limits)
    monkeypatch.setattr("resource.setrlimit", set_limits)
    monkeypatch.setattr("softswitch.running.asyncio.run", lambda coroutine: coroutine.close() or True)
    ports = {port: f"s{port}" for port in range(1, 65)}
    for limits in ((16, 16), (16, 100)):  # soft and hard
        with pytest.raises(SwitchError) as refused:
            life.run(Settings(ports=ports))
        assert says_in_one_line(refused.value, "ulimit -n", limits[1])
    infinite = resource.RLIM_INFINITY
    for limits in ((16, 4096), (16, infinite)):
        life.run(Settings(ports=ports))
        assert limits[0] > 4 * len(ports)
    for limits in ((4096, 8192), (infinite, infinite)):
        before = limits
        life.run(Settings(ports=ports))
        assert limits == before


def test_an_interrupt_during_imports_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verbs, "import_module", interrupted)
    with pytest.raises(SystemExit) as ended:
        verbs.main()
    assert ended.value.code == 128 + SIGINT


@asynchronous
async def test_a_machine_follows_changes_of_interfaces() -> None:
    changes, kernel = socket.socketpair()
    followed = asyncio.Event()
    machine, ports = object.__new__(Machine), object.__new__(SwitchPorts)
    machine.ports, ports.interface_watch = ports, cast(Any, changes)
    ports.follow_interfaces = followed.set  # type: ignore[method-assign]  # it only has to be called
    with changes, kernel:
        machine.watch_interfaces(asyncio.get_running_loop())
        kernel.send(b"!")
        await followed.wait()
        asyncio.get_running_loop().remove_reader(changes)


@pytest.mark.parametrize("number", [SIGINT, SIGTERM])
def test_a_signal_ends_the_switch_without_output(number: int) -> None:
    with running() as switch:
        assert says(next_line(switch), "softswitch", "datapath")
        assert says(lines(switch).readline(), "softswitch", "ready", 0, "P4Runtime", "127.0.0.1")
        switch.send_signal(number)
        assert lines(switch).read() == ""
        assert switch.wait() == 0


@pytest.mark.soak
def test_set_up_compiles_all_code_that_the_first_start_needs(tmp_path: Path) -> None:
    """A copy of the package that was warmed starts without compiling anything of its own."""
    package = Path(softswitch.__file__).parent
    shutil.copytree(package, tmp_path / "softswitch", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-m", "softswitch.warm"], env=environment, cwd=tmp_path, check=True)
    before = sorted(tmp_path.rglob("*.nbc"))
    assert before
    start = (
        "from softswitch.compiled import CompiledPipeline as C;from softswitch.load import load_program as l;"
        "from softswitch.ports.loop import PortLoop; from softswitch.ports.options import PortOptions;"
        "from pathlib import Path; import sys;"
        "C(l(Path(sys.argv[1]).read_bytes())); PortLoop({}, PortOptions(1)).close()"
    )
    subprocess.run([sys.executable, "-c", start, str(PROGRAM)], env=environment, cwd=tmp_path, check=True)
    assert sorted(tmp_path.rglob("*.nbc")) == before
