"""A leaf-spine network of P4 switches on Mininet, whose hosts ping each other (root).

    PATH=$PWD/.venv/bin:$PATH python examples/leaf_spine/leaf_spine.py --leaves 10 --spines 4

Each leaf has one host. A leaf sends to another leaf by the spine of that leaf's number. The switches are
BMv2's `simple_switch_grpc`, in whose place softswitch is installed; with `--alone` they share no process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mininet.net import Mininet
from mininet.node import Node
from mininet.topo import Topo

PROGRAM = Path(__file__).with_name("router.p4")
FIRST_PORT = 19559
"""P4Runtime port of the first switch; the next switch has the next one."""
POLL_S = 0.05


class LeafSpine(Topo):  # type: ignore[misc]  # Mininet has no types
    """Ports of leaf l: 1 is its host, 2 + s is spine s. Ports of spine s: 1 + l is leaf l."""

    def build(self, leaves: int, spines: int) -> None:
        for leaf in range(leaves):
            self.addHost(f"h{leaf}", ip=f"10.0.{leaf}.2/24", mac=host_mac(leaf))
            self.addLink(f"h{leaf}", self.addNode(f"l{leaf}", inNamespace=False), port1=0, port2=1)
        for spine in range(spines):
            self.addNode(f"s{spine}", inNamespace=False)
            for leaf in range(leaves):
                self.addLink(f"l{leaf}", f"s{spine}", port1=2 + spine, port2=1 + leaf)


def host_mac(leaf: int) -> str:
    return f"02:00:00:00:{leaf:02x}:02"


def routes(leaves: int, spines: int) -> dict[str, list[str]]:
    """Return by switch the commands that fill its table."""
    add = "table_add routes next_hop"
    found = {
        f"s{spine}": [f"{add} 10.0.{leaf}.0/24 => {host_mac(leaf)} {1 + leaf}" for leaf in range(leaves)]
        for spine in range(spines)
    }
    for leaf in range(leaves):
        others = [other for other in range(leaves) if other != leaf]
        found[f"l{leaf}"] = [
            f"{add} 10.0.{leaf}.2/32 => {host_mac(leaf)} 1",
            *(f"{add} 10.0.{other}.0/24 => {host_mac(other)} {2 + other % spines}" for other in others),
        ]
    return found


@contextmanager
def network(leaves: int, spines: int) -> Iterator[Mininet]:
    net = Mininet(LeafSpine(leaves=leaves, spines=spines), controller=None, autoPinCpus=False)
    net.start()
    try:
        for leaf in range(leaves):
            host = net[f"h{leaf}"]
            # The leaf answers no ARP: its address is any MAC address, in each host's static entry.
            host.setARP(f"10.0.{leaf}.1", "02:00:00:00:00:01")
            host.cmd(f"ip route add default via 10.0.{leaf}.1")
        yield net
    finally:
        net.stop()


def start_switches(net: Mininet, names: Sequence[str], folder: Path, stack: ExitStack) -> dict[str, int]:
    """Start the switches and wait until all are ready; return the process ids of their commands."""
    logs, pids = {}, {}
    for number, name in enumerate(names):
        logs[name] = folder / f"{name}.log"
        options = ["--device-id", "1", "--", "--grpc-server-addr", f"127.0.0.1:{FIRST_PORT + number}"]
        process = subprocess.Popen(
            [folder / "simple_switch_grpc", PROGRAM, *interfaces(net[name]), *options],
            stderr=stack.enter_context(logs[name].open("w")),
        )
        stack.callback(process.wait)
        stack.callback(process.terminate)
        pids[name] = process.pid
    while not all("ready" in log.read_text() for log in logs.values()):
        time.sleep(POLL_S)
    return pids


def interfaces(node: Node) -> list[str]:
    ports = {port: interface.name for interface, port in node.ports.items() if interface.name != "lo"}
    return [word for port, name in ports.items() for word in ("-i", f"{port}@{name}")]


def fill_tables(names: Sequence[str], commands: Mapping[str, Sequence[str]], folder: Path) -> None:
    for number, name in enumerate(names):
        subprocess.run(
            [folder / "simple_switch_CLI", "--thrift-port", str(FIRST_PORT + number)],
            input="\n".join(commands[name]) + "\n", text=True, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip


def lost_pings(net: Mininet, leaves: int) -> int:
    """Have each host ping all others; return how many pings had no answer."""
    lost = 0
    for leaf in range(leaves):
        for other in range(leaves):
            answer = net[f"h{leaf}"].cmd(f"ping -c1 -W5 10.0.{other}.2 >/dev/null; echo $?")
            lost += other != leaf and answer.strip() != "0"
    return lost


def pss_mb(pids: Sequence[int]) -> float:
    """Return the proportional share of memory of processes and all that have the same program."""
    texts = (Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids)
    lines = (line for text in texts for line in text.splitlines() if line.startswith("Pss:"))
    return sum(int(line.split()[1]) for line in lines) / 1024


def switch_processes() -> list[int]:
    """Return the ids of all processes of softswitch: commands, forks, and the process that they share."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and process.name != str(os.getpid()):
            try:
                line = (process / "cmdline").read_bytes()
            except OSError:  # it has just ended
                continue
            if b"simple_switch_grpc" in line or b"softswitch" in line:
                found.append(int(process.name))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--leaves", type=int, default=4, choices=range(2, 63), metavar="2..62")
    parser.add_argument("--spines", type=int, default=2, choices=range(1, 63), metavar="1..62")
    parser.add_argument("--alone", action="store_true", help="Let each switch be a process of its own.")
    arguments = parser.parse_args()
    leaves, spines = arguments.leaves, arguments.spines
    commands = routes(leaves, spines)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shared = [] if arguments.alone else ["--shared"]
        subprocess.run(["softswitch", "install-as", *shared, folder], check=True, stdout=subprocess.DEVNULL)
        net = stack.enter_context(network(leaves, spines))
        begin_s = time.monotonic()
        start_switches(net, list(commands), folder, stack)
        print(f"{len(commands)} switches were ready after {time.monotonic() - begin_s:.1f} s")
        print(f"their processes take {pss_mb(switch_processes()):.0f} MB")
        fill_tables(list(commands), commands, folder)
        print(f"{lost_pings(net, leaves)} of {leaves * (leaves - 1)} pings were lost")


if __name__ == "__main__":
    main()
