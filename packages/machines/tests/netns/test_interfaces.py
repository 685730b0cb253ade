"""The interfaces of a machine: what is built, refused and removed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiment.run_config import Config
from foundation.protocol import addressing
from hotline_machines.errors import MachinesError
from hotline_machines.supervisor.interfaces import (
    build_host,
    build_port,
    move_port,
)
from hotline_machines.supervisor.remains import remove_interfaces, remove_namespaces
from hotline_machines.wiring import LARGEST_PACKET, VXLAN_BYTES, PortWiring, Tunnel, wire
from switch_harness.waiting import wait_for

pytestmark = pytest.mark.netns

HERE, THERE = "192.0.2.1", "192.0.2.2"
CONFIG = Config(workers=2, servers=1)


def ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def link(name: str, *namespace: str) -> dict[str, Any]:
    [found] = json.loads(ip(*namespace, "-details", "-json", "link", "show", "dev", name))
    return dict(found)


@pytest.fixture(autouse=True)
def cable() -> Iterator[str]:
    """Yield the name of this machine's interface, with an address and a route to another machine."""
    before = set(Path("/sys/class/net").iterdir())
    ip("link", "add", "cable", "type", "veth", "peer", "name", "other")
    for name in ("cable", "other"):
        ip("link", "set", name, "up")
    ip("address", "add", f"{HERE}/24", "dev", "cable")
    yield "cable"
    remove_namespaces()
    ip("link", "delete", "cable")
    wait_for(lambda: set(Path("/sys/class/net").iterdir()) == before)


def test_a_host_in_a_tunnel_has_its_address_and_finds_all_other_hosts() -> None:
    wired = wire(CONFIG, "w2", HERE, THERE, is_on_switch=False)
    build_host(wired.host, 2, 1)
    namespace = ("-netns", "hotline-w2")
    found = link("w2-eth0", *namespace)
    assert found["address"] == addressing.worker(2).mac and found["mtu"] == 1500 - VXLAN_BYTES
    data = found["linkinfo"]["info_data"]
    assert (data["id"], data["local"], data["remote"], data["port"]) == (0x486F00 + 2, HERE, THERE, 4789)
    addresses = json.loads(ip(*namespace, "-json", "address", "show", "dev", "w2-eth0"))[0]["addr_info"]
    assert [each["local"] for each in addresses] == [addressing.worker(2).address]
    neighbours = json.loads(ip(*namespace, "-json", "neigh", "show", "dev", "w2-eth0"))
    assert {each["dst"]: each["lladdr"] for each in neighbours} == {
        each.address: each.mac
        for each in (
            addressing.worker(1),
            addressing.server(1),
            addressing.service(1),
            addressing.controller(),
        )
    }
    assert all(each["state"] == ["PERMANENT"] for each in neighbours)
    assert remove_namespaces() == ["hotline-w2"] and remove_namespaces() == []


def test_a_port_of_a_tunnel_can_be_moved_to_another_machine() -> None:
    port = wire(CONFIG, "p1", THERE, HERE, is_on_switch=False).port
    assert port is not None and port.interface == "s1-eth3"
    build_port(port)
    assert link("s1-eth3")["linkinfo"]["info_data"]["remote"] == THERE
    move_port(PortWiring(3, Tunnel(0x486F03, 4789, HERE, "192.0.2.77"), None))
    data = link("s1-eth3")["linkinfo"]["info_data"]
    assert (data["remote"], data["id"], data["local"]) == ("192.0.2.77", 0x486F03, HERE)
    remove_interfaces(["s1-eth3", "s1-eth4"])
    assert not Path("/sys/class/net/s1-eth3").exists()


def test_a_host_on_the_switchs_machine_has_a_pair() -> None:
    wired = wire(CONFIG, "w1", HERE, HERE, is_on_switch=True)
    assert wired.port is None
    build_host(wired.host, 2, 1)
    assert link("s1-eth1")["linkinfo"]["info_kind"] == "veth"
    assert "UP" in link("s1-eth1")["flags"]
    assert remove_namespaces() == ["hotline-w1"]
    wait_for(lambda: not Path("/sys/class/net/s1-eth1").exists())


def cable_state(name: str) -> tuple[object, ...]:
    found = link(name)
    features = subprocess.run(["ethtool", "-k", name], check=True, capture_output=True, text=True).stdout
    checksums = [line for line in features.splitlines() if line.startswith("tx-checksumming")]
    return found["address"], found["flags"], found.get("ifalias"), found["mtu"], checksums


