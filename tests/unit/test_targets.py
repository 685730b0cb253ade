"""Finding BMv2, switches as processes, the ports that they get, and the P4Runtime client."""

from __future__ import annotations

import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from finsy.proto import p4r

from experiment.config import Config
from experiment.errors import PreflightError
from softswitch import processes
from softswitch.conformance.client import P4RuntimeClient, encode_writes, pipeline_config, read_p4info
from softswitch.conformance.encoding import EntityEncoder
from softswitch.conformance.errors import P4RuntimeError, TargetError
from softswitch.conformance.runner import Outcome, run
from softswitch.conformance.targets import TARGETS
from softswitch.errors import Bmv2NotFound, SwitchEnded
from softswitch.p4runtime.codecs import values
from softswitch.pipeline import ActionCall, Change, EntryWrite
from switch_harness import PROGRAMS
from switch_harness.waiting import PATIENCE_S, wait_for
from tools.bench import switches
from tools.bench.processes import Cores
from topologies import preflight
from topologies.leftovers import is_alive
from topologies.machine import describe_versions

ROOT = Path(__file__).parents[2]
CONTROL = PROGRAMS / "control"
CPU_PORT = 255
NEITHER = "simple_switch_grpc is neither on PATH nor named by HOTLINE_BMV2"


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without BMv2."""
    monkeypatch.delenv("HOTLINE_BMV2", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


@pytest.fixture
def fake_bmv2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """HOTLINE_BMV2 names a program that says what it is told and fails."""
    program = tmp_path / "simple_switch_grpc"
    program.write_text('#!/bin/sh\necho "fake: $*"\nexit 3\n')
    program.chmod(0o755)
    monkeypatch.setenv("HOTLINE_BMV2", str(program))
    return program


# -- finding BMv2


def test_bmv2_is_named_by_program_or_folder_or_on_path(
    not_installed: None, fake_bmv2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert processes.find_bmv2() == str(fake_bmv2)
    monkeypatch.setenv("HOTLINE_BMV2", str(fake_bmv2.parent))
    assert processes.find_bmv2() == str(fake_bmv2)
    monkeypatch.chdir(fake_bmv2.parent)
    monkeypatch.setenv("HOTLINE_BMV2", ".")  # a switch may be started in another folder
    assert processes.find_bmv2() == str(fake_bmv2)
    monkeypatch.setenv("HOTLINE_BMV2", "")
    monkeypatch.setenv("PATH", str(fake_bmv2.parent))
    assert processes.find_bmv2() == str(fake_bmv2)


def test_bmv2_that_is_nowhere(not_installed: None) -> None:
    assert processes.installed_bmv2() is None
    with pytest.raises(Bmv2NotFound, match=f"^{NEITHER}$"):
        processes.find_bmv2()


@pytest.mark.parametrize(
    ("named", "path"), [("none", "none"), ("file", "file"), ("folder", "folder/simple_switch_grpc")]
)
def test_a_name_of_no_program_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: str, path: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    monkeypatch.setenv("HOTLINE_BMV2", str(tmp_path / named))
    message = f"^HOTLINE_BMV2={tmp_path / named}: {tmp_path / path} is not a program$"
    with pytest.raises(Bmv2NotFound, match=message):
        processes.installed_bmv2()


# -- its users, each where PATH has none


def test_conformance_runs_the_bmv2_that_is_named(fake_bmv2: Path, tmp_path: Path) -> None:
    vectors = tmp_path / "some.stf"
    vectors.write_text("packet 1 00\n")
    verdict = run(TARGETS["bmv2"], CONTROL.with_suffix(".json"), vectors)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason.startswith("the switch ended with code 3: fake: --no-p4 --device-id 1 -- --grpc")


def test_bench_has_the_bmv2_that_is_named(
    fake_bmv2: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cores = Cores(0, 0, (0,))
    assert {"softswitch", "BMv2"} <= set(switches.switches()) <= {"softswitch", switches.KERNEL, "BMv2"}
    message = r"^the switch ended with code 3: fake: .* -i 1@hb-s1 "
    with pytest.raises(SwitchEnded, match=message), switches.started("BMv2", [1], cores):
        raise AssertionError("it runs")
    monkeypatch.delenv("HOTLINE_BMV2")
    monkeypatch.setenv("PATH", "/nowhere")
    assert "BMv2" not in switches.switches()


@pytest.fixture
def only_the_target_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    for check in ("_check_privileges", "_check_programs", "_check_mininet"):
        monkeypatch.setattr(preflight, check, lambda *_: None)


@pytest.mark.usefixtures("only_the_target_matters")
def test_a_run_checks_the_bmv2_that_is_named(
    not_installed: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = Config(target="bmv2", runs=tmp_path)
    with pytest.raises(PreflightError, match=f"^TARGET=bmv2: {NEITHER}; see Vagrantfile"):
        preflight.check(config)
    monkeypatch.setenv("HOTLINE_BMV2", "/nowhere")
    with pytest.raises(PreflightError, match=r"^TARGET=bmv2: HOTLINE_BMV2=/nowhere: /nowhere is not a prog"):
        preflight.check(config)


@pytest.mark.usefixtures("only_the_target_matters")
def test_a_run_takes_the_bmv2_that_is_named(fake_bmv2: Path, tmp_path: Path) -> None:
    preflight.check(Config(target="bmv2", runs=tmp_path))
    nodes = pytest.importorskip("topologies.nodes", reason="needs Mininet")
    switch = nodes.Bmv2Switch(
        "s1", port=9559, log_dir=tmp_path, cpu=None, impairment=None, datapath="sockets", inNamespace=False
    )
    try:
        assert switch.command()[:2] == [str(fake_bmv2), "--no-p4"]
    finally:
        switch.terminate()


def test_a_run_tells_the_version_of_the_bmv2_that_is_named(fake_bmv2: Path) -> None:
    pytest.importorskip("topologies.mininet_api", reason="needs Mininet")
    assert describe_versions("bmv2")["bmv2"] == "fake: --version"


def pytest_of_bmv2() -> tuple[int, str]:
    """How a test that needs BMv2 ends in a pytest of its own."""
    test = "tests/bmv2/test_match_kinds.py::test_bmv2_agrees"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=5 * PATIENCE_S)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.soak
def test_tests_run_on_the_bmv2_that_is_named(fake_bmv2: Path) -> None:
    status, said = pytest_of_bmv2()
    assert (status, "1 error" in said) == (1, True), said
    assert "the switch ended with code 3: fake: " in said


def test_tests_are_not_skipped_for_a_wrong_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLINE_BMV2", "/nowhere")
    status, said = pytest_of_bmv2()
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "HOTLINE_BMV2=/nowhere: /nowhere is not a program" in said


def test_sudo_leaves_the_name_to_what_it_runs(tmp_path: Path) -> None:
    for name, script in (("id", "echo 1000"), ("sudo", 'shift; exec /usr/bin/env -i "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    command = [str(ROOT / "scripts" / "as-root"), "/bin/sh", "-c", 'echo "$HOTLINE_BMV2"']
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOTLINE_BMV2": "/a place/bmv2"}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert said == "/a place/bmv2\n"


# -- TCP ports


def test_a_reserved_port_is_for_a_grpc_server_alone() -> None:
    with processes.reserved_port() as port, processes.reserved_port() as other:
        assert port != other
        with socket.socket() as somebody, pytest.raises(OSError, match="in use"):
            somebody.bind(("127.0.0.1", port))
        server = grpc.server(ThreadPoolExecutor(1))
        assert server.add_insecure_port(f"127.0.0.1:{port}") == port
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            grpc.channel_ready_future(channel).result(timeout=PATIENCE_S)
        server.stop(None).wait()


# -- processes and the client


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with processes.softswitch(cpu_port=CPU_PORT) as switch:
        yield switch.address
    assert switch.process.returncode == 0


@pytest.fixture
def client(address: str) -> Iterator[P4RuntimeClient]:
    with P4RuntimeClient(address) as client:
        client.set_pipeline(pipeline_config(CONTROL))
        yield client


class LosesTheFirst(socketserver.BaseRequestHandler):
    """Of connections to the switch, as soon as gRPC takes it for made; others reach it."""

    switch: tuple[str, int]
    lost: int

    def handle(self) -> None:
        if not self.lost:
            type(self).lost = 1
            self.request.sendall(b"\0\0\0\4" + bytes(5))  # HTTP/2's SETTINGS, and none of them
            return
        with socket.create_connection(self.switch) as switch, ThreadPoolExecutor(1) as answers:
            answers.submit(forward, switch, self.request)
            forward(self.request, switch)


def forward(source: socket.socket, to: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)


def test_a_connection_that_is_lost_at_once_is_made_again(address: str) -> None:
    host, _, port = address.rpartition(":")

    class Handler(LosesTheFirst):
        switch = host, int(port)
        lost = 0

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as between:
        thread = threading.Thread(target=between.serve_forever)
        thread.start()
        try:
            with P4RuntimeClient(f"127.0.0.1:{between.server_address[1]}") as client:
                client.set_pipeline(pipeline_config(CONTROL))
                client.write(entry(1))
        finally:
            between.shutdown()
            thread.join()
    assert Handler.lost == 1


def entry(address: int, change: Change = Change.INSERT) -> p4r.Update:
    encode = EntityEncoder(read_p4info(CONTROL))
    call = None if change is Change.DELETE else ActionCall("ControlIngress.forward_to", (CPU_PORT,))
    return encode.update(EntryWrite(change, "ControlIngress.forward", (address,), call))


def test_what_is_written_is_read(client: P4RuntimeClient) -> None:
    query = p4r.Entity(table_entry=entry(1).entity.table_entry)
    query.table_entry.ClearField("match")
    query.table_entry.ClearField("action")
    client.write(*(entry(address) for address in range(5)))
    client.send(encode_writes([entry(address) for address in range(5, 10)], size=2))
    client.write(entry(3, Change.DELETE))
    assert len(client.read(query)) == 9


def test_a_refusal_has_the_switch_s_words_and_code(client: P4RuntimeClient) -> None:
    with pytest.raises(P4RuntimeError, match=r"^code 5: ") as refused:
        client.write(entry(1), entry(2, Change.DELETE), entry(3, Change.DELETE))
    assert refused.value.code == 5
    with pytest.raises(P4RuntimeError, match=r"^INVALID_ARGUMENT: ") as refused:
        client.set_pipeline(p4r.ForwardingPipelineConfig(p4_device_config=b"{}"))
    assert refused.value.code == 3


def test_packets_come_back_from_the_cpu_port(client: P4RuntimeClient) -> None:
    frame = bytes(6) + bytes(range(58))
    client.packet_out((CPU_PORT << 7).to_bytes(2, "big") + frame, CPU_PORT, 0)
    packet = client.packets.get(timeout=PATIENCE_S)
    assert (packet.payload, packet.metadata[0].value) == (frame, b"\xff")


def test_a_switch_that_ends_is_told_with_its_last_words() -> None:
    message = r"^the switch ended with code 1: softswitch: error: 'nonsense' is not PORT@INTERFACE"
    options = ["--no-p4", "-i", "nonsense"]
    with pytest.raises(SwitchEnded, match=message), processes.softswitch(options=options):
        raise AssertionError("it runs")


def test_a_switch_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = (
        "import os, signal\nfrom softswitch import processes\n"
        "with processes.softswitch() as switch:\n"
        "    print(switch.process.pid, flush=True)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    wait_for(lambda: not is_alive(int(done.stdout)))


@pytest.mark.parametrize(
    ("number", "canonical"), [(0, "00"), (1, "01"), (255, "ff"), (256, "0100"), (1 << 64, "01" + "00" * 8)]
)
def test_integers_have_one_form(number: int, canonical: str) -> None:
    assert values.encode(number).hex() == canonical


def test_programs_that_cannot_be_read(tmp_path: Path) -> None:
    program = tmp_path / "p.json"
    with pytest.raises(TargetError, match=r"p\.p4info\.txtpb: No such file.*; p4c-bm2-ss --p4runtime-files"):
        read_p4info(program)
    (tmp_path / "p.p4info.txtpb").write_text("nonsense")
    with pytest.raises(TargetError, match=r"p\.p4info\.txtpb: not P4Info in text: "):
        pipeline_config(program)
    (tmp_path / "p.p4info.txtpb").write_text("")
    with pytest.raises(TargetError, match=r"p\.json: No such file or directory$"):
        pipeline_config(program)
