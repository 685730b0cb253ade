"""Networks from files of p4lang/tutorials and p4-utils, and the subcommand that simulates them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from softswitch.errors import SwitchError
from softswitch.network import Network
from softswitch.network.command import main
from softswitch.network.files import read_network
from softswitch.p4runtime.messages import p4r
from switch_harness import PROGRAMS
from switch_harness.exercises import write_exercise
from switch_harness.wording import mentions


@pytest.fixture
def exercise(tmp_path: Path) -> Path:
    """Return the folder of an exercise, which is as those of p4lang/tutorials."""
    return write_exercise(tmp_path / "exercise").parents[1]


def test_hosts_of_a_tutorial_reach_each_other_with_the_delays_of_its_links(exercise: Path) -> None:
    with Network() as net:
        read_network(exercise / "topo" / "topology.json", net)
        ping = net.host("h1").ping("10.0.2.2")
        net.run()
        on_wire_us = (42 + 24) * 8 / 10  # at 10 Mbit/s
        assert ping.round_trips_us == {1: pytest.approx(2 * (1000 + 2000 + on_wire_us))}
        assert any("mgrp(1)" in line for line in net.switch("s1").run("mc_dump"))
        query = p4r.Entity()
        query.packet_replication_engine_entry.clone_session_entry.session_id = 5
        [found] = net.switch("s1").connect().read(query)
        assert found.packet_replication_engine_entry.clone_session_entry.packet_length_bytes == 64


def test_a_tutorials_host_without_arp_entries_needs_a_network_that_carries_broadcasts(exercise: Path) -> None:
    topology, entries = exercise / "topo" / "topology.json", exercise / "topo" / "s1-runtime.json"
    document, settings = json.loads(topology.read_text()), json.loads(entries.read_text())
    h3_mac = "08:00:00:00:01:33"
    document["hosts"]["h3"] = {"ip": "10.0.1.3/24", "mac": h3_mac}
    document["links"].append(["h3", "s1-p3"])
    settings["table_entries"].append(
        {**settings["table_entries"][0], "match": {"mac": h3_mac}, "action_params": {"port": 3}}
    )
    topology.write_text(json.dumps(document))
    for broadcast_port, answers in ((None, 0), (1, 1)):
        if broadcast_port is not None:
            match = {"mac": "ff:ff:ff:ff:ff:ff"}
            parameters = {"port": broadcast_port}
            settings["table_entries"].append(
                {**settings["table_entries"][0], "match": match, "action_params": parameters}
            )
        entries.write_text(json.dumps(settings))
        with Network() as net:
            read_network(topology, net)
            ping = net.host("h3").ping("10.0.1.1")
            flow = net.host("h3").send(net.host("h3").udp_frame("10.0.1.1", 7, b""))
            net.run()
            assert (ping.received, flow.received) == (answers, 1)


def test_default_actions_of_runtime_files_replace_default_actions_of_programs(exercise: Path) -> None:
    source = exercise / "l2.p4"
    source.write_text(source.read_text().replace("const default_action", "default_action"))
    file = exercise / "topo" / "s1-runtime.json"
    settings = json.loads(file.read_text())
    default = {"table": "L2Ingress.hosts", "default_action": True, "action_name": "L2Ingress.forward"}
    settings["table_entries"] = [{**default, "action_params": {"port": 2}}]
    file.write_text(json.dumps(settings))
    with Network() as net:
        read_network(exercise / "topo" / "topology.json", net)
        flow = net.host("h1").send(net.host("h1").udp_frame("10.0.2.2", 7, b""))
        net.run()
        assert (flow.received, flow.sent) == (1, 1)


def test_sources_are_searched_before_the_folder_of_the_exercise(exercise: Path, tmp_path: Path) -> None:
    solution = tmp_path / "solution"
    solution.mkdir()
    source = exercise / "l2.p4"
    (solution / "l2.p4").write_text(source.read_text())
    source.write_text("not P4")
    topology = exercise / "topo" / "topology.json"
    with Network() as net, pytest.raises(SwitchError, match=mentions("l2.p4")):
        read_network(topology, net)
    with Network() as net:
        read_network(topology, net, solution)
        assert len(net.switches) == 2


P4APP: dict[str, Any] = {
    "p4_src": "l2.p4",
    "exec_scripts": [{"cmd": "python controller.py"}],
    "topology": {
        "assignment_strategy": "l2",
        "default": {"bw": 10},
        "links": [
            ["h1", "s1"],
            ["h2", "s1"],
            ["s1", "s2", {"delay": "3ms", "queue_length": 7}],
            ["web", "s2"],
        ],
        "hosts": {"h1": {}, "h2": {}, "web": {}},
        "switches": {"s1": {"cli_input": "s1.txt"}, "s2": {"cpu_port": True}},
    },
}


def p4app(folder: Path, **changes: Any) -> Path:
    file = folder / "p4app.json"
    file.write_text(json.dumps({**P4APP, "topology": {**P4APP["topology"], **changes}}))
    (folder / "s1.txt").write_text("table_add hosts forward 00:00:0a:00:00:02 => 2\n")
    return file


@pytest.mark.parametrize(
    "strategy, addresses",
    [
        ("l2", {"h1": "10.0.0.1/16", "h2": "10.0.0.2/16", "web": "10.0.0.3/16"}),
        ("mixed", {"h1": "10.0.1.1/24", "h2": "10.0.1.2/24", "web": "10.0.2.3/24"}),
        ("l3", {"h1": "10.1.1.2/24", "h2": "10.1.2.2/24", "web": "10.2.3.2/24"}),
    ],
)
def test_hosts_of_p4_utils_have_the_addresses_of_its_strategies(
    exercise: Path, strategy: str, addresses: dict[str, str]
) -> None:
    with Network() as net:
        read_network(p4app(exercise, assignment_strategy=strategy), net)
        assert {host.name: str(host.interface) for host in net.hosts} == addresses
        for host in net.hosts:
            octets = ":".join(f"{octet:02x}" for octet in host.ip.packed)
            assert host.mac == f"00:00:{octets}"
        assert net.switch("s2").cpu_port == 3  # after the ports of its links


def test_command_files_of_p4_utils_are_run(exercise: Path) -> None:
    with Network() as net:
        read_network(p4app(exercise), net)
        assert {str(ip): mac for ip, mac in net.host("h1").neighbours.items()} == {
            "10.0.0.2": "00:00:0a:00:00:02",
            "10.0.0.3": "00:00:0a:00:00:03",
        }
        flow = net.host("h1").send(net.host("h1").udp_frame("10.0.0.2", 7, b""))
        net.run()
        assert flow.received == 1
        link = net.links[2]
        assert (link.ends[0].node, link.ends[1].node) == ("s1", "s2")


Edit = Callable[[dict[str, Any]], None]
EDITS: list[tuple[str, Edit, tuple[str, ...]]] = [
    ("topology.json", lambda d: d.pop("links"), ("links",)),
    ("topology.json", lambda d: d["links"].append(["h1"]), ("links[3]",)),
    ("topology.json", lambda d: d["links"].append(["h9", "s1-p4"]), ("links[3][0]", "h9")),
    ("topology.json", lambda d: d["links"].append(["s1-p2", "s2-p7"]), ("s1", "port 2")),
    ("topology.json", lambda d: d["links"][1].__setitem__(2, "soon"), ("links[1][2]", "soon", "10ms")),
    ("topology.json", lambda d: d["links"][1].__setitem__(3, -1), ("mbit", "-1")),
    ("topology.json", lambda d: d["hosts"]["h1"].update(ip="10.0.0"), ("h1", "10.0.0")),
    ("topology.json", lambda d: d["hosts"]["h1"].update(ip=7), ("hosts.h1.ip", "7")),
    ("topology.json", lambda d: d["switches"]["s1"].update(runtime_json="none.json"), ("none.json",)),
    ("topology.json", lambda d: d["switches"]["s1"].update(cpu_port="ten"), ("cpu_port", "ten")),
    ("topology.json", lambda d: d["switches"]["s1"].update(program="other.json"), ("other.p4",)),
    (
        "s1-runtime.json",
        lambda d: d["table_entries"][0].update(table="none"),
        ("table_entries[0].table", "none"),
    ),
    ("s1-runtime.json", lambda d: d["table_entries"][0].update(action_name="go"), ("action_name", "go")),
    ("s1-runtime.json", lambda d: d["table_entries"][0]["match"].update(ip=1), ("match.ip", "mac")),
    ("s1-runtime.json", lambda d: d["table_entries"][0]["match"].update(mac="x"), ("match.mac", "x")),
    ("s1-runtime.json", lambda d: d["table_entries"][0]["action_params"].update(port=-1), ("port", "-1")),
    ("s1-runtime.json", lambda d: d["table_entries"][0]["action_params"].update(way=1), ("way", "port")),
    (
        "s1-runtime.json",
        lambda d: d["table_entries"][0]["action_params"].update(port=512),
        ("table_entries[0]", "port"),
    ),
    ("s1-runtime.json", lambda d: d["multicast_group_entries"][0].pop("replicas"), ("replicas",)),
]


@pytest.mark.parametrize("file, edit, words", EDITS, ids=[f"{file}-{words[-1]}" for file, _, words in EDITS])
def test_mistakes_in_files_are_refused_with_their_place(
    exercise: Path, file: str, edit: Edit, words: tuple[str, ...]
) -> None:
    path = exercise / "topo" / file
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))
    with Network() as net, pytest.raises(SwitchError, match=mentions(*words)):
        read_network(exercise / "topo" / "topology.json", net)


def test_the_command_reports_flows_and_links_and_draws_a_picture(
    exercise: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topology, picture = str(exercise / "topo" / "topology.json"), tmp_path / "net.svg"
    outputs = ["--picture", str(picture), "--pcap", str(tmp_path / "pcap")]
    main([topology, "--flow", "h1:h2:100pps:1226", "--json", *outputs])
    report = json.loads(capsys.readouterr().out)
    [flow] = report["flows"]
    assert (flow["sent"], flow["received"]) == (200, 200)
    assert flow["mean_delay_us"] == pytest.approx(1000 + 2000 + 1250 * 8 / 10)
    link = next(each for each in report["links"] if each["sender"] == "s1-p2")
    assert link["load"] == pytest.approx(0.1)
    labels = [element.text for element in ElementTree.parse(picture).iter() if element.tag.endswith("text")]
    assert labels.count("10%") == 1 and "0.981 Mbit/s" in labels and {"h1", "h2", "s1", "s2"} <= {*labels}
    assert (tmp_path / "pcap" / "s1-p2_s2-p2.pcap").stat().st_size == 24 + 200 * (16 + 1226)
    main([topology])
    text = capsys.readouterr().out
    assert "2 of 2 answered" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    "flow, word", [("h1:h2:fast", "h1:h2:fast"), ("h1:h7:10pps", "h7"), ("h1:s1:10pps", "s1")]
)
def test_the_command_refuses_malformed_flows_in_one_line(exercise: Path, flow: str, word: str) -> None:
    with pytest.raises(SystemExit, match=mentions(word)) as refusal:
        main([str(exercise / "topo" / "topology.json"), "--flow", flow])
    assert len(str(refusal.value.code).splitlines()) == 1


def test_simulate_is_a_subcommand_of_softswitch() -> None:
    command = [sys.executable, "-m", "softswitch", "simulate", "--help"]
    assert "topology.json" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_compiled_programs_are_run_in_an_exercise_without_source(exercise: Path) -> None:
    (exercise / "l2.p4").unlink()
    (exercise / "build").mkdir()
    (exercise / "build" / "l2.json").write_bytes((PROGRAMS / "l2.json").read_bytes())
    with Network() as net:
        read_network(exercise / "topo" / "topology.json", net)
        assert len(net.switches) == 2
