"""Measure the links between machines and the switch's machine, before a run: round trip and bandwidth."""

from __future__ import annotations

from typing import Any

from experiment.run_config import Config
from hotline_machines.assignment import Assignment
from hotline_machines.remote import RemoteMachine


async def measure_links(
    config: Config, machines: dict[str, RemoteMachine], assignment: Assignment, token: str
) -> dict[str, dict[str, Any]]:
    """Return the links by the name of the machine at their other end, one after another measured."""
    switch = machines[assignment.switch]
    links: dict[str, dict[str, Any]] = {}
    for machine in machines.values():
        if machine is not switch:
            links[machine.name] = await machine.call(
                "measure_link", host=switch.address, port=switch.port, token=token
            )
    return links
