"""CPU time counts from the begin of a watch, and to the end of each process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hotline_answers.probe import processes
from hotline_answers.probe.processes import ServedPort, ServerProcesses, WatchedProcess, served_ports

_NS_PER_S = 1_000_000_000


def burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_cpu_time_from_before_the_watch_counts_for_new_processes_only() -> None:
    burn(0.02)
    before_ns = time.process_time_ns()
    old, new = (WatchedProcess(os.getpid(), is_new) for is_new in (False, True))
    assert old.cpu_ns == 0 and new.cpu_ns >= before_ns
    burn(0.02)
    for process in (old, new):
        process.read_cpu()
    since_ns = time.process_time_ns() - before_ns
    assert 0.02 * _NS_PER_S <= old.cpu_ns <= since_ns
    assert new.cpu_ns >= before_ns + 0.02 * _NS_PER_S


@pytest.mark.parametrize("is_reaped", [False, True])
def test_a_process_that_has_ended_keeps_its_cpu_time(is_reaped: bool) -> None:
    code = "import sys; sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE) as child:
        server = ServerProcesses((child.pid,))
        server.refresh()
        assert not server.have_ended
        assert child.stdin is not None
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie then
        server.refresh()
        at_end = server.cpu_ns
        if is_reaped:
            child.wait()
            server.refresh()
        assert server.have_ended and server.cpu_ns == at_end > 0


def test_ports_are_of_listening_sockets_and_bound_datagrams() -> None:
    with socket.socket() as listening, socket.socket() as bound, socket.socket() as client:
        for each in (listening, bound):
            each.bind(("127.0.0.1", 0))
        listening.listen()
        client.connect(listening.getsockname())
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connected,
        ):
            datagrams.bind(("127.0.0.1", 0))
            connected.connect(datagrams.getsockname())
            tcp, udp, of_client, of_connected = (
                each.getsockname()[1] for each in (listening, datagrams, client, connected)
            )
            found = served_ports([os.getpid()])
            assert {ServedPort(True, tcp), ServedPort(False, udp)} <= found
            assert not {ServedPort(True, of_client), ServedPort(False, of_connected)} & found
            assert not {port for port in found if port.port == bound.getsockname()[1]}
            assert served_ports([os.getpid()], of_connected) == {ServedPort(False, of_connected)}
            assert os.getpid() in processes.processes_at(tcp)


def test_processes_are_found_with_their_descendants() -> None:
    waiting = "print(1, flush=True); input()"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', '{waiting}'])"
    with subprocess.Popen(
        [sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        parent.stdout.readline()  # the child runs
        server = ServerProcesses((parent.pid,))
        [child] = [pid for pid in server.pids if pid != parent.pid]
        assert Path(f"/proc/{child}").exists()
        parent.stdin.close()
