"""`hotline watch` on a terminal, in a pipe and as JSON."""

from __future__ import annotations

import io
import json
import re
import signal
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock, Mock

import finsy as fy
import pytest
from click.testing import Result
from rich.console import Console

from controller.controller import Controller
from controller.errors import DeviceError, OtherPipeline
from controller.status import Counters, take_reading
from foundation.designs import recorded, registry
from foundation.designs.recorded import RecordedDesign
from foundation.designs.registry import design
from switch_harness.wording import says_in_one_line
from tests.harness.arms import JOBS
from tests.harness.cli import invoke
from tests.harness.livenet import JOB, LiveNet, live
from tests.harness.snapshots import assert_snapshot
from tests.harness.warm_processes import WarmProcess
from tests.harness.watched import FIRST, SECOND, a_reading, a_run, operations, rpcs, run_of
from tests.unit.controller.test_live import ended, read_line, start_hotline

NOWHERE = "127.0.0.1:1"
ONCE = "examples.tutorial.once"


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def switch(monkeypatch: pytest.MonkeyPatch, nowhere: Path) -> Callable[..., None]:
    """Fake the switch's readings, two seconds apart; it is gone after the last."""

    def say(*found: Counters, then: str = "is gone", answers: bool = False) -> None:
        clocks, connections = iter(range(100, 200, 2)), iter([True, answers])
        counters = AsyncMock(side_effect=[*found, DeviceError(then)])

        async def connect(controller: Controller) -> Controller:
            if not next(connections):
                raise DeviceError("no switch answers")
            return controller

        monkeypatch.setattr("hotline.cli.common.check_listening", lambda address: None)
        monkeypatch.setattr("topologies.lock_record.find_running_folder", lambda: None)
        monkeypatch.setattr(Controller, "__aenter__", connect)
        monkeypatch.setattr(Controller, "__aexit__", AsyncMock(return_value=None))
        monkeypatch.setattr(Controller, "counters", counters)
        clock = SimpleNamespace(monotonic=lambda: float(next(clocks)), time=lambda: 1_800_000_000.5)
        monkeypatch.setattr("hotline.cli.watch.time", clock)

    return say


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    monkeypatch.setattr("hotline.cli.watch.Console", lambda **_: console)
    return screen


def run(*arguments: object) -> Result:
    return invoke("watch", "--interval", "0.2", *arguments)


def outcome(*arguments: object) -> tuple[int, str, str]:
    result = run(*arguments)
    return result.exit_code, result.stdout, result.stderr


NOW = f"{datetime.fromtimestamp(1_800_000_000.5):%H:%M:%S}"
SO_FAR = (
    f"{NOW} so far 90.0% of the lanes hit; RPCs answered 1,000, RPCs forwarded 500, RPCs relayed 499, "
    "RPCs duplicates 1, lanes 1,000, hits 900, overflows 0, drops 4, drops stale_turn 4"
)
LATER = (
    f"{NOW} in 2.0 s 25.0% of the lanes hit; RPCs answered 1,500 (250/s), RPCs forwarded 700 (100/s), "
    "RPCs relayed 699 (100/s), RPCs duplicates 1 (0/s), lanes 1,400 (200/s), hits 1,000 (50/s), "
    "overflows 1 (0.5/s), drops 9 (2.5/s), drops fragment 5 (2.5/s), drops stale_turn 4 (0/s)"
)


def test_a_line_has_the_blocks_that_are_new(switch: Callable[..., None], tmp_path: Path) -> None:
    folder = a_run(tmp_path / "run")
    operations(folder / "parts", 1, [1000, 2000], 1000)
    rpcs(folder / "parts", 1, [(0.5, 12)], 1001)
    operations(folder / "parts", 1, [], 1000, arm="offload-proxy", load=0.5)
    before = sorted(tmp_path.rglob("*"))
    switch(FIRST, SECOND)
    code, output, errors = outcome("--count", "2", folder)
    assert (code, errors) == (0, "")
    assert output.splitlines() == [
        f"{SO_FAR}; offload in round 0 at load 0.8, µs: pull p50 1,000, pull p99 2,000, push p50 10,000, "
        "push p99 20,000, PS queue 0.5, W queue 12; offload-proxy in round 0 at load 0.5, µs: "
        "pull p50 –, pull p99 –, push p50 –, push p99 –, PS queue –, W queue –",
        LATER,
    ]
    assert sorted(tmp_path.rglob("*")) == before


