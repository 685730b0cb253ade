from __future__ import annotations

from importlib import import_module

from tools.fuzz.target import Target

NAMES = (
    "rpc", "control", "ps", "worker", "frame", "update_log", "access_log", "libsvm", "cluster", "run_toml",
    "simulation", "p4runtime", "p4",
)  # fmt: skip
"""Modules of this package, each with one `TARGET`."""


def target(name: str) -> Target:
    found: Target = import_module(f"{__name__}.{name}").TARGET
    assert found.name == name
    return found
