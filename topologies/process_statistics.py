"""Report the versions of a run's software, and the kernel's statistics of a process."""

from __future__ import annotations

import platform
import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from softswitch.processes import find_bmv2

_PACKAGES = ("finsy", "grpcio", "llvmlite", "numpy", "polars", "scapy", "scipy")


def describe_versions(target: str) -> dict[str, str]:
    from topologies.mininet_api import VERSION  # the rest of this module works without Mininet

    versions = {"python": platform.python_version(), "hotline": version("hotline-testbed")}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):  # a run on BMv2 with agents of Scapy does without some
            versions[package] = version(package)
    versions["mininet"] = str(VERSION)
    if target == "bmv2":
        completed = subprocess.run([find_bmv2(), "--version"], capture_output=True, text=True, check=False)
        versions["bmv2"] = (completed.stdout or completed.stderr).strip().partition("\n")[0]
    return versions


def read_cpu_ns_by_thread(pid: int) -> dict[int, int]:
    """Return the CPU time in ns of each thread of a process; none after its end."""
    return {thread: cpu_ns for thread, (cpu_ns, _) in _read_schedstats(pid).items()}


def read_wait_ns_by_thread(pid: int) -> dict[int, int]:
    """Return how long each thread of a process waited for a CPU, in ns; none after its end."""
    return {thread: wait_ns for thread, (_, wait_ns) in _read_schedstats(pid).items()}


def run_queue_ns(pid: int) -> int:
    """Return how long a process's threads waited for a CPU, in ns; 0 after its end."""
    return sum(read_wait_ns_by_thread(pid).values())


def _read_schedstats(pid: int) -> dict[int, tuple[int, int]]:
    """Return thread -> CPU time and time in run queues, in ns (proc(5), schedstat)."""
    times = {}
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                cpu_ns, wait_ns, _ = map(int, (task / "schedstat").read_text().split())
                times[int(task.name)] = cpu_ns, wait_ns
    return times


def peak_memory_mb(pid: int) -> float:
    """Return the peak memory of a process in 2^20 bytes (proc(5), VmHWM); 0 after its end."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    lines = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0]) / 1024 if lines else 0.0  # the file has kB
