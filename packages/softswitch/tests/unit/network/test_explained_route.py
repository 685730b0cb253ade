"""`softswitch explain NETWORK --from HOST`: a frame's way through all switches, simulated and running."""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from softswitch import explaining
from softswitch.conformance.client import P4RuntimeClient
from softswitch.emulation.plan import CommandFile, PlannedSwitch, read_plan
from softswitch.explain.tree import LINE_WIDTH
from softswitch.p4runtime.messages import p4r
from softswitch.processes import SOFTSWITCH, start_switch
from switch_harness.exercises import TOPOLOGY, write_exercise

Captured = pytest.CaptureFixture[str]
H2 = TOPOLOGY["hosts"]["h2"]["mac"]
LOOPBACK = "127.0.0.1"
WAY = ["h1 -> s1-p1  64 bytes", "s1-p2 -> s2-p2  64 bytes", "s2-p3 -> h2  64 bytes", "reaches h2"]


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    return write_exercise(tmp_path / "exercise")


def explain(capsys: Captured, *arguments: object) -> list[str]:
    with pytest.raises(SystemExit) as ended:
        explaining.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert ended.value.code == 0, f"{ended.value.code}{captured.err}"
    return captured.out.splitlines()


def refusal(capsys: Captured, *arguments: object) -> str:
    with pytest.raises(SystemExit) as ended:
        explaining.main([str(argument) for argument in arguments])
    return f"{ended.value.code}{capsys.readouterr().err}"


def hops(lines: list[str]) -> list[str]:
    return [line for line in lines if not line.startswith(" ")]


def test_a_datagram_is_followed_through_all_switches(topology: Path, capsys: Captured) -> None:
    lines = explain(capsys, topology, "--from", "h1", "--to", "h2")
    assert hops(lines) == WAY
    tables = [line for line in lines if "table L2Ingress.hosts" in line]
    assert len(tables) == 2 and all(f"mac {H2}" in line and "hit" in line for line in tables)
    assert max(map(len, lines)) <= LINE_WIDTH


def test_a_frame_that_a_switch_drops_reaches_no_host(topology: Path, capsys: Captured) -> None:
    frame = "0800000009990800000001110800" + "00" * 46
    lines = explain(capsys, topology, "--from", "h1", "--packet", frame, "--filter", "kind=drop")
    assert hops(lines) == ["h1 -> s1-p1  60 bytes", "reaches no host"]
    assert any("dropped: egress_spec is 511" in line for line in lines)


def test_a_port_without_a_link_is_named(topology: Path, capsys: Captured) -> None:
    entries = topology.parent / "s2-runtime.json"
    document = json.loads(entries.read_text())
    for each in document["table_entries"]:
        each["action_params"]["port"] = 9
    entries.write_text(json.dumps(document))
    lines = explain(capsys, topology, "--from", "h1", "--to", "h2")
    assert hops(lines)[2:] == ["s2-p9 -> nothing: there is no link  64 bytes", "reaches no host"]


def test_a_frame_that_goes_round_is_refused_after_some_hops(topology: Path, capsys: Captured) -> None:
    entries = topology.parent / "s2-runtime.json"
    document = json.loads(entries.read_text())
    for each in document["table_entries"]:
        each["action_params"]["port"] = 2
    entries.write_text(json.dumps(document))
    assert "goes round" in refusal(capsys, topology, "--from", "h1", "--to", "h2")


def test_events_as_json_name_their_switch(topology: Path, capsys: Captured) -> None:
    lines = explain(capsys, topology, "--from", "h1", "--to", "h2", "--json", "--filter", "kind=send")
    assert [(event["switch"], event["port"]) for event in map(json.loads, lines)] == [("s1", 2), ("s2", 3)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--from", "h7", "--to", "h2"], ["h7"]),
        (["--from", "s1", "--to", "h2"], ["'s1'", "expected a host"]),
        (["--from", "h1"], ["--packet or --to"]),
        (["--from", "h1", "--to", "h2", "--commands", "c.txt"], ["--commands", "not with a network"]),
        (["--from", "h1", "--to", "h2", "--live", "localhost"], ["--live localhost", "HOST:PORT"]),
        (["--from", "h1", "--to", "h2", "--filter", "table=hots"], ["'hots'", "L2Ingress.hosts"]),
        (["--packet", "00", "--to", "h2"], ["--to", "network"]),
    ],
)
def test_arguments_that_do_not_fit_a_network_are_refused(
    topology: Path, arguments: list[str], words: list[str], capsys: Captured
) -> None:
    said = refusal(capsys, topology, *arguments)
    assert all(word in said for word in words), said


def updates(switch: PlannedSwitch) -> Iterator[p4r.Update]:
    for write in switch.writes:
        assert not isinstance(write, CommandFile)
        yield from write.updates


def table_deletions(topology: Path) -> Iterator[p4r.Update]:
    """Yield the deletions of the table entries that the second switch has got."""
    with read_plan(topology) as plan:
        _, second = plan.planned_switches
        for update in updates(second):
            if update.entity.HasField("table_entry"):
                yield p4r.Update(type=p4r.Update.DELETE, entity=update.entity)


def two_free_ports() -> int:
    """Return a TCP port of the loopback that is free, as is the next one."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind((LOOPBACK, 0))
            port: int = first.getsockname()[1]
            try:
                second.bind((LOOPBACK, port + 1))
            except (OSError, OverflowError):
                continue
            return port


@pytest.fixture
def running(topology: Path) -> Iterator[str]:
    """Run the switches of the exercise without interfaces; yield the first one's address."""
    first = two_free_ports()
    with ExitStack() as opened:
        plan = read_plan(topology)
        opened.callback(plan.close)
        processes = []
        for switch in plan.planned_switches:
            address = f"{LOOPBACK}:{first + switch.number}"
            command = [*SOFTSWITCH, str(switch.program), "--device-id", str(switch.number)]
            output = opened.enter_context(tempfile.TemporaryFile())
            process = start_switch([*command, "--grpc-server-addr", address], output, address)
            opened.callback(process.process.wait)
            opened.callback(process.process.terminate)
            processes.append(process)
        for switch, process in zip(plan.planned_switches, processes, strict=True):
            process.wait_for_address()
            with P4RuntimeClient(process.address, switch.number) as client:
                client.write(*updates(switch))
        yield f"{LOOPBACK}:{first}"


def test_running_switches_are_explained_by_their_tables_and_not_by_the_file(
    topology: Path, running: str, capsys: Captured
) -> None:
    assert hops(explain(capsys, topology, "--from", "h1", "--to", "h2", "--live", running)) == WAY
    host, _, port = running.rpartition(":")
    with P4RuntimeClient(f"{host}:{int(port) + 1}", 1) as client:
        client.write(*table_deletions(topology))
    lines = explain(capsys, topology, "--from", "h1", "--to", "h2", "--live", running)
    assert hops(lines) == [*WAY[:2], "reaches no host"]
    assert any("] miss →" in line for line in lines)


def test_a_switch_that_does_not_run_is_named(topology: Path, capsys: Captured) -> None:
    said = refusal(capsys, topology, "--from", "h1", "--to", "h2", "--live", f"{LOOPBACK}:1")
    assert "switch s1" in said and f"{LOOPBACK}:1: no switch answers there" in said
