"""Measure machines that are namespaces beside Mininet on the same cores, in turns.

    own-namespaces .venv/bin/python -m packages.machines.tests.beside_mininet --rounds 3 --agents 64

Each run prints a line with its kind and its figures. With --json, standard output gets only all of them: by
name of a figure, by kind, one value a round. `make bench ARGS=machines` shows that as a table.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from packages.machines.tests.namespaced import PLAINTEXT, SMALL_WORKLOAD, Cable, NamespacedCluster, cluster
from tests.harness.warm_processes import WarmProcess

MININET, DIRECT, VXLAN, MACHINES = "mininet", "direct", "vxlan", "machines"
CABLES = [Cable("beta", "eth1", "alpha", "eth1"), Cable("gamma", "eth1", "alpha", "eth2")]
PINS = 'pins = { w1 = "beta", p1 = "gamma" }'
TABLES = {
    DIRECT: f'{PLAINTEXT}\nunderlay = "direct"\n{PINS}\n'
    'cables = { w1 = ["eth1", "eth1"], p1 = ["eth1", "eth2"] }',
    VXLAN: f"{PLAINTEXT}\n{PINS}",
}
SETTINGS: dict[str, object] = {
    "workers": 1, "servers": 1, "top_k": 200, "rounds": 6, "loads": [0.5], "rate": 200.0, "block_ms": 1_000,
    "arms": ["baseline", "offload"], "simulate_dedicated_switch": False, "empty_rpcs": 3_000, "budget_s": 1.0,
}  # fmt: skip
"""Settings of a run whose RPCs are measured."""
N_MACHINES = 8  # for the start of many agents
START = "start of {agents} agents"
Samples = dict[str, dict[str, list[float]]]


Show = Callable[[str], None]


def measure_rpcs(rounds: int, show: Show) -> Samples:
    """Return CPU time and latencies of one worker's RPCs to one server, in µs, without offload."""
    found: Samples = defaultdict(lambda: defaultdict(list))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "runs").mkdir()
        # Worker and server have the cores that they have on Mininet.
        resources = {"alpha": "switch=1", "beta": "host=1", "gamma": "host=1"}
        cpus = {"alpha": "0,1", "beta": "1", "gamma": "0"}
        machines = stack.enter_context(cluster(folder, resources, cpus=cpus, cables=CABLES))
        kinds = [MININET, DIRECT, VXLAN]
        for number in range(rounds):
            first = number % len(kinds)
            for kind in kinds[first:] + kinds[:first]:
                with _run(folder, machines, kind, SETTINGS) as (process, log):
                    code = process.wait()
                    assert code == 0, log.read_text()
                figures = numbers(folder / "runs" / "latest")
                show(f"{kind} {figures}")
                for name, value in figures.items():
                    found[name][kind].append(value)
    return found


def numbers(run: Path) -> dict[str, float]:
    """Return the CPU time of an RPC and latencies in µs, of the baseline."""
    summary: dict[str, Any] = json.loads((run / "summary.json").read_text())
    record: dict[str, Any] = json.loads((run / "run.json").read_text())
    arm = summary["loads"]["0.5"]["arms"]["baseline"]
    blocks = [block for block in record["blocks"] if block["arm"] == "baseline"]
    rpcs = sum(block["servers"]["packets"] for block in blocks)
    return {
        "worker's CPU": 1e6 * sum(block["worker_cpu_s"] for block in blocks) / rpcs,
        "server's CPU": 1e6 * sum(block["servers"]["cpu_s"] for block in blocks) / rpcs,
        "pull, mean": arm["op_latency_us"]["pull"]["mean"],
        "push, mean": arm["op_latency_us"]["push"]["mean"],
        "RPC, median": arm["rpc_latency_us"]["p50"],
        "empty RPC, median": summary["empty_rpc_latency_us"]["p50"],
    }


def measure_starts(agents: int, rounds: int, show: Show) -> Samples:
    """Return the times from the start of a run until its agents are ready and the profile begins, in s."""
    values = {**SETTINGS, "workers": agents * 3 // 4, "servers": agents // 4, "rounds": 1, "rate": 20.0}
    times: dict[str, list[float]] = {MACHINES: [], MININET: []}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "runs").mkdir()
        resources = {f"m{number}": f"host={agents // N_MACHINES}" for number in range(1, N_MACHINES + 1)}
        resources["m1"] += " switch=1"
        machines = stack.enter_context(cluster(folder, resources))
        for number in range(rounds):
            for kind in sorted(times, reverse=number % 2 == 0):
                with _run(folder, machines, kind, values) as (process, log):
                    times[kind].append(_until_profile(process, log))
                show(f"{kind}: {agents} agents after {times[kind][-1]:.1f} s")
    return {START.format(agents=agents): times}


@contextmanager
def _run(
    folder: Path, machines: NamespacedCluster, kind: str, values: Mapping[str, object]
) -> Iterator[tuple[subprocess.Popen[bytes] | WarmProcess, Path]]:
    """Start a run on Mininet or on the machines; yield its process and its log."""
    if kind != MININET:
        with machines.run(tables=TABLES.get(kind, PLAINTEXT), **values) as run:
            yield run.process, run.log
        return
    lines = [
        f"{name} = {json.dumps(value)}" for name, value in {**values, "runs": str(folder / "runs")}.items()
    ]
    lines += ["[workload]", *(f"{name} = {value}" for name, value in SMALL_WORKLOAD.items())]
    config, log = folder / "mininet.toml", folder / "mininet.log"
    config.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "hotline.cli", "run", f"CONFIG={config}"]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield process, log
    finally:
        process.kill()
        process.wait()


def _until_profile(process: subprocess.Popen[bytes] | WarmProcess, log: Path) -> float:
    """Return the time from now until the profile begins, and interrupt the run then."""
    begin_s = time.monotonic()
    while (found := re.search(r"^profile: ([\d.]+) s$", log.read_text(), re.MULTILINE)) is None:
        assert process.poll() is None, log.read_text()
        time.sleep(0.02)
    elapsed_s = time.monotonic() - begin_s - float(found[1])
    process.send_signal(signal.SIGINT)
    process.wait()
    return elapsed_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="of the RPCs; 0 leaves them out")
    parser.add_argument("--agents", type=int, default=0, help="whose start is measured; 0 leaves it out")
    parser.add_argument("--starts", type=int, default=1, help="rounds of starts")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    def show(line: str) -> None:
        if not arguments.json:
            print(line, flush=True)

    samples: Samples = measure_rpcs(arguments.rounds, show) if arguments.rounds else {}
    if arguments.agents:
        samples |= measure_starts(arguments.agents, arguments.starts, show)
    if arguments.json:
        print(json.dumps(samples))


if __name__ == "__main__":
    main()
