"""Report the versions of a run's software, and the kernel's statistics of a process."""

from __future__ import annotations

import platform
import subprocess
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from softswitch.processes import find_bmv2

_PACKAGES = ("finsy", "grpcio", "llvmlite", "numpy", "polars", "scapy", "scipy")


def describe_versions(target: str) -> dict[str, str]:
    versions = {"python": platform.python_version(), "hotline": version("hotline-testbed")}
    versions |= {package: version(package) for package in _PACKAGES}
    versions["mininet"] = _mininet_version()
    if target == "bmv2":
        versions["bmv2"] = _first_line_of_output(find_bmv2(), "--version")
    return versions


def run_queue_ns(pid: int) -> int:
    """Return how long a process's threads waited for a CPU, in ns (proc(5), schedstat); 0 after its end."""
    total = 0
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                total += int((task / "schedstat").read_text().split()[1])
    return total


def peak_memory_mb(pid: int) -> float:
    """Return the peak memory of a process in 2^20 bytes (proc(5), VmHWM); 0 after its end."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    lines = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0]) / 1024 if lines else 0.0  # the file has kB


def _mininet_version() -> str:
    from topologies.mininet_api import VERSION  # the rest of this module works without Mininet

    return str(VERSION)


def _first_line_of_output(*command: str) -> str:
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    return (completed.stdout or completed.stderr).strip().partition("\n")[0]
