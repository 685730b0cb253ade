"""A worker and a parameter server in plain Python with Scapy, to read and to debug (docs/agents.md)."""

from __future__ import annotations

DESIGNS = ("hotset", "none")
"""Names of the designs whose protocol these agents speak."""


def is_scapy_worker(codec: str, number: int) -> bool:
    """Return whether the worker with this number, from 1, is of Scapy: with "mixed", every second one is."""
    return codec == "scapy" or (codec == "mixed" and number % 2 == 1)


def is_scapy_server(codec: str, number: int) -> bool:
    """Return whether the server with this number, from 1, is of Scapy: with "mixed", the first one is."""
    return codec == "scapy" or (codec == "mixed" and number == 1)
