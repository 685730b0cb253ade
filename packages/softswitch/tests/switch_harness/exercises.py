"""The folder of an exercise, as those of p4lang/tutorials: two hosts, two switches, and their entries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parents[1] / "programs"
TOPOLOGY: dict[str, Any] = {
    "hosts": {
        "h1": {
            "ip": "10.0.1.1/24",
            "mac": "08:00:00:00:01:11",
            "commands": [
                "route add default gw 10.0.1.10 dev eth0",
                "arp -i eth0 -s 10.0.1.10 08:00:00:00:02:22",
            ],
        },
        "h2": {
            "ip": "10.0.2.2/24",
            "mac": "08:00:00:00:02:22",
            "commands": ["route add default gw 10.0.2.20", "arp -s 10.0.2.20 08:00:00:00:01:11"],
        },
    },
    "switches": {
        "s1": {"runtime_json": "topo/s1-runtime.json"},
        "s2": {"runtime_json": "topo/s2-runtime.json"},
    },
    "links": [["h1", "s1-p1"], ["s1-p2", "s2-p2", "1ms", 10], ["h2", "s2-p3", 2]],
}


def runtime(ports: dict[str, int]) -> dict[str, Any]:
    return {
        "target": "bmv2",
        "p4info": "build/l2.p4.p4info.txtpb",
        "bmv2_json": "build/l2.json",
        "table_entries": [
            {
                "table": "L2Ingress.hosts",
                "match": {"mac": mac},
                "action_name": "L2Ingress.forward",
                "action_params": {"port": port},
            }
            for mac, port in ports.items()
        ],
        "multicast_group_entries": [
            {
                "multicast_group_id": 1,
                "replicas": [{"egress_port": 1, "instance": 1}, {"egress_port": 2, "instance": 1}],
            }
        ],
        "clone_session_entries": [
            {
                "clone_session_id": 5,
                "replicas": [{"egress_port": 3, "instance": 1}],
                "packet_length_bytes": 64,
            }
        ],
    }


def write_exercise(folder: Path) -> Path:
    """Write the files of the exercise into a new folder; return its topology."""
    (folder / "topo").mkdir(parents=True)
    (folder / "l2.p4").write_text((SOURCES / "l2.p4").read_text().replace("1048576", "64"))
    topology = folder / "topo" / "topology.json"
    topology.write_text(json.dumps(TOPOLOGY))
    h1, h2 = TOPOLOGY["hosts"]["h1"]["mac"], TOPOLOGY["hosts"]["h2"]["mac"]
    for name, ports in (("s1", {h1: 1, h2: 2}), ("s2", {h1: 2, h2: 3})):
        (folder / "topo" / f"{name}-runtime.json").write_text(json.dumps(runtime(ports)))
    return topology
