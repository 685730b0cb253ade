"""Compiler, interpreter and virtual networks run without what Linux has beyond macOS and Windows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from switch_harness import PROGRAMS

ROOT = Path(__file__).parents[3]
IMITATE = "import sys\nfrom switch_harness.other_systems import selected\nselected(sys.argv[1:])\n"
USE = """
import contextlib
import io
import json
import os
import socket
from pathlib import Path

from softswitch import libc, verbs
from softswitch.testing import Switch

ADD = "table_add hosts forward 00:00:00:00:00:0b => 2"
FRAME = bytes.fromhex("00000000000b 00000000000a 0800") + bytes(46)


def softswitch(*arguments):
    sys.argv = ["softswitch", *map(str, arguments)]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        verbs.main()
    return printed.getvalue()


ATTEMPTS = {
    "BPF": lambda: libc.call("syscall", 321),
    "fcntl": lambda: __import__("fcntl"),
    "fork": lambda: os.fork(),
    "packet socket": lambda: socket.AF_PACKET,
    "proc": lambda: open("/proc/self/stat"),
}


def refused():
    for name, attempt in ATTEMPTS.items():
        try:
            attempt()
        except (AttributeError, ImportError, OSError, TypeError):
            yield name


def use():
    program = Path("changed.p4")
    Path("commands.txt").write_text(ADD)
    softswitch("compile", program, "-o", "out.json")
    yield "program", json.loads(Path("out.json").read_text())["program"]
    with Switch(program) as switch:
        switch.run(ADD)
        switch.expect(1, FRAME, (2, FRAME))
        yield "trace", switch.explain().splitlines()[0]
    explained = softswitch("explain", program, "--packet", FRAME.hex(), "--commands", "commands.txt")
    yield "refused", [*refused()]
    yield "explained", "sent to port 2, 60 bytes" in explained


print(json.dumps(dict(use())))
"""
NETWORK = """
import json

from softswitch.network import Network

with Network(seed=1) as net:
    switch = net.add_switch("s1", "changed.p4")
    hosts = [net.add_host(f"h{number}", ip=f"10.0.0.{number}/24") for number in (1, 2)]
    for number, host in enumerate(hosts, 1):
        net.add_link(host, switch, mbit=10, delay_us=50)
        switch.run(f"table_add hosts forward {host.mac} => {number}")
    ping = hosts[0].ping("10.0.0.2", count=3, every_us=1000)
    net.run(until_s=1)
print(json.dumps({"round_trips": len(ping.round_trips_us), "lost": switch.lost_packet_ins}))
"""


def run(folder: Path, system: str, script: str) -> str:
    """Run a script in a process without what the system lacks; return the last line of its output."""
    # A program that no cache has, so that it is compiled there.
    source = (PROGRAMS.parent / "l2.p4").read_text()
    (folder / "changed.p4").write_text(f"{source}// {folder}\n")
    (folder / "script.py").write_text(IMITATE + script)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    done = subprocess.run(
        [sys.executable, "script.py", system], env=environment, cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("system", ["macos", "windows"])
def test_compiler_interpreter_and_explain_run_without_names_of_linux(tmp_path: Path, system: str) -> None:
    found = json.loads(run(tmp_path, system, USE))
    assert found == {
        "program": "changed.p4", "trace": "packet 1: 60 bytes from port 1", "explained": True,
        "refused": ["BPF", "fcntl", "fork", "packet socket", "proc"],
    }  # fmt: skip


def test_a_network_is_simulated_without_names_of_linux(tmp_path: Path) -> None:
    assert json.loads(run(tmp_path, "macos", NETWORK)) == {"round_trips": 3, "lost": 0}
