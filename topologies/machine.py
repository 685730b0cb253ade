"""What a run of real processes depends on besides the machine, and what the kernel tells of a process."""

from __future__ import annotations

import platform
import subprocess
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from softswitch.processes import find_bmv2

_PACKAGES = ("finsy", "grpcio", "llvmlite", "numpy", "polars", "scapy", "scipy")


def describe_versions(target: str) -> dict[str, str]:
    """Versions of this project, of what it runs on and of the target."""
    versions = {"python": platform.python_version(), "hotline": version("hotline-testbed")}
    versions |= {package: version(package) for package in _PACKAGES}
    versions["mininet"] = _mininet_version()
    if target == "bmv2":
        versions["bmv2"] = _output(find_bmv2(), "--version")
    return versions


def run_queue_ns(pid: int) -> int:
    """Time that all threads of a process were runnable and did not run, in ns (proc(5), schedstat).

    0 where it has ended.
    """
    total = 0
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                total += int((task / "schedstat").read_text().split()[1])
    return total


def peak_memory_mb(pid: int) -> float:
    """The most memory that a process has had, in 2^20 bytes (proc(5), VmHWM); 0 where it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    told = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(told[0]) / 1024 if told else 0.0


def _mininet_version() -> str:
    from topologies.mininet_api import VERSION  # only a run has it: the rest of this is used without

    return str(VERSION)


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip().partition("\n")[0]
