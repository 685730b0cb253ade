"""`softswitch net` up to the start of a network: plans, command lines, and what is refused before it."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from softswitch.emulation.command import main, net
from softswitch.emulation.plan import check_interfaces_are_free, read_plan
from softswitch.emulation.shaping import host_rate_command, missing_without_netem, netem_command
from softswitch.emulation.switches import check_ports_are_free, switch_command
from softswitch.errors import SwitchError
from softswitch.network import Network
from softswitch.network.files import read_network
from softswitch.network.link import LinkOptions
from switch_harness.exercises import write_exercise
from switch_harness.wording import mentions

PAGE = Path(__file__).parents[3] / "docs" / "networks.md"
Edit = Callable[[dict[str, Any]], object]


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    return write_exercise(tmp_path / "exercise")


def edit(file: Path, change: Edit) -> None:
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))


@pytest.mark.parametrize(
    "name, change",
    [
        ("topology.json", lambda d: d["links"].append(["h9", "s1-p4"])),
        ("topology.json", lambda d: d["links"][1].__setitem__(2, "soon")),
        ("topology.json", lambda d: d["hosts"]["h1"].update(ip="10.0.0")),
        ("s1-runtime.json", lambda d: d["table_entries"][0]["action_params"].update(port=512)),
    ],
)
def test_net_refuses_malformed_files_in_the_words_of_simulate(
    topology: Path, name: str, change: Edit
) -> None:
    edit(topology.with_name(name), change)
    with Network() as simulated, pytest.raises(SwitchError) as expected:
        read_network(topology, simulated)
    with pytest.raises(SystemExit) as refusal:
        main([str(topology), "--pingall"])
    assert refusal.value.code == f"softswitch: error: {expected.value}"


def test_a_switch_gets_its_ports_rates_queues_and_device_id(topology: Path) -> None:
    edit(topology, lambda d: d["switches"]["s2"].update(cpu_port=7, priority_queues=2))
    with read_plan(topology) as planned:
        _, second = planned.planned_switches
        words = switch_command(second, planned, 50052)
    assert words[words.index("-i") :] == [
        *("-i", "2@s2-eth2", "-i", "3@s2-eth3", "--port-rate", "2=10000kbit", "--port-queue", "2=64"),
        *("--device-id", "1", "--grpc-server-addr", "127.0.0.1:50052"),
        *("--priority-queues", "2", "--cpu-port", "7"),
    ]


def test_commands_of_real_hosts_are_planned(topology: Path) -> None:
    edit(topology, lambda d: d["hosts"]["h2"]["commands"].append("sysctl -a"))
    with read_plan(topology) as planned:
        assert planned.host_commands == {"h2": ["sysctl -a"]}


def test_rates_of_hosts_delays_and_losses_are_qdiscs() -> None:
    both = LinkOptions(mbit=0.5, delay_us=2500, loss=0.01, queue_frames=10)
    rate = "tc qdisc add dev eth0 root handle 1: tbf rate 500kbit burst 1514 limit 15140"
    assert " ".join(host_rate_command("eth0", both)) == rate
    netem = "tc qdisc add dev eth0 parent 1:1 netem limit 10000 delay 2500us loss 1%"
    assert " ".join(netem_command("eth0", both, has_rate=True)) == netem
    delay = "tc qdisc add dev s1-eth1 root netem limit 10000 delay 1000us"
    assert " ".join(netem_command("s1-eth1", LinkOptions(delay_us=1000), has_rate=False)) == delay
    assert host_rate_command("eth0", LinkOptions()) == netem_command("eth0", LinkOptions(mbit=1), True) == []
    assert missing_without_netem(both) == "delay of 2.5 ms and loss of 1 %"


def test_existing_interfaces_of_a_machine_are_refused(
    topology: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (2, "s2-eth3")])
    with read_plan(topology) as planned, pytest.raises(SwitchError, match=mentions("s2-eth3", "mn -c")):
        check_interfaces_are_free(planned)


def test_ports_of_switches_in_use_or_beyond_the_last_one_are_refused(topology: Path) -> None:
    with read_plan(topology) as planned, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        for number, switch in enumerate(planned.planned_switches):
            refusal = mentions(f"switch {switch.name}", f"127.0.0.1:{port}", "--grpc-port")
            with pytest.raises(SwitchError, match=refusal):
                check_ports_are_free(planned, port - number)
        check_ports_are_free(planned, 20051)
        with pytest.raises(SwitchError, match=mentions("127.0.0.1:65536", "--grpc-port")):
            check_ports_are_free(planned, 65535)


def test_switches_with_names_too_long_for_interfaces_are_refused(topology: Path) -> None:
    topology.write_text(topology.read_text().replace("s2", "longswitch").replace("longswitch-r", "s2-r"))
    edit(topology, lambda d: d["links"].append(["longswitch-p10", "s1-p10"]))
    with pytest.raises(SwitchError, match=mentions("longswitch-eth10", "15 characters", "16")):
        read_plan(topology)


def test_users_without_root_get_one_line(topology: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SystemExit, match=mentions("root", "sudo")):
        main([str(topology), "--pingall"])


def test_a_machine_without_mininet_gets_one_line_on_its_installation(
    topology: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for name in list(sys.modules):
        if name.startswith(("mininet.", "softswitch.emulation.")) or name == "mininet":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mininet", None)
    words = ("Mininet", "apt install mininet", "--system-site-packages")
    with pytest.raises(SystemExit, match=mentions(*words)) as refusal:
        main([str(topology), "--pingall"])
    assert len(str(refusal.value.code).splitlines()) == 1


@pytest.mark.parametrize(
    "options, word",
    [(["--json"], "--pingall"), (["--run", "h7", "true"], "h7"), (["--run", "s1", "true"], "s1")],
)
def test_options_without_their_host_or_mode_are_refused(
    topology: Path, options: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refusal:
        main([str(topology), *options])
    assert refusal.value.code not in (0, None)
    assert word in f"{refusal.value.code} {capsys.readouterr().err}"


def test_the_page_names_the_options_of_net() -> None:
    options = {option for parameter in net.params for option in parameter.opts if option.startswith("--")}
    page = PAGE.read_text().partition("## On this machine")[2].partition("\n## ")[0]
    assert {option for option in options if f"`{option}" not in page} == set()
