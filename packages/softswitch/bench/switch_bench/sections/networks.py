"""Networks in virtual time: passes through their switches a CPU second, and what many switches take."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from softswitch.network import Network, add_frame
from switch_bench.results import IN_NETWORK, SIMULATED, Result, at_least, at_most
from switch_bench.stage import Stage

_L3 = Path(__file__).parents[3] / "tests" / "programs" / "l3.p4"
_ROUTES = "#define ROUTES 1048576"
_PACKET_BYTES = 100
_INTERVAL_US = 2.0
_MAC = "02:00:00:00:ff:ff"
_MANY, _SOME = 1000, 100  # switches
_PAGE_BYTES = 4096


def networks(stage: Stage) -> list[Result]:
    with small_l3() as program:
        return list(_measure(stage, program))


@contextmanager
def small_l3() -> Iterator[Path]:
    """Make `l3.p4` with a table of 1,024 routes, as that of p4lang/tutorials' basic.p4 has."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / _L3.name
        program.write_text(_L3.read_text().replace(_ROUTES, "#define ROUTES 1024"))
        yield program


def _measure(stage: Stage, program: Path) -> Iterator[Result]:
    stage.announce("a fat tree of 20 switches in virtual time")
    frames = stage.scale.calls // 20
    passes = [passes_per_cpu_s(program, frames) for _ in range(stage.scale.rounds)]
    goal = (at_least(300_000),)
    yield Result("networks", "fat tree of 20 switches", "passes/CPU s", {SIMULATED: passes}, goal, IN_NETWORK)
    stage.announce("two compiled hosts")
    rates = [frames_per_cpu_s(10 * frames) for _ in range(stage.scale.rounds)]
    yield Result("networks", "compiled hosts", "frames/CPU s", {SIMULATED: rates}, (), IN_NETWORK)
    stage.announce(f"{_MANY} switches in one process")
    measured = (many_switches_in_new_process(program) for _ in range(stage.scale.rounds))
    start, memory = zip(*measured, strict=True)
    yield Result(
        "networks", f"start of {_SOME} switches", "CPU s", {SIMULATED: start}, (at_most(1),), IN_NETWORK
    )
    yield Result(
        "networks", f"memory of {_MANY} switches", "MB", {SIMULATED: memory}, (at_most(4000),), IN_NETWORK
    )


def passes_per_cpu_s(program: Path, frames: int) -> float:
    """Send `frames` frames from each of 16 hosts through a fat tree; return the passes in a CPU second."""
    with Network(seed=1) as net:
        build_fat_tree(net, program)
        hosts = net.hosts
        for number, host in enumerate(hosts):
            destination = str(hosts[(number + 5) % len(hosts)].ip)
            frame = host.udp_frame(destination, 5000, bytes(_PACKET_BYTES))
            host.send(frame, poisson_us=_INTERVAL_US, count=frames)
        net.run(until_s=1e-9)  # loads the event loop's machine code
        begin = time.process_time()
        net.run()
        elapsed_s = time.process_time() - begin
        return sum(switch.passes for switch in net.switches) / elapsed_s


def frames_per_cpu_s(exchanges: int) -> float:
    """Have two compiled hosts exchange requests and answers; return the frames in a CPU second."""

    def ask(state: Any, frame: Any, _now: int, out: Any) -> int:  # numba compiles it
        if state[0] < state[1]:
            state[0] += 1
            add_frame(out, frame if len(frame) else np.zeros(_PACKET_BYTES, np.uint8))
        return -1

    def answer(_state: Any, frame: Any, _now: int, out: Any) -> int:  # numba compiles it
        if len(frame):
            add_frame(out, frame)
        return -1

    with Network(seed=1) as net:
        client, server = net.add_host("client", "10.0.0.1/24"), net.add_host("server", "10.0.0.2/24")
        link = net.add_link(client, server, mbit=10_000, delay_us=1)
        client.run_compiled(ask, np.array([0, exchanges]))
        server.run_compiled(answer, np.zeros(1, np.int64))
        net.run(until_s=1e-9)  # loads the event loop's machine code
        begin = time.process_time()
        net.run()
        elapsed_s = time.process_time() - begin
        return (link.counters("client").sent + link.counters("server").sent) / elapsed_s


def build_fat_tree(net: Network, program: Path) -> None:
    """Add four pods of two edge and two aggregation switches, four core switches, and 16 hosts."""
    for core in range(4):
        net.add_switch(f"c{core}", program)
    for pod in range(4):
        for k in range(2):
            net.add_switch(f"a{pod}{k}", program)
            net.add_switch(f"e{pod}{k}", program)
        for edge in range(2):
            for k in range(2):
                gateway = f"10.{pod}.{edge}.1"
                host = net.add_host(f"h{pod}{edge}{k}", f"10.{pod}.{edge}.{k + 2}/24", gateway=gateway)
                host.set_neighbour(gateway, _MAC)
                net.add_link(host, f"e{pod}{edge}", mbit=10_000, delay_us=1)
                _route(net, f"e{pod}{edge}", f"{host.ip}/32", k + 1, host.mac)
            for k in range(2):
                net.add_link(f"e{pod}{edge}", f"a{pod}{k}", mbit=10_000, delay_us=1)
                _route(net, f"a{pod}{k}", f"10.{pod}.{edge}.0/24", edge + 1)
            _route(net, f"e{pod}{edge}", f"10.{pod}.0.0/16", 3)
            _route(net, f"e{pod}{edge}", "0.0.0.0/0", 3 + pod % 2)
        for k in range(2):
            for core in range(2):
                net.add_link(f"a{pod}{k}", f"c{2 * k + core}", mbit=10_000, delay_us=1)
                _route(net, f"c{2 * k + core}", f"10.{pod}.0.0/16", pod + 1)
            for other in range(4):
                if other != pod:
                    _route(net, f"a{pod}{k}", f"10.{other}.0.0/16", 3 + other // 2)


def _route(net: Network, switch: str, prefix: str, port: int, mac: str = _MAC) -> None:
    net.switch(switch).run(f"table_add routes next_hop {prefix} => {mac} {port}")


def many_switches_in_new_process(program: Path) -> tuple[float, float]:
    """Return what `many_switches` returns, in a process that has no freed memory to use again."""
    command = [sys.executable, "-m", __name__, str(program)]
    start, memory = subprocess.check_output(command, text=True).split()
    return float(start), float(memory)


def many_switches(program: Path) -> tuple[float, float]:
    """Return CPU s to add `_SOME` switches of one program, and MB that `_MANY` take."""
    with Network() as net:
        net.add_switch("first", program)  # compiles the program
        before, begin = _resident_mb(), time.process_time()
        for number in range(_MANY):
            net.add_switch(f"s{number}", program)
            if number + 1 == _SOME:
                elapsed_s = time.process_time() - begin
        return elapsed_s, _resident_mb() - before


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES / 1e6


if __name__ == "__main__":
    print(*many_switches(Path(sys.argv[1])))
