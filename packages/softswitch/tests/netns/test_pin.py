"""A switch that is killed under load and started again: no packet, table or register is lost."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest

from switch_harness import PROGRAMS
from switch_harness.kernel_ports import cpu_interfaces, programs_at
from switch_harness.net import Net, frame, ip, namespace
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import says_in_one_line

pytestmark = pytest.mark.netns
PROJECT = Path(__file__).parents[2]
WINDOW = 64
KILLS = 3
P4RUNTIME = "127.0.0.1:9559"
"""Free, since the namespace is the test's own."""
SWITCH = [sys.executable, "-m", "softswitch"]


@pytest.fixture
def stack(kernel_datapath: None) -> Iterator[ExitStack]:
    with namespace(), ExitStack() as opened:
        ip("link", "set", "lo", "up")
        yield opened


class Traffic:
    """Numbered frames from host 1 to host 2 until `end`, no more than `WINDOW` of them under way."""

    def __init__(self, net: Net) -> None:
        self._from, self._to = net.hosts[1], net.hosts[2]
        self._ended = threading.Event()
        self.crossed = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        sent = 0
        while not self._ended.is_set() or self.crossed < sent:
            while sent < self.crossed + WINDOW and not self._ended.is_set():
                self._from.send(frame(sent))
                sent += 1
            try:
                if self._to.recv(2000) != frame(self.crossed):
                    return
            except TimeoutError:
                return
            self.crossed += 1
        self.all_crossed = True

    all_crossed = False

    def wait_for_more(self, count: int) -> None:
        wanted = self.crossed + count
        wait_for(lambda: self.crossed >= wanted or not self._thread.is_alive())

    def end(self) -> int:
        """Frames that have crossed, in order; all that were sent have."""
        self._ended.set()
        self._thread.join()
        assert self.all_crossed, f"frame {self.crossed} was lost"
        return self.crossed


class Lines:
    def __init__(self, stream: IO[str] | None) -> None:
        assert stream is not None
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self._said.put(line)

    def next(self) -> str:
        return self._said.get(timeout=PATIENCE_S)

    def wait_for(self, start: str) -> list[str]:
        """Return the output up to a line that begins with `start`."""
        message = [self.next()]
        while not message[-1].startswith(start):
            message.append(self.next())
        return message

    def skip(self) -> None:
        """Discard the output up to now."""
        while not self._said.empty():
            self._said.get()


def start(stack: ExitStack, folder: Path, *more: str) -> tuple[subprocess.Popen[str], list[str]]:
    command = [*SWITCH, *(more or ["--no-p4"]), "--pin", str(folder), "-i", "1@s1", "-i", "2@s2"]
    command += ["--cpu-port", "255", "--grpc-server-addr", P4RUNTIME]
    switch = stack.enter_context(subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.PIPE, text=True))
    stack.callback(switch.kill)
    return switch, Lines(switch.stderr).wait_for("softswitch: ready: ")


def unpin(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [*SWITCH, "--unpin", str(folder)]
    return subprocess.run(command, cwd=PROJECT, check=False, capture_output=True, text=True)


@pytest.mark.soak
def test_a_switch_that_is_killed_under_load_loses_nothing(stack: ExitStack, tmp_path: Path) -> None:
    net, folder = Net(stack, range(1, 3)), tmp_path / "pins"
    stack.callback(unpin, folder)
    switch, message = start(stack, folder)
    assert says_in_one_line(message[0], "softswitch", "kernel", "BPF", 2, folder)
    writer = stack.enter_context(
        subprocess.Popen(
            [sys.executable, "-m", "switch_harness.steady_writer", P4RUNTIME],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    )
    stack.callback(writer.kill)
    assert writer.stdin is not None
    written = Lines(writer.stdout)
    assert written.next() == "0\n"
    traffic = Traffic(net)

    def wait_for_more() -> None:
        traffic.wait_for_more(1000)
        written.skip()
        written.next()

    for _ in range(KILLS):
        wait_for_more()
        switch.kill()
        switch.wait()
        traffic.wait_for_more(1000)  # nobody is there
        switch, message = start(stack, folder)
        assert says_in_one_line(message[0], "resumed", folder)
    wait_for_more()
    crossed = traffic.end()
    writer.stdin.close()
    *_, last, result = written.wait_for("{")
    has = json.loads(result)
    assert writer.wait() == 0
    assert crossed >= 1000 * (2 * KILLS + 1)
    assert has["forwarded"] == has["cell"] == crossed
    assert has["there"] == list(range(1, int(last) + 1))
    switch.terminate()
    assert switch.wait() == 0
    assert [programs_at(name) for name in net.names.values()] == [1, 1]
    assert len(cpu_interfaces()) == 1
    done = unpin(folder)
    assert (done.returncode, done.stderr) == (0, "")
    wait_for(lambda: not any(map(programs_at, net.names.values())) and not cpu_interfaces())
    assert not folder.exists()
    assert str(folder) not in Path("/proc/self/mounts").read_text()
    assert "PROMISC" not in subprocess.run(["ip", "link"], check=True, capture_output=True, text=True).stdout


PROGRAM = PROGRAMS / "l2.json"


def test_a_pinned_program_without_a_control_plane_is_resumed_by_the_next_switch(
    stack: ExitStack, tmp_path: Path
) -> None:
    Net(stack, range(1, 3))
    folder = tmp_path / "pins"
    stack.callback(unpin, folder)
    for number in range(2):
        switch, message = start(stack, folder, str(PROGRAM))
        assert (says_in_one_line(message[0], "resumed", folder)) is (number == 1)
        switch.terminate()
        assert switch.wait() == 0
    other = PROGRAMS / "control.json"
    command = [*SWITCH, str(other), "--pin", str(folder), "-i", "1@s1", "-i", "2@s2", "--cpu-port", "255"]
    refused = subprocess.run(command, cwd=PROJECT, check=False, capture_output=True, text=True)
    assert refused.returncode == 1
    assert refused.stderr.endswith(
        f"softswitch: error: {other}: expected the program pinned in {folder}: `--no-p4` resumes it, "
        f"`--unpin {folder}` removes the pinned datapath\n"
    )


@pytest.mark.soak
def test_an_interface_that_was_deleted_and_created_is_a_port_again(stack: ExitStack, tmp_path: Path) -> None:
    net, folder = Net(stack, range(1, 3)), tmp_path / "pins"
    stack.callback(unpin, folder)
    switch, _ = start(stack, folder, str(PROGRAM))
    switch.terminate()
    switch.wait()
    ip("link", "del", "s2")
    ip("link", "add", "s2", "type", "veth", "peer", "name", "h2")
    for name in ("s2", "h2"):
        ip("link", "set", name, "up")
    assert [programs_at(name) for name in net.names.values()] == [1, 0]
    switch, message = start(stack, folder, str(PROGRAM))
    assert says_in_one_line(message[0], "resumed", folder)
    assert [programs_at(name) for name in net.names.values()] == [1, 1]
    files = {os.readlink(file) for file in Path(f"/proc/{switch.pid}/fd").iterdir()}
    held = {file for file in files if file.startswith("anon_inode:bpf")}
    assert held == {f"anon_inode:bpf-{what}" for what in ("map", "prog", "stats")}, "links are kept by name"
    assert os.path.ismount(folder / "bpf")
    switch.terminate()
    switch.wait()