@pytest.mark.parametrize("tx_checksums", ["on", "off"])
def test_a_host_on_a_cable_has_its_interface_and_returns_the_interface_unchanged(tx_checksums: str) -> None:
    config = Config.model_validate(
        {"workers": 1, "servers": 1, "machines": "tcp://127.0.0.1:1",
         "wiring": {"underlay": "direct", "cables": {"w1": ["other", "x"], "p1": ["y", "z"]}}}
    )  # fmt: skip
    subprocess.run(["ethtool", "-K", "other", "tx", tx_checksums], check=True, capture_output=True)
    before = cable_state("other")
    build_host(wire(config, "w1", HERE, THERE, is_on_switch=False).host, 1, 1)
    found = link("w1-eth0", "-netns", "hotline-w1")
    assert found["linkinfo"]["info_kind"] == "veth" and found["address"] == addressing.worker(1).mac
    assert not Path("/sys/class/net/other").exists()
    assert remove_namespaces() == ["hotline-w1"]
    assert cable_state("other") == before


@pytest.mark.parametrize("kind", ["tunnel", "pair", "cable"])
def test_a_worker_without_a_namespace_has_an_interface_and_a_route_of_the_machine(kind: str) -> None:
    config = CONFIG
    if kind == "cable":
        cables = {host: ("other", "x") for host in ("w1", "w2", "p1")}
        config = Config.model_validate(
            {"workers": 2, "servers": 1, "machines": "tcp://127.0.0.1:1",
             "wiring": {"underlay": "direct", "cables": cables}}
        )  # fmt: skip
    wired = wire(config, "w2", HERE, THERE, is_on_switch=kind == "pair", has_namespace=False)
    assert wired.host.namespace is None
    build_host(wired.host, 2, 1)
    address = addressing.worker(2).address
    assert link("w2-eth0")["address"] == addressing.worker(2).mac
    routes = json.loads(ip("-json", "route", "get", addressing.server(1).address, "from", address))
    assert routes[0]["dev"] == "w2-eth0"
    own = json.loads(ip("-json", "address", "show", "dev", "w2-eth0"))[0]["addr_info"]
    assert [(each["local"], each["prefixlen"]) for each in own] == [(address, 32)]
    neighbours = {each["dst"] for each in json.loads(ip("-json", "neigh", "show", "dev", "w2-eth0"))}
    assert addressing.service(1).address in neighbours
    # Other processes of the machine do not use it.
    assert "w2-eth0" not in ip("route") and remove_namespaces() == []
    remove_interfaces(["w2-eth0"])
    assert "9590:" not in ip("rule") and not Path("/sys/class/net/w2-eth0").exists()


def host_with(mtu: int) -> None:
    ip("link", "set", "cable", "mtu", str(mtu))
    build_host(wire(CONFIG, "w1", HERE, THERE, is_on_switch=False).host, 2, 1)


def cabled(name: str) -> PortWiring:
    return PortWiring(1, None, name)


@pytest.mark.parametrize("mtu", [LARGEST_PACKET + VXLAN_BYTES - 1, LARGEST_PACKET + VXLAN_BYTES])
def test_a_tunnel_needs_room_for_the_largest_packet(mtu: int) -> None:
    if mtu < LARGEST_PACKET + VXLAN_BYTES:
        with pytest.raises(MachinesError) as refused:
            host_with(mtu)
        assert str(refused.value) == (
            f"interface cable towards {THERE}: expected an MTU of at least 1500 bytes, 50 of them for VXLAN, "
            f"got {mtu}"
        )
    else:
        host_with(mtu)
        assert link("w1-eth0", "-netns", "hotline-w1")["mtu"] == LARGEST_PACKET


def test_missing_or_unusable_cables_are_named() -> None:
    with pytest.raises(MachinesError, match=r"expected one of the interfaces .*cable.*, got none$"):
        build_port(cabled("none"))
    with pytest.raises(MachinesError, match=rf"an interface without an address, .* got cable with {HERE}$"):
        build_port(cabled("cable"))
    ip("link", "set", "other", "down")
    with pytest.raises(MachinesError, match=r"up, got other, which is down; `ip link set other up`"):
        build_port(cabled("other"))
    ip("link", "set", "other", "up")
    build_port(cabled("other"))
    assert "linkinfo" in link("other")