def test_slow_workers_and_servers_are_in_lines_json_and_tables(
    switch: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_of(a_run(tmp_path / "run"), monkeypatch)

    def begin() -> Path:
        switch(FIRST, SECOND)
        return run_of(folder, monkeypatch)

    lines = outcome("--count", "2", begin())[1].splitlines()
    assert lines == [f"{SO_FAR}; worker-2 has ended", f"{LATER}; worker-2 has ended"]
    found = [
        json.loads(line)["members"] for line in outcome("--count", "2", "--json", begin())[1].splitlines()
    ]
    assert [[each["slowness"] for each in members] for members in found] == [[None, "has ended", None]] * 2
    assert (
        found[0][0]["cpu_share"] is None and found[1][0]["cpu_share"] >= 0 and found[1][1]["cpu_share"] == 0
    )
    # The members of a run that goes on are not those of another one.
    other = a_run(tmp_path / "other")
    begin()
    assert outcome("--count", "1", other)[1].splitlines()[0] == SO_FAR
    screen = on_terminal(monkeypatch)
    outcome("--count", "1", begin())
    assert "worker-2" in screen.getvalue() and "has ended" in screen.getvalue()


def test_a_reset_is_no_rate(switch: Callable[..., None]) -> None:
    switch(FIRST, a_reading((1, 0, 0, 0)))
    assert says_in_one_line(run("--count", "2").stdout.splitlines()[1], 1, 0, NOW)


def test_json_has_a_reading_in_a_line(switch: Callable[..., None], tmp_path: Path) -> None:
    folder = a_run(tmp_path / "run")
    operations(folder / "parts", 1, [7], 1000)
    rpcs(folder / "parts", 1, [(1, 2)], 1001)
    switch(FIRST, SECOND)
    code, output, errors = outcome("--count", "2", "--json", folder)
    assert (code, errors) == (0, "")
    first, second = map(json.loads, output.splitlines())
    block = {
        "arm": "offload", "round": 0, "load": 0.8, "pull_p50_us": 7, "pull_p99_us": 7,
        "push_p50_us": 70, "push_p99_us": 70, "ps_queue_us": 1, "w_queue_us": 2,
    }  # fmt: skip
    assert first == {
        "time_s": 1_800_000_000.5, "run": str(folder), "was_reset": False,
        "totals": take_reading(FIRST, 0).totals,
        "hit_share": 0.9, "interval_s": None, "per_s": None, "blocks": [block],
        "members": [],
    }  # fmt: skip
    assert second == first | {
        "totals": take_reading(SECOND, 0).totals, "hit_share": 0.25, "interval_s": 2.0, "blocks": [block],
        "per_s": take_reading(SECOND, 2, take_reading(FIRST, 0)).per_s,
    }  # fmt: skip


def test_without_a_run_the_switch_is_watched(switch: Callable[..., None]) -> None:
    switch(FIRST, SECOND)
    assert run("--count", "2").stdout == f"{SO_FAR}\n{LATER}\n"
    switch(FIRST)
    reported = json.loads(run("--count", "1", "--json").stdout)
    assert (reported["run"], reported["blocks"], reported["totals"]["hits"]) == (None, [], 900)


def test_on_a_terminal_a_reading_replaces_the_previous_reading(
    switch: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_run(tmp_path / "runs" / "20261121-120000")
    operations(folder / "parts", 1, [1000, 2000], 1000)
    screen = on_terminal(monkeypatch)
    switch(FIRST, SECOND)
    assert run("--count", "2").exit_code == 0
    before, erased, after = re.split(r"((?:\x1b\[1A\x1b\[2K)+)", screen.getvalue())[:3]
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", after)
    assert_snapshot(Path(__file__).with_name("watch.txt"), plain)
    assert "so far 90.0% of the lanes hit" in before and "1,000" in before
    # The cursor goes up as many lines as there were.
    assert erased.count("\x1b[1A") == before.count("\n")


def test_ctrl_c_restores_the_terminal_first(
    switch: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = on_terminal(monkeypatch)
    when_told: list[str] = []

    def reported(_: str | None) -> str:
        when_told.append(screen.getvalue())
        return "interrupted"

    monkeypatch.setattr("hotline.cli.watch.asyncio.sleep", Mock(side_effect=KeyboardInterrupt))
    monkeypatch.setattr("hotline.cli.common.interrupted_message", reported)
    switch(FIRST)
    result = run()
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")
    # The cursor is shown again, and nothing is written behind that.
    assert when_told == [screen.getvalue()] and screen.getvalue().endswith("\x1b[?25h")


@pytest.mark.parametrize("form", ["line", "json", "terminal"])
def test_a_run_of_a_design_that_is_not_installed_is_watched_without_counters(
    form: str, switch: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The arms are those of the run's record; the switch has no counters that are known."""
    folder = a_run(tmp_path / "run")
    record = json.loads((folder / "run.json").read_text())
    record["recorded_design"] = RecordedDesign.of(design(ONCE)).model_dump()
    (folder / "run.json").write_text(json.dumps(record))
    monkeypatch.setattr(registry, "_external_designs", {})
    monkeypatch.setattr(recorded, "_remembered", {})
    monkeypatch.setitem(sys.modules, ONCE, None)
    monkeypatch.setitem(JOBS, "once", 52)
    operations(folder / "parts", 1, [7], 1000, arm="once")
    switch(FIRST)
    monkeypatch.setattr(Controller, "counters", AsyncMock(side_effect=OtherPipeline("another")))
    no_counters = "no counters: the switch runs another design than hotset"
    if form == "terminal":
        screen = on_terminal(monkeypatch)
        assert outcome(folder, "--count", "1") == (0, "", "")
        assert no_counters in screen.getvalue() and re.search(r"once +0 +0\.8 +7\.0", screen.getvalue())
    elif form == "json":
        code, output, errors = outcome(folder, "--count", "2", "--json")
        views = [json.loads(line) for line in output.splitlines()]
        assert (code, errors) == (0, "") and "totals" not in views[0]
        assert [[block["arm"] for block in view["blocks"]] for view in views] == [["once"], ["once"]]
    else:
        code, output, errors = outcome(folder, "--count", "1")
        assert (code, errors) == (0, "")
        assert output.startswith(f"{NOW} {no_counters}; once in round 0 at load 0.8, µs: pull p50 7.0, ")


def test_without_a_run_another_design_is_an_error(
    switch: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(FIRST)
    monkeypatch.setattr(Controller, "counters", AsyncMock(side_effect=OtherPipeline("another")))
    assert outcome("--count", "1") == (1, "", "Error: another\n")


def test_watch_reports_a_switch_that_has_gone_away(switch: Callable[..., None]) -> None:
    reported = "the switch has gone\n"
    switch(FIRST)
    assert outcome() == (0, f"{SO_FAR}\n{reported}", "")
    switch(FIRST)
    code, output, errors = outcome("--json")
    assert (code, json.loads(output)["totals"]["hits"], errors) == (0, 900, reported)


def test_a_switch_that_refuses_has_not_gone(switch: Callable[..., None]) -> None:
    switch(FIRST, then="read failed: NOT_FOUND", answers=True)
    assert outcome() == (1, f"{SO_FAR}\n", "Error: read failed: NOT_FOUND\n")


def test_a_first_reading_that_fails_is_an_error(switch: Callable[..., None]) -> None:
    switch(then="switch has no pipeline")
    assert outcome() == (1, "", "Error: switch has no pipeline\n")


def test_a_part_that_cannot_be_read_ends_with_one_line(switch: Callable[..., None], tmp_path: Path) -> None:
    file = a_run(tmp_path / "run") / "parts" / "rpc-worker-1-0.parquet"
    file.touch()
    switch(FIRST)
    code, output, errors = outcome(str(file.parents[1]))
    assert (code, output) == (1, "") and errors.startswith(f"Error: {file}: cannot be read: ")


def test_no_switch_is_an_error_and_not_the_end_of_a_run(nowhere: Path) -> None:
    reported = f"Error: no switch answers at {NOWHERE}; is it running, and is the address right?\n"
    for folder in ((), (a_run(nowhere / "run"),)):
        assert outcome("--switch", NOWHERE, *folder) == (1, "", reported)
    reported = "Error: switch address: expected HOST:PORT, as 127.0.0.1:9559, got 'nonsense'\n"
    assert outcome("--switch", "nonsense", a_run(nowhere / "ended", None)) == (1, "", reported)


def test_watch_ends_with_the_run(nowhere: Path) -> None:
    folder = a_run(nowhere / "runs" / "20261121-120000", None, parts=False)
    (nowhere / "runs" / "latest").symlink_to(folder.name)
    reported = f"{folder}: the run has ended, and no switch answers at {NOWHERE}\n"
    assert outcome("--switch", NOWHERE) == (0, reported, "")
    assert outcome("--switch", NOWHERE, "--json", folder) == (0, "", reported)


def test_a_switch_that_stays_behind_its_run_is_watched(switch: Callable[..., None], tmp_path: Path) -> None:
    switch(FIRST, answers=True)
    assert run("--count", "1", a_run(tmp_path / "run", None)).stdout == f"{SO_FAR}\n"


def test_a_folder_without_a_run_is_refused(nowhere: Path) -> None:
    reported = "Error: elsewhere: not a run folder, there is no run.json\n"
    assert outcome("--switch", NOWHERE, "elsewhere") == (1, "", reported)


@pytest.mark.parametrize(
    "arguments", [("--interval", "0.1"), ("--interval", "inf"), ("--count", "0"), ("a", "b")]
)
def test_wrong_usage_exits_with_status_2(nowhere: Path, arguments: tuple[str, ...]) -> None:
    assert run("--switch", NOWHERE, *arguments).exit_code == 2


async def start(net: LiveNet, *arguments: str) -> WarmProcess:
    return await start_hotline(net, "watch", "--interval", "0.2", *arguments)


@live()
async def test_watch_reads_a_live_switch_without_taking_the_primary_role(
    net: LiveNet, tmp_path: Path
) -> None:
    """The primary is not outbid."""
    folder = a_run(tmp_path / "run")
    operations(folder / "parts", 1, [7], 1000)

    async def load_and_watch(net: LiveNet) -> str:
        async with Controller(net.address) as controller:
            process = await start(net, str(folder), "--count", "2", "--json")
            await controller.load(JOB, range(50))
            code, output, errors = await ended(process)
            await controller.unload(JOB)
        assert (code, errors) == (0, "")
        return output

    output = await net.work_while(load_and_watch(net))
    first, second = map(json.loads, output.splitlines())
    assert (first["per_s"], first["interval_s"]) == (None, None) and second["interval_s"] >= 0.2
    assert second["per_s"] == {
        name: pytest.approx((total - first["totals"][name]) / second["interval_s"])
        for name, total in second["totals"].items()
    }
    assert second["per_s"]["lanes"] > 0
    assert [block["pull_p50_us"] for block in second["blocks"]] == [7]
    # The workers are idle, and both report the same.
    async with fy.Switch("primary", net.address, fy.SwitchOptions(initial_election_id=50)) as primary:
        outbid: list[object] = []
        primary.ee.add_listener(fy.SwitchEvent.BECOME_BACKUP, outbid.append)
        code, output, _ = await ended(await start(net, str(folder), "--count", "1", "--json"))
        assert primary.is_primary and not outbid
    async with Controller(net.address, primary=False) as controller:
        counters = await controller.counters()
    assert code == 0 and json.loads(output)["totals"] == take_reading(counters, 0).totals
    assert sum(counters.rpcs.values()) > 0


@pytest.mark.soak
@live()
async def test_watch_ends_when_a_live_switch_goes_away(net: LiveNet, tmp_path: Path) -> None:
    process = await start(net, str(a_run(tmp_path / "run")))
    assert "so far" in await read_line(process)
    await net.switch_off()
    code, output, errors = await ended(process)
    assert (code, output.splitlines()[-1], errors) == (0, "the switch has gone", "")


@pytest.mark.soak
@live()
async def test_ctrl_c_ends_watch(net: LiveNet, tmp_path: Path) -> None:
    process = await start(net, str(a_run(tmp_path / "run")), "--interval", "3600")
    assert "so far" in await read_line(process)
    process.send_signal(signal.SIGINT)
    assert await ended(process) == (130, "", "hotline: interrupted\n")
