"""What machines cost beside Mininet on the same cores, in pairs: CPU and latency of an RPC, by underlay.

    own-namespaces .venv/bin/python -m packages.machines.tests.beside_mininet

The machines are namespaces of this kernel, so that only Hotline's part differs. --agents 64 compares the
time until so many agents are ready.
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
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from packages.machines.tests.namespaced import PLAINTEXT, SMALL_WORKLOAD, Cable, NamespacedCluster, cluster

CABLES = [Cable("beta", "eth1", "alpha", "eth1"), Cable("gamma", "eth1", "alpha", "eth2")]
PINS = 'pins = { w1 = "beta", p1 = "gamma" }'
TABLES = {
    "direct": f'{PLAINTEXT}\nunderlay = "direct"\n{PINS}\n'
    'cables = { w1 = ["eth1", "eth1"], p1 = ["eth1", "eth2"] }',
    "vxlan": f"{PLAINTEXT}\n{PINS}",
}
SETTINGS: dict[str, object] = {
    "workers": 1, "servers": 1, "top_k": 200, "rounds": 6, "loads": [0.5], "rate": 200.0, "block_ms": 1_000,
    "arms": ["baseline", "offload"], "simulate_dedicated_switch": False, "empty_rpcs": 3_000, "budget_s": 1.0,
}  # fmt: skip


def measure(folder: Path, machines: NamespacedCluster, kind: str, **settings: object) -> dict[str, float]:
    """Run once on Mininet ("mininet") or on the machines, and return numbers of an RPC in µs."""
    values = {**SETTINGS, **settings}
    if kind == "mininet":
        lines = [
            f"{name} = {json.dumps(value)}"
            for name, value in (values | {"runs": str(folder / "runs")}).items()
        ]
        workload = ["[workload]", *(f"{name} = {value}" for name, value in SMALL_WORKLOAD.items())]
        config = folder / "mininet.toml"
        config.write_text("\n".join([*lines, *workload]) + "\n")
        command = [sys.executable, "-m", "hotline.cli", "run", f"CONFIG={config}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    else:
        with machines.run(tables=TABLES[kind], **values) as run:
            assert run.wait() == 0, run.output
    return numbers(folder / "runs" / "latest")


def mininet_command(folder: Path, values: Mapping[str, object]) -> list[str]:
    settings = {**values, "runs": str(folder / "runs")}
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    lines += ["[workload]", *(f"{name} = {value}" for name, value in SMALL_WORKLOAD.items())]
    config = folder / "mininet.toml"
    config.write_text("\n".join(lines) + "\n")
    return [sys.executable, "-m", "hotline.cli", "run", f"CONFIG={config}"]


def numbers(run: Path) -> dict[str, float]:
    summary: dict[str, Any] = json.loads((run / "summary.json").read_text())
    record: dict[str, Any] = json.loads((run / "run.json").read_text())
    arm = summary["loads"]["0.5"]["arms"]["baseline"]
    blocks = [block for block in record["blocks"] if block["arm"] == "baseline"]
    rpcs = sum(block["servers"]["packets"] for block in blocks)
    return {
        "worker's CPU": 1e6 * sum(block["worker_cpu_s"] for block in blocks) / rpcs,
        "server's CPU": 1e6 * sum(block["servers"]["cpu_s"] for block in blocks) / rpcs,
        "RPC, median": arm["rpc_latency_us"]["p50"],
        "empty RPC, median": summary["empty_rpc_latency_us"]["p50"],
    }


@contextmanager
def three_machines(folder: Path) -> Iterator[NamespacedCluster]:
    """Yield the switch's machine, and those of worker and server with their cores on Mininet."""
    resources = {"alpha": "switch=1", "beta": "host=1", "gamma": "host=1"}
    cpus = {"alpha": "0,1", "beta": "1", "gamma": "0"}
    with cluster(folder, resources, cpus=cpus, cables=CABLES) as machines:
        yield machines


def compare(rounds: int) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "runs").mkdir()
        machines = stack.enter_context(three_machines(folder))
        found: dict[str, list[dict[str, float]]] = {"mininet": [], "direct": [], "vxlan": []}
        for number in range(rounds):
            kinds = list(found)
            for kind in kinds[number % 3 :] + kinds[: number % 3]:
                found[kind].append(measure(folder, machines, kind))
                print(kind, found[kind][-1], flush=True)
    for name in found["mininet"][0]:
        base = [each[name] for each in found["mininet"]]
        row = f"{name:20} mininet {median(base):7.2f} µs"
        for kind in ("direct", "vxlan"):
            ratios = [each[name] / of for each, of in zip(found[kind], base, strict=True)]
            row += f"; {kind} × {geometric_mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(row)


def start_times(agents: int, rounds: int) -> None:
    """Compare the times from the start of a run until its agents are ready and begin with the profile."""
    values = {**SETTINGS, "workers": agents * 3 // 4, "servers": agents // 4, "rounds": 1, "rate": 20.0}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "runs").mkdir()
        resources = {f"m{number}": f"host={agents // 8}" for number in range(1, 9)}
        resources["m1"] += " switch=1"
        machines = stack.enter_context(cluster(folder, resources))
        for _ in range(rounds):
            with (folder / "mininet.log").open("w") as log:
                process = subprocess.Popen(mininet_command(folder, values), stdout=log, stderr=log)
            mininet_s = until_profile(process, folder / "mininet.log")
            with machines.run(tables=PLAINTEXT, **values) as run:
                machines_s = until_profile(run.process, run.log)
            ratio = machines_s / mininet_s
            print(f"mininet {mininet_s:.1f} s, machines {machines_s:.1f} s: × {ratio:.2f}", flush=True)


def until_profile(process: subprocess.Popen[Any], log: Path) -> float:
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
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--agents", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.agents:
        start_times(arguments.agents, arguments.rounds)
    else:
        compare(arguments.rounds)


if __name__ == "__main__":
    main()
