"""A worker and a parameter server in plain Python with Scapy, to read and to debug (docs/start.md)."""

from __future__ import annotations

SCAPY_WORKER, SCAPY_SERVER = "hosts.scapy.worker_process", "hosts.scapy.server_process"
"""Modules of the processes, which have the commands, files and logs of compiled agents."""
DESIGNS = ("hotset", "none")
"""Names of the designs whose protocol these agents speak."""


def refusal(
    codec: str, design: str, *, has_optimiser: bool = False, has_recovery: bool = False
) -> str | None:
    """Return why agents of Scapy do not work with these settings, or None."""
    if has_optimiser:
        return (
            f"codec ({codec}) and optimiser: servers of Scapy add what workers push, and apply no optimiser; "
            "leave one out"
        )
    if design not in DESIGNS:
        return (
            f"codec ({codec}) and design {design}: agents of Scapy speak the protocol of the designs "
            f"{' and '.join(DESIGNS)}, and this design has packets or servers of its own; leave codec out"
        )
    if has_recovery:
        return (
            f"codec ({codec}) and recovery: servers of Scapy keep no journal, and workers of Scapy no replay "
            "log; leave one out"
        )
    return None


def is_scapy_worker(codec: str, number: int) -> bool:
    """Return whether the worker with this number, from 1, is of Scapy: with "mixed", every second one is."""
    return codec == "scapy" or (codec == "mixed" and number % 2 == 1)


def is_scapy_server(codec: str, number: int) -> bool:
    """Return whether the server with this number, from 1, is of Scapy: with "mixed", the first one is."""
    return codec == "scapy" or (codec == "mixed" and number == 1)
