"""The machines of a run on several, and the links between them."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.record import RunRecord
from foundation.text import pluralize

THIS_MACHINE, THESE_MACHINES = "this machine", "these machines"


def where_measured(record: RunRecord) -> str:
    return THESE_MACHINES if record.machines else THIS_MACHINE


def machine_notes(record: RunRecord) -> list[str]:
    """Return the machines and links in sentences; none for a run on one machine."""
    if not record.machines:
        return []
    machines = "; ".join(f"{name} {text}" for name, text in machine_rows(record))
    links = "; ".join(f"{name} {text}" for name, text in link_rows(record))
    return [f"Machines: {machines}.", *([f"Links to the switch's machine: {links}."] if links else [])]


def machine_rows(record: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield each machine's name with what it has in the run, its CPUs and its clock."""
    for name, machine in record.machines.items():
        roles = [*(["the switch"] if machine["switch"] else []), *machine["hosts"]]
        text = f"has {', '.join(roles)}, {pluralize(machine['cpus'], 'CPU')}"
        if "clock_error_us" in machine:
            text += f", clock within {machine['clock_error_us']:,.0f} µs"
        yield name, text


def link_rows(record: RunRecord) -> Iterator[tuple[str, str]]:
    for name, link in record.links.items():
        yield name, f"{link['round_trip_us']:,.0f} µs round trip, {link['bandwidth_mbit_s']:,.0f} Mbit/s"
