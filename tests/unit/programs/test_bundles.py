"""Packets for a bundle of ports leave by its members, in turn or by their flow, in all programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import product

import pytest

from controller.tables import (
    CPU_PORT,
    BundleMemberRow,
    HashedBundleRow,
    Route,
    SprayedBundleRow,
    TableRow,
    UplinkRow,
)
from experiment.run_config import Config
from foundation.designs.arms import is_lockstep
from foundation.designs.registry import design
from foundation.protocol import addressing
from foundation.protocol.frames import UdpEndpoint, UdpFrame, build
from foundation.protocol.leaf_spine import Routing
from hotline_simulator.config import SimulationConfig
from tests.harness.programs import pipeline_of

DESIGNS = [name for name in SimulationConfig.designs_of_networks if not is_lockstep(name)]
UPLINKS = (CPU_PORT - 1, CPU_PORT + 1, CPU_PORT + 2)
"""The ports of a bundle, without the one between them."""
HOST, HOST_PORT, FAR_HOST = addressing.worker(1), 1, addressing.worker(2)
PLAIN_UDP = 9


def rows(routing: Routing, design_name: str) -> list[TableRow]:
    routes = [Route(HOST.mac, HOST_PORT), Route(FAR_HOST.mac, UPLINKS[0])]
    if routing == "fixed":
        return [*routes]
    kind = HashedBundleRow if routing == "ecmp" else SprayedBundleRow
    members = [BundleMemberRow(number, port) for number, port in enumerate(UPLINKS)]
    uplinks = [UplinkRow(port, UPLINKS[0]) for port in UPLINKS[1:]]
    compares_ports = design_name in Config.designs_of_networks
    return [*routes, kind(UPLINKS[0], len(UPLINKS)), *members, *(uplinks if compares_ports else ())]


def frame(to: addressing.Endpoint = FAR_HOST, source_port: int = PLAIN_UDP, source: int = 1) -> bytes:
    host = addressing.worker(source)
    source_end = UdpEndpoint(host.mac, host.address, source_port)
    return build(UdpFrame(source_end, UdpEndpoint(to.mac, to.address, PLAIN_UDP), b"payload"))


def ports_of(design_name: str, routing: Routing, sent: Sequence[bytes], ingress_port: int = 2) -> list[int]:
    """Return the port by which each frame leaves, which is unchanged."""
    pipeline = pipeline_of(design(design_name), rows(routing, design_name))
    ports = []
    for each in sent:
        [output] = pipeline.process(ingress_port, each, 0, 0)
        assert output.frame == each
        ports.append(output.port)
    return ports


@cache
def flows() -> list[bytes]:
    return [frame(source_port=port, source=source) for port, source in product(range(100, 116), range(1, 5))]


@pytest.mark.parametrize("name", DESIGNS)
def test_sprayed_frames_take_turns_at_the_members_of_a_bundle(name: str) -> None:
    assert ports_of(name, "spray", [frame()] * 7) == [*UPLINKS, *UPLINKS, UPLINKS[0]]


@pytest.mark.parametrize("name", DESIGNS)
def test_frames_of_a_flow_take_one_member_of_a_bundle_and_flows_take_all(name: str) -> None:
    chosen = ports_of(name, "ecmp", flows() * 2)
    assert chosen[: len(flows())] == chosen[len(flows()) :]
    counts = Counter(chosen)
    assert set(counts) == set(UPLINKS) and min(counts.values()) > len(chosen) / len(UPLINKS) / 2


@pytest.mark.parametrize("name", DESIGNS)
def test_without_rows_of_bundles_all_frames_leave_by_the_port_of_their_route(name: str) -> None:
    assert set(ports_of(name, "fixed", flows())) == {UPLINKS[0]}


@pytest.mark.parametrize("routing", ["fixed", "ecmp", "spray"])
@pytest.mark.parametrize("name", DESIGNS)
def test_frames_for_a_host_of_the_leaf_leave_by_its_port(name: str, routing: Routing) -> None:
    for port in UPLINKS:
        assert ports_of(name, routing, [frame(HOST)] * 2, port) == [HOST_PORT, HOST_PORT]


@pytest.mark.parametrize("routing", ["ecmp", "spray"])
@pytest.mark.parametrize("name", DESIGNS)
def test_frames_without_udp_pass_a_bundle_unchanged(name: str, routing: Routing) -> None:
    """ARP, and IPv4 with another protocol."""
    arp = frame()[:12] + b"\x08\x06" + bytes(28)
    start, protocol_at = frame(), 14 + 9
    tcp = bytearray(start)
    tcp[protocol_at] = 6
    # The checksum of the header rises by what the protocol has lost.
    checksum = int.from_bytes(start[24:26], "big") + (start[protocol_at] - 6)
    tcp[24:26] = (checksum & 0xFFFF).to_bytes(2, "big")
    chosen = ports_of(name, routing, [arp, bytes(tcp)] * 3)
    assert set(chosen) <= set(UPLINKS) and len(set(chosen)) == (1 if routing == "ecmp" else len(UPLINKS))


def test_the_forwarding_program_passes_truncated_frames_unchanged() -> None:
    whole = frame()
    truncated = [whole[:length] for length in range(14, len(whole) + 1)]
    assert ports_of("none", "spray", truncated) == [UPLINKS[i % 3] for i in range(len(truncated))]
