"""Commands that a controller sends to each switch.

`python3 entries.py` writes those of the switches in p4app.json into files, which p4app.json names.
"""

from pathlib import Path
from typing import Any

SWITCHES: dict[str, dict[str, Any]] = {
    "s1": {"worker_ports": [1, 2], "up_port": 0, "down_port": 3},
    "s2": {"worker_ports": [1, 2, 3], "up_port": 4, "down_port": 0},
}


def commands(switch: dict[str, Any]) -> list[str]:  # values of JSON
    """Return commands of `softswitch cli` for a switch.

    `switch` has "worker_ports" (a list), "up_port" (the port to the switch above, 0 if there is none) and
    "down_port" (the port to the switch below, 0 if there is none).
    """
    ports = switch["worker_ports"]
    # TODO 3: the switch above also has updates from its down_port, and sends results there.
    inputs = len(ports)
    return [
        f"register_write inputs 0 {inputs}",
        f"register_write uplink 0 {switch['up_port']}",
        "mc_mgrp_create 1",
        f"mc_node_create 0 {' '.join(map(str, ports))}",
        "mc_node_associate 1 0",
    ]


if __name__ == "__main__":
    for name, description in SWITCHES.items():
        lines = [f"{command}\n" for command in commands(description)]
        Path(__file__).with_name(f"{name}-commands.txt").write_text("".join(lines))
