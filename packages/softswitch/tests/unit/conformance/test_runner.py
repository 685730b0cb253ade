"""The vector runner: what it asks of a target, what it compares, and that it fails where it should."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from softswitch.conformance import cli, runner
from softswitch.conformance import targets as openers
from softswitch.conformance.client import read_p4info
from softswitch.conformance.driver import StfDriver
from softswitch.conformance.errors import ConformanceError, Mismatch, StfError, Unsupported
from softswitch.conformance.names import StfNames
from softswitch.conformance.pairs import Pair, pairs_in
from softswitch.conformance.parser import parse
from softswitch.conformance.runner import Outcome
from softswitch.conformance.target import ConformanceTarget
from softswitch.errors import EntryExists, ProgramError
from softswitch.ir import Masked, Match, RangeMatch
from softswitch.p4runtime.messages import p4i, p4r
from softswitch.pipeline import (
    ActionCall,
    Change,
    CounterValue,
    EntryAction,
    EntryKey,
    EntryWrite,
    MeterConfig,
    Output,
    Replica,
)
from switch_harness.match_kinds import MATCH_KINDS
from switch_harness.wording import says

PROGRAM = MATCH_KINDS.with_suffix(".json")
WIDE = (1 << 96) - 1


class Wire:
    """A target that sends each frame to the next port and records calls."""

    def __init__(self) -> None:
        self.calls: list[object] = []
        self.count = CounterValue(0, 0)
        self.tables = self.cells = self.replication = self

    def process(self, port: int, frame: bytes, _t_in: int, _now: int) -> list[Output]:
        self.count = CounterValue(self.count.packets + 1, self.count.bytes + len(frame))
        return [Output(port + 1, frame)]

    def write(self, writes: Sequence[EntryWrite]) -> list[Exception | None]:
        results: list[Exception | None] = []
        for write in writes:
            known = write in self.calls
            self.calls.append(write)
            results.append(EntryExists("it is there") if known else None)
        return results

    def set_default(self, table: str, action: EntryAction | None) -> None:
        self.calls.append((table, action))

    def counter(self, _entry: EntryKey) -> CounterValue:
        return self.count

    def read_counter(self, _name: str, start: int, stop: int) -> list[CounterValue]:
        return [self.count][start:stop]

    def write_cell(self, name: str, index: int, value: object) -> None:
        self.calls.append((name, index, value))

    write_counter = write_register = write_meter = write_cell

    def read_register(self, _name: str, start: int, stop: int) -> list[int]:
        return [0] * (stop - start)

    def write_multicast_group(self, group: int, replicas: Sequence[Replica]) -> None:
        self.calls.append(("group", group, tuple(replicas)))

    def write_clone_session(self, session: int, replicas: Sequence[Replica], length: int = 0) -> None:
        self.calls.append(("session", session, tuple(replicas), length))


def p4info() -> p4i.P4Info:
    """The tables of match_kinds, and one array of each kind."""
    info = read_p4info(PROGRAM)
    preambles = [p4i.Preamble(id=number, name=f"Pick.array{number}") for number in (1, 2, 3)]
    info.counters.add(preamble=preambles[0], size=2)
    info.registers.add(preamble=preambles[1], size=2)
    info.meters.add(preamble=preambles[2], size=2)
    return info


def drive(text: str) -> list[object]:
    target = Wire()
    StfDriver(target, StfNames(p4info())).run(parse(text, "f.stf"))
    return target.calls


# -- expectations


@pytest.mark.parametrize(
    "text",
    [
        "packet 1 0102\nexpect 2 0102",
        "packet 1 0102\nexpect 2 01",  # more bytes may follow
        "packet 1 0102\nexpect 2 0*02 $",
        "packet 1 0102\nexpect 2",
        "expect 2 0102\npacket 1 0102\nexpect 2 03\npacket 1 03",
        "packet 1 0102",  # port 2 is not named: anything may leave there
        "wait",
    ],
)
def test_vectors_whose_expectations_hold_pass(text: str) -> None:
    drive(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "packet 1 0102\nexpect 2 0112",
            "line 2: port 2, packet 1 (1 expected, 1 came): differs at byte 1: expected 0112, got 0102",
        ),
        (
            "packet 1 0102\nexpect 2 01 $",
            "line 2: port 2, packet 1 (1 expected, 1 came): too long: expected 01$, got 0102",
        ),
        (
            "packet 1 0102\nexpect 2 010203",
            "line 2: port 2, packet 1 (1 expected, 1 came): too short: expected 010203, got 0102",
        ),
        (
            "packet 1 0102\nexpect 2\nexpect 2 03",
            "line 3: port 2, packet 2 (2 expected, 1 came): missing packet 03",
        ),
        ("expect 2", "line 1: port 2, packet 1 (1 expected, 0 came): missing packet of any content"),
        (
            "packet 1 0102\npacket 1 03\nexpect 2",
            "port 2, packet 2 (1 expected, 2 came): unexpected packet 03",
        ),
        ("packet 1 01\npacket 2 02", "port 2, packet 1 (0 expected, 1 came): unexpected packet 01"),
        (
            "packet 1 01\npacket 1 02\nexpect 2 02\nexpect 2 01",
            "line 3: port 2, packet 1 (2 expected, 2 came): differs at byte 0: expected 02, got 01",
        ),
        ("packet 1 01\nno_packet", "line 2: expected no packet, got on port 2 01"),
        (
            "packet 1 01\ncheck_counter array1(0) bytes == 2",
            "line 2: counter array1(0): expected bytes == 2, got 1",
        ),
        (
            "packet 1 01\ncheck_counter array1(0)",
            "line 2: counter array1(0): expected packets == 0, got 1",
        ),
        ("add lpm_table lpm_hit(value:1)\nadd lpm_table lpm_hit(value:1)", "line 2: it is there"),
    ],
)
def test_vectors_whose_expectations_do_not_hold_fail_with_the_difference(text: str, message: str) -> None:
    with pytest.raises(Mismatch) as error:
        drive(text)
    assert str(error.value) == message


# -- calls of the target


def entry(table: str, priority: int, *key: Match) -> EntryWrite:
    kind = table.partition("_")[0]
    action = ActionCall(f"Pick.{kind}_hit", (7,))
    return EntryWrite(Change.INSERT, f"Pick.{table}", key, action, priority)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "lpm_table exact_part:3 prefix:0x0a0b****",
            entry("lpm_table", 0, 3, Masked(0x0A0B0000, 0xFFFF0000)),
        ),
        ("Pick.lpm_table 9 prefix:0x0a000000/8", entry("lpm_table", 0, 0, Masked(0x0A000000, 0xFF000000))),
        ("lpm_table hdr.probe.prefix:5", entry("lpm_table", 0, 0, Masked(5, 0xFFFFFFFF))),
        ("lpm_table exact_part:1", entry("lpm_table", 0, 1, Masked(0, 0))),
        ("ternary_table 5 small:3", entry("ternary_table", 6, Masked(0, 0), Masked(3, 255))),
        ("ternary_table 5 small:0x**", entry("ternary_table", 6, Masked(0, 0), Masked(0, 0))),
        ("ternary_table wide:0x1*2", entry("ternary_table", 1, Masked(0x102, 0xF0F), Masked(0, 0))),
        ("ternary_table 0 wide:5", entry("ternary_table", 1, Masked(5, WIDE), Masked(0, 0))),
        ("ternary_table 0 wide:0b11&&&0b10", entry("ternary_table", 1, Masked(2, 2), Masked(0, 0))),
        (
            "range_table 1 ranged:5->9 wide:7",
            entry("range_table", 2, RangeMatch(5, 9), Masked(0, 0), RangeMatch(7, 7)),
        ),
        ("range_table 1", entry("range_table", 2, RangeMatch(0, 65535), Masked(0, 0), RangeMatch(0, WIDE))),
    ],
)
def test_added_entries_have_the_parsed_keys_and_priorities(text: str, expected: EntryWrite) -> None:
    action = expected.table.removeprefix("Pick.").partition("_")[0] + "_hit"
    assert drive(f"add {text} {action}(value:7)") == [expected]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("add table lpm_hit(value:1)", "table table is ambiguous: Pick.const_table, Pick.lpm_table, "),
        ("add none lpm_hit(value:1)", "the program has no table none; it has Pick.const_table, "),
        (
            "add lpm_table f:1 lpm_hit(value:1)",
            "table Pick.lpm_table has no match field f; it has hdr.probe.",
        ),
        ("add lpm_table range_hit(value:1)", "the program has no action of table Pick.lpm_table range_hit"),
        ("add lpm_table lpm_hit()", "action Pick.lpm_hit needs parameter value"),
        ("add lpm_table lpm_hit(value:1, x:2)", "action Pick.lpm_hit has no parameter x"),
        ("add lpm_table lpm_hit(value:0x10000)", "parameter value: 0x10000 has more than 16 bits"),
        ("add lpm_table exact_part:0x1* lpm_hit(value:1)", "match field hdr.probe.exact_part must not have"),
        ("add lpm_table exact_part:1/8 lpm_hit(value:1)", "match field hdr.probe.exact_part takes a number"),
        (
            "add lpm_table prefix:0x*1 lpm_hit(value:1)",
            "match field hdr.probe.prefix: '*' digits of a prefix",
        ),
        ("add lpm_table prefix:1/33 lpm_hit(value:1)", "match field hdr.probe.prefix: the prefix is longer"),
        (
            "add ternary_table wide:1->2 ternary_hit(value:1)",
            "match field hdr.probe.wide takes a number, dig",
        ),
        ("check_counter array1(9)", "counter array1 has no cell 9"),
        ("check_counter none(0)", "the program has no counter none; it has Pick.array1"),
        ("check_counter ternary_hits($A)", "no entry was added with handle A"),
        (
            "add lpm_table lpm_hit(value:1) = A\ncheck_counter ternary_hits($A)",
            "counter ternary_hits does not",
        ),
        ("register_write array2 2 0", "register Pick.array2 has 2 cells, and no cell 2"),
        ("meter_get_rates array3 5", "meter Pick.array3 has 2 cells, and no cell 5"),
        (
            "meter_set_rates array3 0 0.0000005:1 1:1",
            "a rate of 5e-07 per µs is not a whole number per second",
        ),
        ("mc_node_associate 1 0", "there is no node with handle 0"),
        ("mc_node_update 0 5", "there is no node with handle 0"),
        (
            "mc_mgrp_create 1\nmc_node_create 0 1\nmc_node_associate 1 0\nmc_node_associate 1 0",
            "node 0 is in multicast group 1 already",
        ),
        ("mc_node_create 0 1\nmc_node_associate 1 0", "there is no multicast group 1"),
        ("mc_mgrp_create 1\nmc_mgrp_create 1", "multicast group 1 exists already"),
        ("mirroring_get 5", "there is no clone session 5"),
        ("mirroring_delete 5", "there is no clone session 5"),
        ("mirroring_add_mc 5 1", "there is no multicast group 1"),
    ],
)
def test_names_that_the_program_does_not_have_are_errors(text: str, message: str) -> None:
    with pytest.raises(StfError) as error:
        drive(text)
    last = text.count("\n") + 1
    assert str(error.value).startswith(f"line {last}: {message}")


def test_remove_all_deletes_all_added_entries() -> None:
    added, deleted = drive("add lpm_table exact_part:3 lpm_hit(value:7)\nremove all\nremove all")
    assert added == entry("lpm_table", 0, 3, Masked(0, 0))
    assert deleted == entry("lpm_table", 0, 3, Masked(0, 0))._replace(change=Change.DELETE, action=None)


def test_defaults_counters_registers_and_meters_are_written() -> None:
    assert drive(
        "setdefault lpm_table lpm_hit(value:7)\n"
        "counter_write array1 0 2 128\n"
        "register_write array2 1 5\n"
        "register_reset array2\n"
        "meter_set_rates array3 1 0.000005:4 2:5\n"
        "meter_array_set_rates array3 1:1 1:1\n"
        "register_read array2 1\nmeter_get_rates array3 1\ncounter_read array1 0"
    ) == [
        ("Pick.lpm_table", ActionCall("Pick.lpm_hit", (7,))),
        ("Pick.array1", 0, CounterValue(2, 128)),
        ("Pick.array2", 1, 5),
        ("Pick.array2", 0, 0),
        ("Pick.array2", 1, 0),
        ("Pick.array3", 1, MeterConfig(5, 4, 2_000_000, 5)),
        ("Pick.array3", 0, MeterConfig(1_000_000, 1, 1_000_000, 1)),
        ("Pick.array3", 1, MeterConfig(1_000_000, 1, 1_000_000, 1)),
    ]


def test_multicast_nodes_groups_and_mirroring_sessions_are_written() -> None:
    first, second = (Replica(6, 400),), (Replica(7, 401), Replica(8, 401))
    assert drive(
        "mc_mgrp_create 3\nmc_node_create 400 6\nmc_node_create 401 7 8\n"
        "mc_node_associate 3 0\n"
        "mirroring_add_mc 9 3\nmirroring_get 9\n"
        "mc_node_associate 3 1\n"
        "mirroring_add 9 4\n"
        "mc_node_update 0 5\n"
        "mirroring_delete 9"
    ) == [
        ("group", 3, first),
        ("session", 9, first, 0),
        ("group", 3, first + second),
        ("session", 9, first + second, 0),  # a session follows its group
        ("session", 9, (Replica(4, 0),), 0),
        ("group", 3, (Replica(5, 400), *second)),
        ("session", 9, (), 0),
    ]


def test_checks_of_counters_pass_if_the_comparison_holds() -> None:
    drive(
        "packet 1 0102\n"
        "check_counter array1(0) packets == 1\ncheck_counter array1(0) bytes > 1\n"
        "check_counter array1(0) bytes < 3\ncheck_counter array1(0) bytes != 3\n"
        "add ternary_table 0 ternary_hit(value:1) = A\ncheck_counter ternary_hits($A) bytes <= 2"
    )


# -- files, verdicts and the command line


@contextmanager
def wire(_config: p4r.ForwardingPipelineConfig) -> Iterator[ConformanceTarget]:
    yield Wire()


@contextmanager
def refusing(_config: p4r.ForwardingPipelineConfig) -> Iterator[ConformanceTarget]:
    raise Unsupported("not this one")
    yield Wire()


@contextmanager
def unreadable(_config: p4r.ForwardingPipelineConfig) -> Iterator[ConformanceTarget]:
    raise ProgramError("no program")
    yield Wire()


class Crashing(Wire):
    def process(self, port: int, frame: bytes, _t_in: int, _now: int) -> list[Output]:
        raise ZeroDivisionError("oh")


@contextmanager
def crashing(_config: p4r.ForwardingPipelineConfig) -> Iterator[ConformanceTarget]:
    yield Crashing()


def test_verdicts_are_pass_fail_or_refused(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.stf", tmp_path / "bad.stf"
    good.write_text("packet 1 01\nexpect 2 01\n")
    bad.write_text("packet 1\n")
    assert runner.run(wire, PROGRAM, good)[2:] == (Outcome.PASS, "")
    assert runner.run(refusing, PROGRAM, good)[2:] == (Outcome.REFUSED, "not this one")
    assert runner.run(unreadable, PROGRAM, good)[2:] == (Outcome.FAIL, "no program")
    assert runner.run(crashing, PROGRAM, good)[2:] == (Outcome.FAIL, "crash: ZeroDivisionError: oh")
    reason = f"{bad}:1: packet: expected whole bytes in hex, got ''"
    assert runner.run(wire, PROGRAM, bad)[2:] == (Outcome.FAIL, reason)
    missing = runner.run(wire, tmp_path / "none.json", good)
    assert missing.outcome is Outcome.FAIL and says(missing.reason, "none.p4info.txtpb", "file")


def test_programs_and_vectors_are_paired_by_name(tmp_path: Path) -> None:
    programs, vectors = tmp_path / "out", tmp_path / "p4_16"
    programs.mkdir()
    vectors.mkdir()
    for name in ("a.json", "p4_16-b.json", "b.json"):
        (programs / name).touch()
    for name in ("a.stf", "a.more.stf", "b.stf", "c.stf"):
        (vectors / name).touch()
    assert pairs_in([programs], [vectors]) == (
        [
            Pair(programs / "a.json", vectors / "a.more.stf"),
            Pair(programs / "a.json", vectors / "a.stf"),
            Pair(programs / "p4_16-b.json", vectors / "b.stf"),
        ],
        [vectors / "c.stf"],
    )
    with pytest.raises(ConformanceError, match="is not a folder"):
        pairs_in([tmp_path / "none"], [vectors])


def test_the_command_prints_a_verdict_per_vector_and_sets_the_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good.stf", tmp_path / "bad.stf"
    good.write_text("packet 1 01\nexpect 2 01\n")
    bad.write_text("expect 2 01\n")
    monkeypatch.setitem(openers.TARGETS, "compiled", wire)

    def run(*arguments: str) -> tuple[int, list[str]]:
        with pytest.raises(SystemExit) as exit_:
            cli.command.main(list(arguments), prog_name="conformance")
        status = exit_.value.code
        assert isinstance(status, int)
        return status, capsys.readouterr().out.splitlines()

    program = str(PROGRAM)
    assert run(program, str(good)) == (0, [f"pass    {program} {good}"])
    status, (first, second) = run(program, str(good), program, str(bad))
    assert status == 1
    assert first.startswith("pass ") and second.startswith("fail ") and second.endswith("missing packet 01")
    status, (line,) = run("--json", program, str(bad))
    assert status == 1 and json.loads(line)["outcome"] == "fail"
    assert run(program) == (2, [])
    assert run() == (2, [])
    assert run("--programs", str(tmp_path)) == (2, [])
