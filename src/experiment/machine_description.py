"""Describe the machine of a run, on any operating system: simulations do not need Linux."""

from __future__ import annotations

import os
import platform
from pathlib import Path

_BYTES_PER_MIB = 2**20


def describe_machine() -> dict[str, str | int]:
    return {
        "system": _system(),
        "kernel": platform.release(),
        "cpu": _processor(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _BYTES_PER_MIB,
    }


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return platform.system()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
