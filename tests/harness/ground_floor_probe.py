"""`PYTHON -m tests.harness.ground_floor_probe LOG`: what the ground floor computes, and what it imports.

It runs in an environment without numba, and in the process of a test with numba, which compares the two. So
it imports nothing but what a run does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scapy.packet import Packet

from foundation.checkout import ROOT
from foundation.logs.access.block import read_options
from foundation.logs.access.steps import accesses_of, read_steps, updates_of
from hosts.model import LogisticRegression
from hosts.scapy.packets import Address, datagram_of, packet_of
from hosts.scapy.server import ScapyServer
from hosts.scapy.worker import ScapyWorker
from hosts.workload.trace import MiniBatch

FOLDERS = (
    "src/foundation",
    "hosts",
    "src/experiment",
    "src/analysis",
    "topologies",
    "controller",
    "src/hotline",
)
"""The rooms of the ground floor."""
_WORKER, _SERVER = Address("10.0.1.1", 20_000), Address("10.0.2.1", 5001)
_KEYS = 300
_STEPS = 5


def modules() -> Iterator[str]:
    for folder in map(Path, FOLDERS):
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = file.relative_to(ROOT / folder.parent).with_suffix("").parts
            if parts[-1] != "__main__":
                yield ".".join(parts).removesuffix(".__init__")


def failed_imports() -> dict[str, str]:
    """Import all modules of the ground floor; return those that cannot be, with the reason."""
    failed = {}
    for name in modules():
        try:
            import_module(name)
        except ImportError as error:
            failed[name] = str(error)
    return failed


def log_in_steps(log: Path) -> dict[str, object]:
    """Return the steps of an access log, and its counts."""
    with TemporaryDirectory() as folder:
        steps = read_steps([log], read_options(), Path(folder), lambda _done, _total: None)
        return {
            "accesses": steps.accesses.tolist(), "starts": steps.starts.tolist(), "keys": steps.keys.tolist(),
            "tables": steps.table_of.tolist(), "updates": updates_of(steps).tolist(),
            "counts": accesses_of(steps).tolist(), "notes": [note.partition(": ")[2] for note in steps.notes],
        }  # fmt: skip


def training() -> dict[str, object]:
    """Train on mini-batches with and without numbers of features; return the weights and losses."""
    random, samples, size = np.random.default_rng(1), 40, 200
    model, weights, losses = LogisticRegression(), np.zeros(size, np.uint32), []
    for step in range(_STEPS):
        features = samples * 10
        batch = MiniBatch(
            positions=np.arange(size),
            label=random.integers(0, 2, samples).astype(np.uint8),
            sample=np.repeat(np.arange(samples), 10),
            column=random.integers(0, size, features).astype(np.uint32),
            x=random.normal(size=features).astype(np.float32) if step % 2 else None,
        )
        push, loss = model.step(batch, weights)
        weights += push
        losses.append(loss)
    return {"weights": weights.tolist(), "losses": losses}


def scapy_agents() -> dict[str, object]:
    """Push by a worker of Scapy and pull, with a server of Scapy; return the numbers of the server's rows."""
    keys = range(_KEYS)
    worker = ScapyWorker(0, 1, 0, _WORKER, [_SERVER], 4)
    server = ScapyServer(0, 1, keys, {0: 0}, _SERVER, _SERVER)

    def exchange(packets: Sequence[Packet]) -> None:
        while packets:
            requests = [packet_of(datagram_of(packet), _WORKER, _SERVER) for packet in packets]
            for request in requests:
                request.time = 0
            answers = [answer for request in requests for answer in server.handle(request, 0)]
            packets = [
                packet
                for answer in answers
                for packet in worker.handle(packet_of(datagram_of(answer), _SERVER, _WORKER), 0)
            ]

    exchange(worker.push(1, {key: (key * key,) for key in keys}, set(), 0))
    exchange(worker.pull(1, keys, 0))
    rows = [list(row) for _, row, _, _ in server.contents(0, keys)]
    pulled = [list(worker.values[key]) for key in keys]
    return {"rows": rows, "pulled": pulled, "rpcs": server.counters[0].rpcs}


def computed(log: Path) -> dict[str, Any]:
    return {"log": log_in_steps(log), "training": training(), "scapy": scapy_agents()}


def imported_packages() -> list[str]:
    """Return the packages from outside of the checkout and of the standard library that are imported."""
    names = {
        name.partition(".")[0]
        for name, module in sys.modules.items()
        if "site-packages" in (getattr(module, "__file__", None) or "")
    }
    return sorted(names)


if __name__ == "__main__":
    failed = failed_imports()
    print(json.dumps({"failed": failed, "packages": imported_packages(), **computed(Path(sys.argv[1]))}))
