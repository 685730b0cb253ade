"""The commands of hot sets and of the switch: their requests to the controller, and their output."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import click
import pytest
from rich.console import Console

from controller import controller
from controller.controller import Register
from controller.errors import UnknownJob
from controller.hotset.follower import Period
from controller.hotset.migrate import MigrationPlan, Move
from controller.hotset.selection import SwapRule
from controller.tables import HotParam, JobRow, KeyState
from experiment import progress
from hotline.cli import common
from hotline.cli.commands import hotline
from switch_harness.wording import says, says_in_one_line
from tests.harness.cli import invoke, output_of, write_hot_set

PARAM = HotParam(4, 7, 1, 0, KeyState.HOT)
ARRIVES = Move(PARAM, None, KeyState.HOT)
LEAVES = Move(PARAM, KeyState.HOT, None)
PARKS = Move(PARAM, KeyState.HOT, KeyState.PARKED)
PLAN = MigrationPlan(leaving=(LEAVES, LEAVES, PARKS), arriving=(ARRIVES,))
"""Inserts 1, modifies 2 for leaving, 1 for parking twice and 1 for arriving; deletes 2."""
SUMMARY = {"inserts": 1, "modifies": 5, "deletes": 2, "seeded": 1, "collected": 3}
NOTHING = MigrationPlan((), ())


class Played:
    """A fake of `Controller`; `calls` records the requests."""

    calls: list[tuple[Any, ...]]
    answer = PLAN
    before = JobRow(4, offload=True, proxy=False)
    error: BaseException | None = None

    def __init__(self, address: str, *, device_id: int, primary: bool) -> None:
        self.calls.append(("connect", address, device_id, primary))

    async def __aenter__(self) -> Played:
        if self.error is not None:
            raise self.error
        return self

    async def __aexit__(self, *_: object) -> None:
        self.calls.append(("disconnect",))

    async def plan(self, job: int, keys: Sequence[int]) -> MigrationPlan:
        self.calls.append(("plan", job, list(keys)))
        return self.answer

    async def load(
        self, job: int, keys: Sequence[int], *, progress: Callable[[int, int], None]
    ) -> MigrationPlan:
        progress(1, 2)
        self.calls.append(("load", job, list(keys)))
        return self.answer

    async def job(self, job: int) -> JobRow:
        self.calls.append(("job", job))
        return self.before

    async def plan_offload(self, job: int, on: bool) -> MigrationPlan:
        self.calls.append(("plan_offload", job, on))
        return self.answer

    async def set_offload(self, job: int, on: bool, *, progress: Callable[[int, int], None]) -> MigrationPlan:
        progress(2, 2)
        self.calls.append(("set_offload", job, on))
        return self.answer

    async def set_proxy(self, job: int, on: bool) -> None:
        self.calls.append(("set_proxy", job, on))

    async def registers(self, job: int, keys: Sequence[int] | None) -> list[Register]:
        self.calls.append(("registers", job, keys))
        return [Register(PARAM, (-5,))]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> type[Played]:
    class Fresh(Played):
        calls: list[tuple[Any, ...]] = []  # noqa: RUF012  # of this test alone

    monkeypatch.setattr(common, "check_listening", lambda address: None)
    monkeypatch.setattr(controller, "Controller", Fresh)
    return Fresh


@pytest.fixture
def hot_set(tmp_path: Path) -> str:
    return write_hot_set(tmp_path, {9: 10, 5: 30})


def json_output(*arguments: object) -> Any:
    return json.loads(output_of(*arguments, "--json"))


TOLD = "1 insert, 5 modifies, 2 deletes, 1 seeded, 3 collected\n"
PRIMARY, READER = ("connect", "127.0.0.1:9559", 1, True), ("connect", "127.0.0.1:9559", 1, False)
END = ("disconnect",)


def test_a_plan_is_summarised_by_its_numbers_of_changes() -> None:
    assert PLAN.summary() == SUMMARY
    assert NOTHING.summary() == dict.fromkeys(SUMMARY, 0)


def test_a_summary_of_single_changes_is_in_the_singular(
    played: type[Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MigrationPlan, "summary", lambda plan: dict.fromkeys(SUMMARY, 1))
    assert output_of("unload", "--job", "4") == "done: 1 insert, 1 modify, 1 delete, 1 seeded, 1 collected\n"


def test_load_takes_the_hot_sets_keys(played: type[Played], hot_set: str) -> None:
    assert output_of("load", hot_set, "--job", "4") == "done: " + TOLD
    assert played.calls == [PRIMARY, ("job", 4), ("load", 4, [5, 9]), END]


def test_load_as_a_dry_run_becomes_no_primary(played: type[Played], hot_set: str) -> None:
    assert output_of("load", hot_set, "--job", "4", "--dry-run") == "would do: " + TOLD
    assert played.calls == [READER, ("job", 4), ("plan", 4, [5, 9]), END]
    assert json_output("load", hot_set, "--job", 4, "--dry-run") == {"dry_run": True, **SUMMARY}


def test_unload_loads_an_empty_hot_set(played: type[Played]) -> None:
    assert output_of("unload", "--job", "4", "--switch", "10.0.0.1:7", "--device-id", "3") == "done: " + TOLD
    assert played.calls == [("connect", "10.0.0.1:7", 3, True), ("load", 4, []), END]
    assert json_output("unload", "--job", 65535) == {"dry_run": False, **SUMMARY}
    assert output_of("unload", "--job", "0", "--dry-run") == "would do: " + TOLD
    assert ("plan", 0, []) in played.calls


def test_a_command_without_changes_prints_nothing_to_do(played: type[Played]) -> None:
    played.answer = NOTHING
    for command in ("unload", "unload --dry-run", "offload on", "proxy off"):
        assert output_of(*command.split(), "--job", "4") == "nothing to do\n"


def test_the_command_offload_sets_or_plans_the_offload_of_a_job(played: type[Played]) -> None:
    assert output_of("offload", "off", "--job", "4") == "done: offload off, " + TOLD
    assert played.calls == [PRIMARY, ("job", 4), ("set_offload", 4, False), END]
    played.calls.clear()
    assert output_of("offload", "on", "--job", "4") == "done: " + TOLD
    assert played.calls == [PRIMARY, ("job", 4), ("set_offload", 4, True), END]
    played.calls.clear()
    reported = json_output("offload", "off", "--job", 4, "--dry-run")
    assert reported == {"dry_run": True, "offload": "off", **SUMMARY}
    assert played.calls == [READER, ("job", 4), ("plan_offload", 4, False), END]
    # A setting that stays as it is, is no change.
    assert json_output("offload", "on", "--job", 4)["offload"] is None


def test_the_command_proxy_sets_the_proxy_of_a_job(played: type[Played]) -> None:
    assert output_of("proxy", "on", "--job", "4") == "done: proxy on\n"
    assert played.calls == [PRIMARY, ("job", 4), ("set_proxy", 4, True), END]
    played.calls.clear()
    assert output_of("proxy", "on", "--job", "4", "--dry-run") == "would do: proxy on\n"
    assert played.calls == [READER, ("job", 4), END]
    assert output_of("proxy", "on", "--job", "4", "--json") == '{\n  "dry_run": false,\n  "proxy": "on"\n}\n'
    assert json_output("proxy", "off", "--job", 4) == {"dry_run": False, "proxy": None}
    played.before = JobRow(4, offload=False, proxy=True)
    assert output_of("proxy", "off", "--job", "4") == "done: proxy off\n"


class Follower:
    """A fake follower with three made-up periods."""

    made: ClassVar[list[Any]] = []

    def __init__(self, controller: Played, rules: dict[int, SwapRule]) -> None:
        self.made.append(rules)
        self._periods = iter(
            [
                Period(4, None, None, 20_000, 0, 20_000, 2.25),
                Period(4, 250_000, 123_250, 1, 1, 20_000, 0.504),
                Period(4, 0, 0, 0, 0, 20_000, 1.0),
            ]
        )
        self.is_moving = False

    async def period(self) -> list[Period]:
        return [next(self._periods)]


def test_the_command_follow_prints_a_line_for_each_period(
    played: type[Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hotline.cli.follow.Follower", Follower)
    asked = ("follow", "--job", "4", "--top-k", "20000", "--period-s", "0.2", "--periods", "2")
    assert output_of(*asked) == (
        "beginning of job 4: 20,000 in, 0 out: 20,000 keys; took 2.25 s\n"
        "period 1 of job 4: 1 in, 1 out: 20,000 keys; "
        "250,000 updates, 49.3% of them in the switch; took 0.50 s\n"
        "period 2 of job 4: 0 in, 0 out: 20,000 keys; 0 updates; took 1.00 s\n"
    )
    printed = output_of(*asked, "--margin", "2", "--max-moves", "7", "--json")
    lines = list(map(json.loads, printed.splitlines()))
    assert lines[1] == {
        "period": 1, "rule": "window", "job": 4, "updates": 250_000, "in_switch": 123_250,
        "keys_in": 1, "keys_out": 1, "keys": 20_000, "seconds": 0.504, "share": 0.493,
    }  # fmt: skip
    assert [(line["period"], line["share"]) for line in lines] == [(0, None), (1, 0.493), (2, None)]
    assert Follower.made == [{4: SwapRule(20_000)}, {4: SwapRule(20_000, 2.0, 7)}]
    assert played.calls == [PRIMARY, END] * 2


@pytest.mark.parametrize(
    ("given", "asked"), [((), None), (("0",), (0,)), (("0", str(2**64 - 2)), (0, 2**64 - 2))]
)
def test_the_command_registers_prints_values_and_weights(
    played: type[Played], given: tuple[str, ...], asked: tuple[int, ...] | None
) -> None:
    assert json_output("registers", "--job", 4, "--scale", 2, *given) == [
        {"key": 7, "lane": 1, "slot": 0, "state": "hot", "values": [-5], "weights": [-2.5]}
    ]
    assert played.calls == [PRIMARY, ("registers", 4, asked), END]


@pytest.mark.parametrize(
    ("command", "reported"),
    [
        ("unload --job 4", "; unload again to finish"),
        ("unload --job 4 --dry-run", ""),
        ("offload on --job 4", "; offload on again to finish"),
        ("offload on --job 4 --dry-run", ""),
        ("proxy off --job 4", "; proxy off again to finish"),
        ("proxy off --job 4 --dry-run", ""),
        ("status", ""),
        ("registers --job 4", ""),
    ],
)
def test_ctrl_c_says_how_to_finish_the_interrupted_command(
    played: type[Played], command: str, reported: str
) -> None:
    played.error = KeyboardInterrupt()
    result = invoke(*command.split())
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", f"hotline: interrupted{reported}\n")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text("job,ps,key,updates\n1,0,5,60\n1,0,6,30\n2,0,7,10\n")
    return path


def test_a_built_hot_set_can_be_shown(tmp_path: Path, log: Path) -> None:
    file = str(tmp_path / "hot.parquet")
    assert says_in_one_line(
        output_of("hotset", "build", str(log), "--top-k", "2", "-o", file), 2, "90.0%", 0, 1, 32, file
    )
    assert "60.0000%" in output_of("hotset", "show", file)
    summary = json_output("hotset", "show", file)
    assert (summary["keys"], summary["updates"], summary["share"]) == (2, 90, pytest.approx(0.9))
    assert [row["key"] for row in summary["head"]] == [5, 6]


def test_a_hot_set_is_built_from_the_updates_of_one_job(tmp_path: Path, log: Path) -> None:
    file = tmp_path / "hot.parquet"
    built = json_output("hotset", "build", log, log, "--top-k", 1, "--job", 2, "-o", file)
    assert sum(built.pop("slots_in_bank")) == 1
    assert built == {
        "file": str(file), "rule": "top-k", "keys": 1, "updates": 20, "share": 1.0, "rows": {"1": 1},
        "register_bytes": 16, "entry_bytes": 14,
    }  # fmt: skip


@pytest.mark.parametrize("command", [("hotset", "show"), ("load", "--job", "1")])
def test_a_bad_file_ends_with_one_line_and_an_exit_code(log: Path, command: tuple[str, ...]) -> None:
    result = invoke(*command, str(log))
    assert result.exit_code == 1
    assert says_in_one_line(result.stderr, "Parquet", log)


def test_a_missing_switch_is_one_error() -> None:
    result = invoke("status", "--switch", "127.0.0.1:1")
    text = "Error: no switch answers at 127.0.0.1:1; is it running, and is the address right?\n"
    assert (result.exit_code, result.stderr) == (1, text)


def test_a_log_is_not_overwritten(log: Path) -> None:
    before = log.read_bytes()
    result = invoke("hotset", "build", str(log), "--top-k", "2", "-o", str(log))
    assert result.exit_code == 1 and says(result.stderr, "overwrite")
    assert log.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "is empty; expected an update log in Parquet or CSV"),
    ],
)
def test_a_bad_log_ends_with_one_line(tmp_path: Path, content: bytes | None, why: str) -> None:
    log = tmp_path / "log.parquet"
    if content is not None:
        log.write_bytes(content)
    result = invoke("hotset", "build", str(log), "--top-k", "2", "-o", str(tmp_path / "hot.parquet"))
    assert (result.exit_code, result.stderr) == (1, f"Error: {log}: {why}\n")


def test_a_wrong_switch_address_is_one_error() -> None:
    result = invoke("status", "--switch", "nonsense")
    text = "Error: switch address: expected HOST:PORT, as 127.0.0.1:9559, got 'nonsense'\n"
    assert (result.exit_code, result.stderr) == (1, text)


def test_a_hot_set_is_shown_with_ranks_keys_updates_and_shares(hot_set: str) -> None:
    shown = output_of("hotset", "show", hot_set).splitlines()
    assert says_in_one_line(shown[0], 2, "100.0%", 0, 1, 32, hot_set)
    assert shown[1].strip() == "the first 2"
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown if "│" in line]
    assert [row[:4] for row in rows] == [["1", "5", "30", "75.0000%"], ["2", "9", "10", "25.0000%"]]


@pytest.mark.parametrize("command", [("unload",), ("offload", "on"), ("proxy", "on"), ("status",)])
def test_an_error_is_one_line(played: type[Played], command: tuple[str, ...]) -> None:
    played.error = UnknownJob("job 4 is not on the switch; its jobs: none")
    result = invoke(*command, *(() if command == ("status",) else ("--job", "4")))
    assert (result.exit_code, result.stdout) == (1, "")
    assert says_in_one_line(result.stderr, "job 4", "jobs")


@pytest.mark.parametrize(
    "arguments",
    [
        *("unload", "unload --job -1", "unload --job 65536", "unload --job 4 --device-id 0"),
        *("offload yes --job 4", "proxy --job 4", "load --job 4", "load . --job 4", "load --job 70000 x"),
        *("hotset show .", "hotset build --top-k 1 -o x", "hotset build --top-k 1 x", "hotset build -o x y"),
        *("hotset build --job 65536 --top-k 1 -o x y", "hotset build --top-k 0 -o x y", "hotset curve"),
        *("hotset curve --top-k 0 x", "hotset curve --jobs 0 x", "hotset curve --jobs 65536 x"),
        *("hotset curve --job 65536 x", "hotset curve --samples-per-step 0 x", "logs check", "nonsense"),
        *(f"registers --job 4 {2**64 - 1}", "registers --job 4 -- -1", "registers --job 4 --scale 0"),
        *("registers --job 65536", "registers", "status --device-id 0"),
        *(
            "follow --job 1 --top-k 0",
            "follow --job 1 --top-k 131073",
            "follow --job 1 --top-k 5 --period-s -1",
        ),
        *("follow --job 1 --top-k 5 --margin 0.9", "follow --job 1 --top-k 5 --max-moves 0"),
        *("follow --job 1 --top-k 5 --periods 0", "follow --job 1 --top-k 5 --period-s 86401"),
    ],
)
def test_wrong_usage_reaches_no_switch(played: type[Played], arguments: str) -> None:
    result = invoke(*arguments.split())
    assert (result.exit_code, played.calls) == (2, []) and "old name" not in result.stderr


@pytest.mark.parametrize(
    "command",
    [
        "answer --workers 4 --servers 2 --rate",
        "answer --workers 4 --servers 2 --skew",
        "registers --job 1 --scale",
        "watch --interval",
        "follow --job 1 --top-k 5 --period-s",
        "follow --job 1 --top-k 5 --margin",
    ],
)
def test_options_with_a_range_refuse_nan(command: str) -> None:
    result = invoke(*command.split(), "nan")
    assert result.exit_code == 2
    assert says(result.stderr, "nan", command.split()[-1])


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


def test_the_list_of_commands_cuts_no_sentence() -> None:
    lines = output_of("--help").splitlines()[2:]  # behind the usage
    assert not any(line.endswith("...") for line in lines)


COMMANDS = dict(commands(hotline))


@pytest.mark.parametrize("path", COMMANDS)
def test_each_command_and_option_is_explained(path: str) -> None:
    command = COMMANDS[path]
    assert command.get_short_help_str(200).endswith(".")
    assert all(option.help for option in command.params if isinstance(option, click.Option))
    assert output_of(*path.split(), "-h") == output_of(*path.split(), "--help")


def test_the_option_verbose_logs_to_stderr(monkeypatch: pytest.MonkeyPatch, played: type[Played]) -> None:
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(logging, "basicConfig", lambda **settings: seen.append(settings))
    finsy = logging.getLogger("finsy")
    before = finsy.level
    try:
        assert invoke("proxy", "on", "--job", "4").exit_code == 0
        assert finsy.level > logging.CRITICAL
        assert invoke("-v", "proxy", "on", "--job", "4").exit_code == 0
        assert finsy.level == logging.INFO
    finally:
        finsy.setLevel(before)
    assert seen == [
        {"format": "%(levelname)s: %(message)s", "level": level} for level in (logging.WARNING, logging.DEBUG)
    ]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> None:
    screen = io.StringIO()
    settings: list[dict[str, bool]] = []

    def console(**given: bool) -> Console:
        settings.append(given)
        return Console(file=screen, force_terminal=is_terminal, width=90)

    monkeypatch.setattr(progress, "Console", console)
    with progress.progress_bar("offload on") as report:
        report(3, 7)
        report(5, 7)
    # What is printed may go into a pipe.
    assert settings == [{"stderr": True}]
    shown = screen.getvalue()
    assert ("offload on" in shown and "5/7" in shown and "0:00:0" in shown) == is_terminal
    assert is_terminal or not shown.strip()


def test_without_a_terminal_progress_is_a_line_a_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = 5.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now_s))
    with progress.progress_bar("playing") as report:
        for done in range(0, 2_000, 100):
            report(done, 2_000)
            now_s += 13.0
    shown = capsys.readouterr()
    # Every fifth report, of which each comes 13 s after the one before.
    assert shown.err.splitlines() == [f"playing: {done:,} of 2,000" for done in (500, 1_000, 1_500)]
    assert not shown.out


def test_tables_have_names_to_the_left_and_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    common.print_table("a title", ["name", "count", "share"], [["x", 5, 0.5], ["yyyyyy", 1234567, 12.25]])
    title, *_, first, second, _ = capsys.readouterr().out.splitlines()
    assert title.startswith("a title") and title.strip() == "a title"
    cells = [[cell for cell in line.split("│")[1:-1]] for line in (first, second)]
    assert cells == [[" x      ", "       5 ", "   0.5 "], [" yyyyyy ", " 1234567 ", " 12.25 "]]
    common.print_table("empty", ["name"], [])
    assert "name" in capsys.readouterr().out


def test_a_plain_table_is_a_line_for_the_head_and_one_for_each_row() -> None:
    screen = io.StringIO()
    table = common.plain_table(["arm", "job"], [["offload-proxy", 15], ["offload", 4]])
    Console(file=screen, width=40).print(table)
    shown = [line.rstrip() for line in screen.getvalue().splitlines()]
    assert shown == ["arm            job", "offload-proxy   15", "offload          4"]
