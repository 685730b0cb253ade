"""Commands that a controller sends to each switch."""

from typing import Any


def commands(switch: dict[str, Any]) -> list[str]:  # values of JSON
    """Return commands of `softswitch cli` for a switch.

    `switch` has "worker_ports" (a list), "up_port" (the port to the switch above, 0 if there is none) and
    "down_port" (the port to the switch below, 0 if there is none).
    """
    ports = switch["worker_ports"]
    if switch["down_port"]:
        ports = [*ports, switch["down_port"]]
    inputs = len(ports)
    return [
        f"register_write inputs 0 {inputs}",
        f"register_write uplink 0 {switch['up_port']}",
        "mc_mgrp_create 1",
        f"mc_node_create 0 {' '.join(map(str, ports))}",
        "mc_node_associate 1 0",
    ]
