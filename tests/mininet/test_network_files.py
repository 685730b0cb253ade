"""`softswitch net`: the network of a file on this machine, and what is there after its end."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from softswitch.network import Network
from softswitch.network.files import read_network
from switch_harness.exercises import write_exercise
from switch_harness.waiting import wait_for

pytestmark = pytest.mark.mininet
COMMAND = (sys.executable, "-m", "softswitch", "net", "--grpc-port", "20051")
"""Its ports are none of those that the kernel gives to other tests' connections, as 50051 and 50052 are."""
END_S = 3.0
SLEEP = "sleep 31536001"
"""A command of a host; no other process of this machine has its argument."""


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    return write_exercise(tmp_path / "exercise")


def add_unreachable_host(topology: Path) -> None:
    """Add a host at the first switch, which forwards its frames, but no requests of ARP."""
    mac = "08:00:00:00:01:33"
    document: dict[str, Any] = json.loads(topology.read_text())
    document["hosts"]["h3"] = {"ip": "10.0.1.3/24", "mac": mac}
    document["links"].append(["h3", "s1-p5"])
    topology.write_text(json.dumps(document))
    runtime = topology.with_name("s1-runtime.json")
    settings: dict[str, Any] = json.loads(runtime.read_text())
    entry = {**settings["table_entries"][0], "match": {"mac": mac}, "action_params": {"port": 5}}
    settings["table_entries"].append(entry)
    runtime.write_text(json.dumps(settings))


def simulated_pings(topology: Path) -> dict[tuple[str, str], bool]:
    with Network() as net:
        read_network(topology, net)
        pings = {(a.name, b.name): a.ping(str(b.ip)) for a, b in permutations(net.hosts, 2)}
        net.run(until_s=2)
        return {names: bool(ping.received) for names, ping in pings.items()}


def remains(folder: Path) -> list[str]:
    """Return the interfaces and processes of a network whose files are in a folder."""
    found = [name for _, name in socket.if_nameindex() if name.startswith(("s1-eth", "s2-eth"))]
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and process.name != str(os.getpid()):
            try:
                line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:  # it has just ended
                continue
            if any(word in line for word in (str(folder), SLEEP, "guard_process")):
                found.append(line)
    return found


def test_hosts_of_a_file_reach_the_same_hosts_as_in_the_simulated_network(topology: Path) -> None:
    add_unreachable_host(topology)
    options = ["--pingall", "--json", "--run", "h1", "cat /sys/class/net/eth0/address; exit 3"]
    done = subprocess.run([*COMMAND, topology, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr  # a ping has no answer
    report = json.loads(done.stdout)
    answered = {(p["source"], p["destination"]): bool(p["round_trips_us"]) for p in report["pings"]}
    assert answered == simulated_pings(topology)
    assert {names for names, is_answered in answered.items() if is_answered} == {("h1", "h2"), ("h2", "h1")}
    [run] = report["runs"]
    assert (run["host"], run["status"], run["output"]) == ("h1", 3, "08:00:00:00:01:11\n")
    assert "pings of h2: 1 of 2 answered" in done.stderr
    assert remains(topology.parents[1]) == []


def test_nothing_remains_of_a_network_in_a_namespace_with_the_sysfs_of_another_one(topology: Path) -> None:
    command = shlex.join([*COMMAND, str(topology), "--pingall"])
    script = f"ip link set lo up && {command} && ip -json link"
    done = subprocess.run(["unshare", "--net", "sh", "-c", script], stdout=subprocess.PIPE, check=True)
    assert [interface["ifname"] for interface in json.loads(done.stdout.splitlines()[-1])] == ["lo"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_remains_of_a_network_that_a_signal_ends(topology: Path, number: signal.Signals) -> None:
    command = [*COMMAND, str(topology), "--run", "h1", f"echo runs; {SLEEP} & {SLEEP}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"runs\n", process.communicate()
        begin_s = time.monotonic()
        process.send_signal(number)
        process.wait()
        wait_for(lambda: not remains(topology.parents[1]))
        assert time.monotonic() - begin_s < END_S
        assert process.returncode == (-number if number is signal.SIGKILL else 128 + number)


def test_ctrl_c_at_the_prompt_of_mininet_ends_the_network(topology: Path) -> None:
    terminal, end = os.openpty()
    with subprocess.Popen([*COMMAND, topology], stdin=end, stdout=end, stderr=subprocess.DEVNULL) as process:
        os.close(end)
        shown = b""
        while b"mininet> " not in shown:
            shown += os.read(terminal, 1000)
        begin_s = time.monotonic()
        # Python's `input` misses a signal between its prompt and its wait; a user presses Ctrl-C once more.
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_S / 3)
        assert process.returncode == 128 + signal.SIGINT
        assert time.monotonic() - begin_s < END_S
    os.close(terminal)
    assert remains(topology.parents[1]) == []
