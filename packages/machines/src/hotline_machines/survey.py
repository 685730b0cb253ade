"""Describe a machine in a task of dask, before anything is started there."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import socket
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from experiment.machine_description import describe_machine
from foundation.checkout import source_folders
from foundation.protocol.header import VERSION

_PROGRAMS = ("ip", "ethtool", "nsenter", "setpriv", "sysctl", "taskset")
_DIGEST_CHARACTERS = 12


class SurveyedMachine(NamedTuple):
    """A machine with a worker of dask."""

    name: str  # of the host, which is that of the machine in settings and messages
    versions: dict[str, str]
    description: dict[str, str | int]
    cpus: tuple[int, ...]
    uid: int
    missing_programs: tuple[str, ...]
    time_ns: int
    """Unix time of the survey in ns."""


def survey() -> SurveyedMachine:
    return SurveyedMachine(
        name=socket.gethostname(),
        versions=software_versions(),
        description=dict(describe_machine()),
        cpus=tuple(sorted(os.sched_getaffinity(0))),
        uid=os.geteuid(),
        missing_programs=tuple(program for program in _PROGRAMS if shutil.which(program) is None),
        time_ns=time.time_ns(),
    )


def software_versions() -> dict[str, str]:
    """Return what must be the same on all machines, and the kernel, which may differ."""
    return {
        "hotline": f"{version('hotline-testbed')} ({sources_digest()})",
        "wire": str(VERSION),
        "python": platform.python_version(),
        "kernel": platform.release(),
    }


def sources_digest() -> str:
    """Return a digest of the sources of Hotline, of the switch and of all packages."""
    hasher = hashlib.sha256()
    for folder in source_folders():
        rooms = [each for each in folder.iterdir() if (each / "__init__.py").is_file()]
        # Strings, since making and comparing hundreds of paths takes longer than reading the files.
        for file in sorted(file for room in rooms for file in _sources_below(room)):
            name = file.removeprefix(f"{folder}/")
            with open(file, "rb") as source:
                hasher.update(f"{name}\0".encode() + source.read())
    return hasher.hexdigest()[:_DIGEST_CHARACTERS]


def _sources_below(room: Path) -> Iterator[str]:
    for folder, _, files in os.walk(room):
        yield from (f"{folder}/{file}" for file in files if file.endswith(".py"))
