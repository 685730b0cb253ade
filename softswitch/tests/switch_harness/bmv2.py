"""A BMv2 with a compiled program, all of its ports on gRPC, beside softswitch with the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from softswitch.conformance import bmv2
from switch_harness.twins import Twins


@contextmanager
def twins(program: Path, cpu_port: int | None = None) -> Iterator[Twins]:
    """Start twins with a program, given by its path without suffix."""
    with bmv2.running_switch(cpu_port) as (client, ports):
        yield Twins(program, client, ports)
