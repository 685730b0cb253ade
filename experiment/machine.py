"""What a run's numbers depend on besides the configuration."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def describe_machine() -> dict[str, str | int]:
    """Kernel, processor and memory."""
    cpu = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", "unknown"),
        "kernel": platform.release(),
        "cpu": cpu[0].partition(":")[2].strip() if cpu else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
    }
