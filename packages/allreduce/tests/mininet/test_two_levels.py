"""ATP on two leaves and a spine: every worker gets the sum of all pushes, of a packet of each child."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from foundation.designs.arms import measured_arms
from foundation.protocol.leaf_spine import LeafSpine
from packages.allreduce.tests.mininet.test_lockstep import SMALL
from tests.mininet.run_topo import Traces, finished_run, record_of, summary_of

pytestmark = pytest.mark.mininet
NETWORK = LeafSpine(workers=5, servers=2)
CHUNKS = 33  # of 62 values, in a vector of 2,000
RETRANSMITTED = 0.4
"""Largest share of packets that a busy machine adds; without sums, an uplink carries half as many again."""


def test_servers_and_uplinks_get_a_packet_of_each_cell_and_no_update_is_lost(tmp_path: Path) -> None:
    small = {**SMALL, "workers": NETWORK.workers}
    run = finished_run(tmp_path, "DESIGN=atp", "TOPOLOGY=leaf-spine", small=small)
    record, summary = record_of(run.folder), summary_of(run.folder)
    accounting = record["accounting"]
    assert accounting["lost"] == accounting["mismatched_keys"] == accounting["unknown"] == 0
    assert accounting["sent"] == accounting["applied"] > 10_000
    assert summary["last_loss"] < summary["chance_loss"]
    for arm in measured_arms("atp"):
        of = summary["arms"][arm.name]
        assert of["rpcs_per_step"] == CHUNKS
        assert of["ps_packets_per_step"] == pytest.approx(CHUNKS / NETWORK.workers, rel=RETRANSMITTED)
    assert {"s1", "s2", "s3"} <= set(record["memory_mb"])
    spine, *leaves = (ports_of(run.folder, f"s{1 + number}") for number in NETWORK.switches)
    sums = leaves[0]["1"]["tx"]  # which worker 1 has received
    for port in ("1", "2"):
        # One leaf sends a packet of each cell, and the other, whose server it is for, an acknowledgement.
        assert spine[port]["rx"] == pytest.approx(sums, rel=RETRANSMITTED)
    assert Traces.look() == Traces(frozenset(), frozenset())


def ports_of(run: Path, switch: str) -> Mapping[str, Any]:
    """Return the counters of a switch's ports."""
    ports: Mapping[str, Any] = json.loads((run / "logs" / f"{switch}.counters.json").read_text())["ports"]
    return ports
