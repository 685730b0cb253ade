"""softswitch in place of simple_switch_grpc, by the calls that p4lang's tutorials make."""

from __future__ import annotations

import os
import re
import shlex
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from softswitch.bmv2.install import install
from softswitch.processes import reserved_port
from softswitch.runtime.client import connect
from softswitch.warm import is_cold
from switch_harness import PROGRAMS, bmv2_client, ecn
from switch_harness.net import Net, ip, namespace
from switch_harness.thrift_clients import connect_thrift
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import says, says_in_one_line

pytestmark = pytest.mark.netns

ROOT = Path(__file__).parents[2]
PROGRAM, P4INFO = PROGRAMS / "ecn.json", PROGRAMS / "ecn.p4info.txtpb"
FRAMES = 60  # fewer than a queue has room for
# What the tutorials' protobuf needs in the environment.
OLD_PROTOBUF = {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}


@pytest.fixture(scope="module")
def warmed() -> None:
    """Compile, unless set-up has done it: a first start would take minutes on a machine that is busy."""
    if is_cold():
        subprocess.run([sys.executable, "-m", "softswitch.warm"], cwd=ROOT, check=True)


@pytest.fixture
def stack(warmed: None) -> Iterator[ExitStack]:
    with namespace(), ExitStack() as opened:
        ip("link", "set", "lo", "up")
        yield opened


@contextmanager
def started(
    words: str, log: Path, folder: Path, is_shared: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """A command line as the tutorials give it to a shell, with softswitch first in the PATH."""
    install(folder, is_shared)
    environment = {**os.environ, **OLD_PROTOBUF, "PATH": f"{folder}:{os.environ['PATH']}"}
    command = f"exec setpriv --pdeathsig KILL -- {words} >{shlex.quote(str(log))} 2>&1"
    process = subprocess.Popen(["sh", "-c", command], env=environment)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def frames_of(pcap: Path) -> list[bytes]:
    """The frames in a pcap file, each with a time of today."""
    data = pcap.read_bytes()
    magic, major, minor, _, _, _, link = struct.unpack_from("<IHHiIII", data)
    assert (magic, major, minor, link) == (0xA1B2C3D4, 2, 4, 1)
    found, at = [], 24
    while at < len(data):
        seconds, microseconds, captured, length = struct.unpack_from("<IIII", data, at)
        assert captured == length
        assert abs(seconds + microseconds / 1e6 - time.time()) < 3600
        found.append(data[at + 16 : at + 16 + captured])
        at += 16 + captured
    return found


@pytest.mark.parametrize("is_shared", [False, True], ids=["alone", "shared"])
def test_the_calls_of_the_p4_tutorials_work_with_softswitch(
    stack: ExitStack, tmp_path: Path, is_shared: bool
) -> None:
    """run_exercise.py's start of a switch, its controller's messages, and a congested link of TCLink's."""
    net = Net(stack, range(1, 3))
    for words in (
        "qdisc add dev s2 root handle 5: htb default 1",
        "class add dev s2 parent 5: classid 5:1 htb rate 4mbit burst 15k",
    ):
        subprocess.run(["tc", *words.split()], check=True)
    grpc_port, thrift_port = (stack.enter_context(reserved_port(socket.SO_REUSEADDR)) for _ in range(2))
    pcaps, log = tmp_path / "pcaps", tmp_path / "s1.log"
    pcaps.mkdir()
    words = (
        f"simple_switch_grpc -i 1@s1 -i 2@s2 --pcap {pcaps} --nanolog ipc:///tmp/bm-0-log.ipc --device-id 0 "
        f"{PROGRAM} --log-console --thrift-port {thrift_port} "
        f"-- --grpc-server-addr 0.0.0.0:{grpc_port} --cpu-port 255"
    )
    with started(words, log, tmp_path / "bin", is_shared) as switch:
        wait_for(lambda: listens(grpc_port) and listens(thrift_port))
        controller = [
            sys.executable,
            bmv2_client.__file__,
            f"127.0.0.1:{grpc_port}",
            str(PROGRAM),
            str(P4INFO),
        ]
        environment = {**os.environ, **OLD_PROTOBUF, "PYTHONPATH": str(ROOT)}
        subprocess.run(controller, env=environment, check=True)
        sent = [ecn.frame(number, body=1000) for number in range(FRAMES)]
        for frame in sent:
            net.hosts[1].send(frame)
        arrived = [net.hosts[2].recv(2000) for _ in sent]
        wait_for(lambda: len(frames_of(pcaps / "s2_out.pcap")) == FRAMES)
        switch.terminate()
        assert switch.wait(PATIENCE_S) == 0
    probes = [ecn.read(frame) for frame in arrived]
    assert [probe.number for probe in probes] == list(range(FRAMES))
    assert max(probe.enq_qdepth for probe in probes) > FRAMES // 3
    assert probes[0].enq_qdepth == probes[-1].deq_qdepth == 0
    assert frames_of(pcaps / "s1_in.pcap") == sent
    assert frames_of(pcaps / "s2_out.pcap") == arrived
    assert frames_of(pcaps / "s2_in.pcap") == frames_of(pcaps / "s1_out.pcap") == []
    reported = log.read_text()
    assert "Traceback" not in reported
    assert re.search(rf"\[bmv2\] \[I\] \[thread \d+\] port 2 \(s2\): received 0, sent {FRAMES}\n", reported)
    assert "simple_switch_grpc: --nanolog: " in reported


def test_simple_switch_serves_thrift_and_grpc_at_thrifts_port(stack: ExitStack, tmp_path: Path) -> None:
    """Start it as the tutorials do, before a program is loaded."""
    port = stack.enter_context(reserved_port(socket.SO_REUSEADDR))
    words = f"simple_switch --thrift-port {port} --log-file {tmp_path}/log --log-flush {PROGRAM}"
    with started(words, tmp_path / "out", tmp_path / "bin") as switch:
        wait_for(
            lambda: (out := tmp_path / "out").exists() and says(out.read_text(), "softswitch", "ready", 0)
        )
        with connect_thrift(port) as clients, connect(f"127.0.0.1:{port}") as over_grpc:
            assert clients["standard"].bm_get_config() == over_grpc.config() == PROGRAM.read_text()
        switch.terminate()
        assert switch.wait(PATIENCE_S) == 0


def test_a_pcap_file_that_cannot_be_written_is_an_error(stack: ExitStack, tmp_path: Path) -> None:
    Net(stack, range(1, 2))
    (tmp_path / "s1_in.pcap").mkdir()
    port = stack.enter_context(reserved_port(socket.SO_REUSEADDR))
    words = f"simple_switch --no-p4 -i 1@s1 --pcap {tmp_path} --thrift-port {port}"
    with started(words, tmp_path / "out", tmp_path / "bin") as switch:
        assert switch.wait(PATIENCE_S) == 1
    last = (tmp_path / "out").read_text().splitlines()[-1]
    assert says_in_one_line(last, "simple_switch", tmp_path / "s1_in.pcap", "directory")
