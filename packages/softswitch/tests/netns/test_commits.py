"""Memory and descriptors of a switch whose pipeline is replaced again and again, under traffic."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import finsy as fy
import pytest

from softswitch.conformance.client import P4RuntimeClient, pipeline_config
from softswitch.conformance.errors import P4RuntimeError
from softswitch.p4runtime.messages import adopt, p4r
from softswitch.p4runtime.reconcile import ENTITIES as ENTITY_QUERIES
from softswitch.processes import DEVICE_ID
from softswitch.settings import Datapath
from switch_harness.foreign import read_p4info
from switch_harness.net import Net, frame, ip, namespace
from switch_harness.p4runtime import ENTITIES, update
from switch_harness.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.netns
PROJECT = Path(__file__).parents[2]
P4RUNTIME = "127.0.0.1:9559"
"""Free, since the namespace is the test's own."""
WARM_UP = 2
"""Commits before memory is measured: allocators and caches have then what they need."""
VERIFY_EVERY = 5  # commits
MAX_GROWTH_MB = 16
"""Garbage that waits for the cycle collector, whichever the number of commits. A pipeline of this program
has 4 MB on sockets, and 40 MB in the kernel."""


SCHEMA = fy.P4Schema(read_p4info(ENTITIES))
WRITES = [
    adopt(update(entity, schema=SCHEMA))
    for entity in (
        fy.P4TableEntry("metered", match=fy.Match(), action=fy.Action("forward_metered", port=2), priority=1),
        # That of no frame: so there are notifications of idle entries, and digests of all frames.
        fy.P4TableEntry(
            "seen", match=fy.Match(src_addr=7), action=fy.Action("NoAction"), idle_timeout_ns=10**7
        ),
        fy.P4DigestEntry("learned_t", max_list_size=4, max_timeout_ns=10**7, ack_timeout_ns=10**6),
    )
]


@contextmanager
def repeating(action: Callable[[], object]) -> Iterator[threading.Event]:
    """Repeat an action in a thread, 100 times a second; the event is set after the first time."""
    ended, is_running = threading.Event(), threading.Event()

    def run() -> None:
        while not ended.wait(0.01):
            action()
            is_running.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield is_running
    finally:
        ended.set()
        thread.join()


class Process:
    def __init__(self, stack: ExitStack, net: Net, datapath: Datapath, folder: Path) -> None:
        self._reports = folder / "counters.json"
        interfaces = [word for port, name in net.names.items() for word in ("-i", f"{port}@{name}")]
        command = [sys.executable, "-m", "softswitch", "--no-p4", "--datapath", datapath.value, *interfaces]
        command += ["--grpc-server-addr", P4RUNTIME, "--counters", str(self._reports)]
        self.process = stack.enter_context(subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.DEVNULL))
        stack.callback(self.process.terminate)

    def report(self) -> None:
        """Have the switch write its counters, which it reads from the running pipeline."""
        self._reports.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR1)
        wait_for(self._reports.exists)

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [kib] = re.findall(r"VmRSS:\s+(\d+) kB", status)
        return int(kib) / 1024


CONFIG = pipeline_config(ENTITIES)


def verify(client: P4RuntimeClient) -> None:
    request = p4r.SetForwardingPipelineConfigRequest(
        device_id=DEVICE_ID,
        election_id=p4r.Uint128(low=1),
        action=p4r.SetForwardingPipelineConfigRequest.VERIFY,
        config=CONFIG,
    )
    client._stub.SetForwardingPipelineConfig(request, timeout=PATIENCE_S)


def commit(client: P4RuntimeClient) -> None:
    """Commit a config and write entries, and have an update and a read refused."""
    client.set_pipeline(CONFIG)
    client.write(*WRITES)
    with pytest.raises(P4RuntimeError):
        client.write(WRITES[0])
    with pytest.raises(P4RuntimeError):
        client.read(p4r.Entity(table_entry=p4r.TableEntry(table_id=77)))


def commit_again_and_again(datapath: Datapath, commits: int, folder: Path) -> None:
    """Check memory and descriptors of a switch; this process is in a network namespace."""
    with ExitStack() as stack:
        ip("link", "set", "lo", "up")
        net = Net(stack, range(1, 3))
        switch = Process(stack, net, datapath, folder)
        client = stack.enter_context(P4RuntimeClient(P4RUNTIME))

        def read() -> None:
            with suppress(P4RuntimeError):  # before the first config
                client.read(*ENTITY_QUERIES)

        def send() -> None:
            with suppress(OSError):  # the queue is full
                net.hosts[1].send(frame())

        is_reading = stack.enter_context(repeating(read))
        stack.enter_context(repeating(send))
        for _ in range(WARM_UP):
            commit(client)
        verify(client)
        switch.report()
        assert is_reading.wait(PATIENCE_S)
        assert net.hosts[2].recv(2000) == frame()
        descriptors, memory_mb = switch.descriptors(), switch.memory_mb()
        for number in range(commits):
            commit(client)
            switch.report()
            if number % VERIFY_EVERY == 0:
                verify(client)
        wait_for(lambda: switch.descriptors() == descriptors)
        assert switch.memory_mb() - memory_mb < MAX_GROWTH_MB


@pytest.mark.parametrize("datapath", [Datapath.SOCKETS, Datapath.KERNEL])
@pytest.mark.parametrize("commits", [20, pytest.param(500, marks=pytest.mark.soak)])
def test_commits_take_no_more_memory_and_descriptors(
    tmp_path: Path, datapath: Datapath, commits: int, request: pytest.FixtureRequest
) -> None:
    """In a process of its own, since gRPC's threads of earlier tests would connect in their namespace."""
    if datapath is Datapath.KERNEL:
        request.getfixturevalue("kernel_datapath")
    done = subprocess.run(
        [sys.executable, __file__, datapath.value, str(commits), str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    with namespace():
        commit_again_and_again(Datapath(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
