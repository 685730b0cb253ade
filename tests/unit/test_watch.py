"""`hotline watch`: rates of counters, latencies from part files, and what is shown of them."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import finsy as fy
import polars as pl
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from analysis.errors import AnalysisError
from analysis.live import BlockLatency, LiveLatencies, has_ended, run_folder
from analysis.record import RunRecord
from cli.commands import hotline
from controller.controller import Controller
from controller.errors import DeviceError
from controller.rates import take
from controller.status import DROP_REASONS, RPC_OUTCOMES, Counters, LaneCounters
from logs.columns import OPERATIONS, RPC
from logs.errors import DataError
from logs.parts import Parts
from protocol.arms import JOBS
from protocol.header import LANES
from tests.harness.livenet import LiveNet
from tests.harness.waiting import PATIENCE_S

CHECKOUT = Path(__file__).parents[2]
NOWHERE = "127.0.0.1:1"


def a_reading(
    rpcs: Sequence[int] = (0, 0, 0, 0), hits: int = 0, misses: int = 0, overflows: int = 0, **drops: int
) -> Counters:
    """All of the hits are lane 3's, all of the misses lane 4's and all overflows lane 5's."""
    lanes = [LaneCounters(0, 0, 0)] * LANES
    lanes[3:6] = [LaneCounters(hits, 0, 0), LaneCounters(0, misses, 0), LaneCounters(0, 0, overflows)]
    return Counters(
        rpcs=dict(zip(RPC_OUTCOMES, rpcs, strict=True)),
        drops=dict.fromkeys(DROP_REASONS, 0) | drops,
        lanes=tuple(lanes),
    )


FIRST = a_reading((1000, 500, 499, 1), hits=900, misses=100, stale_turn=4)
SECOND = a_reading((1500, 700, 699, 1), hits=1000, misses=400, overflows=1, stale_turn=4, fragment=5)
"""2.5 s later."""


def test_rates_are_what_was_counted_in_between() -> None:
    reading = take(SECOND, 12.5, take(FIRST, 10.0))
    assert (reading.interval_s, reading.was_reset) == (2.5, False)
    # Of 400 lanes 100 hit.
    assert reading.hit_share == 0.25
    assert reading.per_s == dict.fromkeys((f"drops_{reason}" for reason in DROP_REASONS), 0) | {
        "rpcs_answered": 200, "rpcs_forwarded": 80, "rpcs_relayed": 80, "rpcs_duplicates": 0,
        "lanes": 160, "hits": 40, "overflows": 0.4, "drops": 2, "drops_fragment": 2,
    }  # fmt: skip
    assert reading.totals == dict.fromkeys((f"drops_{reason}" for reason in DROP_REASONS), 0) | {
        "rpcs_answered": 1500, "rpcs_forwarded": 700, "rpcs_relayed": 699, "rpcs_duplicates": 1,
        "lanes": 1400, "hits": 1000, "overflows": 1, "drops": 9, "drops_fragment": 5, "drops_stale_turn": 4,
    }  # fmt: skip


def test_a_first_reading_has_no_rates() -> None:
    reading = take(FIRST, 10.0)
    assert (reading.interval_s, reading.per_s, reading.was_reset) == (None, None, False)
    assert reading.hit_share == 0.9
    assert take(a_reading(), 10.0).hit_share is None


def test_where_nothing_happens_there_is_no_hit_share() -> None:
    reading = take(FIRST, 11.0, take(FIRST, 10.0))
    assert reading.hit_share is None and reading.per_s is not None
    assert set(reading.per_s.values()) == {0}


def test_where_no_time_has_passed_there_are_no_rates() -> None:
    reading = take(SECOND, 10.0, take(FIRST, 10.0))
    assert (reading.per_s, reading.interval_s, reading.was_reset) == (None, None, False)
    assert reading.totals["rpcs_answered"] == 1500


@pytest.mark.parametrize(
    "more",
    [
        {"rpcs": (8, 8, 9, 8)}, {"hits": 8, "misses": 9}, {"hits": 9, "misses": 8}, {"overflows": 8},
        {"no_route": 8},
    ],
)  # fmt: skip
def test_one_counter_that_goes_back_was_reset(more: dict[str, Any]) -> None:
    full: dict[str, Any] = {
        "rpcs": (9, 9, 9, 9), "hits": 9, "misses": 9, "overflows": 9, "no_route": 9,
    }  # fmt: skip
    reading = take(a_reading(**full | more), 11.0, take(a_reading(**full), 10.0))
    assert (reading.was_reset, reading.per_s, reading.interval_s) == (True, None, None)
    lanes = a_reading(**full | more).all_lanes()
    assert reading.hit_share == lanes.hits / (lanes.hits + lanes.misses)


def test_after_a_reset_there_are_rates_again() -> None:
    reset = take(a_reading((10, 0, 0, 0)), 20.0, take(FIRST, 10.0))
    assert reset.was_reset
    reading = take(a_reading((30, 0, 0, 0)), 22.0, reset)
    assert not reading.was_reset and reading.per_s is not None
    assert reading.per_s["rpcs_answered"] == 10


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """The folder of a run's part files."""
    folder = tmp_path / "parts"
    folder.mkdir()
    return folder


def operations(
    parts: Path,
    worker: int,
    pulls_us: Sequence[float],
    at_us: int,
    *,
    arm: str = "hot",
    round_number: int = 0,
    load: float = 0.8,
    ops: Sequence[str] = ("pull", "push", "step"),
) -> None:
    """Write a block of a worker, whose pushes take ten times as long; its first step is not measured."""
    latencies = [1e6, *pulls_us]
    number = len(latencies)
    whole: dict[str, Any] = {"worker": worker, "job": JOBS[arm], "arm": arm, "round": round_number}
    rows = pl.concat(
        pl.DataFrame(
            {
                **dict.fromkeys(OPERATIONS, 0),
                "iteration": range(number),
                "scheduled_us": range(at_us, at_us + number),
                "latency_us": [latency * (10 if op == "push" else 1) for latency in latencies],
                "measured": [False] + [True] * (number - 1),
                "op": op,
            }
        )
        for op in ops
    )
    columns = {name: rows[name] for name in OPERATIONS} | whole | {"load": load}
    Parts(parts, f"operations-worker-{worker}", OPERATIONS).write(columns)


def rpcs(
    parts: Path,
    worker: int,
    queues_us: Sequence[tuple[float, float]],
    at_us: int,
    *,
    arm: str = "hot",
    round_number: int = 0,
    load: float = 0.8,
    op: str = "push",
    measured: bool = True,
) -> None:
    """Write RPCs of a block with these waits at the PS and at the worker."""
    ps, own = zip(*queues_us, strict=True)
    columns: dict[str, Any] = dict.fromkeys(RPC, 0)
    columns |= {"worker": worker, "job": JOBS[arm], "arm": arm, "round": round_number, "load": load}
    columns |= {"op": op, "class": "cold", "t_send_us": range(at_us, at_us + len(ps)), "measured": measured}
    Parts(parts, f"rpc-worker-{worker}", RPC).write(columns | {"ps_queue_us": ps, "w_queue_us": own})


def a_block(arm: str, round_number: int, load: float, *latencies: float | None) -> BlockLatency:
    return BlockLatency(arm, round_number, load, *latencies)


def test_latencies_of_a_block_are_of_all_workers(parts: Path) -> None:
    operations(parts, 1, range(1, 101, 2), 1000)
    operations(parts, 2, range(2, 101, 2), 1000)
    rpcs(parts, 1, [(10, 1), (20, 2)], 1000)
    rpcs(parts, 2, [(60, 6)], 1001)
    rpcs(parts, 2, [(1e6, 1e6)], 1001, measured=False)
    rpcs(parts, 2, [(1e6, 1e6)], 1001, op="empty")
    # Nearest ranks of 1 to 100; (10 + 20 + 60) / 3 and (1 + 2 + 6) / 3.
    assert LiveLatencies(parts).read() == [a_block("hot", 0, 0.8, 50, 99, 500, 990, 30, 3)]


def test_the_newest_block_of_each_arm_counts(parts: Path) -> None:
    live = LiveLatencies(parts)
    assert live.read() == []
    operations(parts, 1, [5], 1000, arm="hot", round_number=1, load=0.5)
    operations(parts, 1, [7], 2000, arm="neither", round_number=1, load=0.5)
    operations(parts, 1, [6], 3000, arm="hot", round_number=1, load=0.8)
    for at_us, wait, load in ((1001, 1, 0.5), (3001, 2, 0.8)):
        rpcs(parts, 1, [(wait, wait)], at_us, round_number=1, load=load)
    neither = a_block("neither", 1, 0.5, 7, 7, 70, 70, None, None)
    assert live.read() == [neither, a_block("hot", 1, 0.8, 6, 6, 60, 60, 2, 2)]
    operations(parts, 1, [4], 4000, round_number=2, load=0.5)
    rpcs(parts, 1, [(3, 3)], 4001, round_number=2, load=0.5)
    assert live.read() == [neither, a_block("hot", 2, 0.5, 4, 4, 40, 40, 3, 3)]


def test_a_worker_that_is_behind_has_no_part_in_the_newest_block(parts: Path) -> None:
    operations(parts, 2, [900], 1000)
    operations(parts, 1, [4], 2000, round_number=1)
    operations(parts, 3, [900], 1000)
    live = LiveLatencies(parts)
    assert live.read() == [a_block("hot", 1, 0.8, 4, 4, 40, 40, None, None)]
    operations(parts, 2, [8], 2000, round_number=1)
    assert live.read() == [a_block("hot", 1, 0.8, 4, 8, 40, 80, None, None)]


def test_the_eleventh_part_is_newer_than_the_tenth(parts: Path) -> None:
    for number in range(11):
        operations(parts, 1, [100 + number], 1000 * number, round_number=number)
    assert LiveLatencies(parts).read() == [a_block("hot", 10, 0.8, 110, 110, 1100, 1100, None, None)]


def test_of_a_block_that_is_run_again_the_last_run_counts(parts: Path) -> None:
    operations(parts, 1, [900], 1000)
    rpcs(parts, 1, [(900, 900)], 1001)
    live = LiveLatencies(parts)
    assert live.read() == [a_block("hot", 0, 0.8, 900, 900, 9000, 9000, 900, 900)]
    rpcs(parts, 1, [(9, 8)], 2001)
    operations(parts, 1, [7], 2000)
    assert live.read() == [a_block("hot", 0, 0.8, 7, 7, 70, 70, 9, 8)]


def test_rpcs_of_a_block_that_is_still_running_are_kept_for_it(parts: Path) -> None:
    live = LiveLatencies(parts)
    rpcs(parts, 1, [(1, 2)], 1001)
    assert live.read() == []
    operations(parts, 1, [7], 1000)
    rpcs(parts, 1, [(5, 6)], 2001, round_number=1)
    rpcs(parts, 1, [(9, 9)], 3001, load=0.5)
    assert live.read() == [a_block("hot", 0, 0.8, 7, 7, 70, 70, 1, 2)]
    operations(parts, 1, [8], 2000, round_number=1)
    assert live.read() == [a_block("hot", 1, 0.8, 8, 8, 80, 80, 5, 6)]


def test_parts_are_read_once(parts: Path) -> None:
    operations(parts, 1, [7], 1000)
    rpcs(parts, 1, [(1, 2)], 1001)
    live = LiveLatencies(parts)
    found = live.read()
    for file in parts.iterdir():
        file.write_bytes(b"not Parquet any more")
    assert live.read() == found and len(found) == 1
    operations(parts, 1, [8], 2000, round_number=1)
    assert [block.pull_p50_us for block in live.read()] == [8]


def test_no_more_old_parts_are_read_than_the_newest_blocks_may_be_in(
    parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    read_parquet = pl.read_parquet

    def noted(file: Path, **options: Any) -> pl.DataFrame:
        read.append(file.name)
        return read_parquet(file, **options)

    for number in range(23):
        for worker in (1, 2):
            operations(parts, worker, [number], 1000 * number, round_number=number)
    monkeypatch.setattr(pl, "read_parquet", noted)
    live = LiveLatencies(parts)
    assert [block.round for block in live.read()] == [22]
    assert sorted(read) == sorted(
        f"operations-worker-{worker}-{number}.parquet" for worker in (1, 2) for number in range(3, 23)
    )
    live.read()
    assert len(read) == 40


def test_what_is_of_no_round_is_left_out(parts: Path) -> None:
    operations(parts, 1, [7], 1000)
    operations(parts, 1, [9], 2000, round_number=-1, load=0.0)
    operations(parts, 1, [9], 2000, arm="profile", round_number=-1, load=0.0)
    assert LiveLatencies(parts).read() == [a_block("hot", 0, 0.8, 7, 7, 70, 70, None, None)]


def test_a_block_without_all_operations_has_no_latencies(parts: Path) -> None:
    operations(parts, 1, [7], 1000, ops=("pull", "step"))
    rpcs(parts, 1, [(1, 2)], 1001)
    operations(parts, 1, [], 1000, arm="both")
    assert LiveLatencies(parts).read() == [
        a_block("hot", 0, 0.8, None, None, None, None, 1, 2),
        a_block("both", 0, 0.8, None, None, None, None, None, None),
    ]


def test_a_part_that_was_merged_meanwhile_is_no_error(parts: Path) -> None:
    (parts / "operations-worker-1-0.parquet").symlink_to("gone")
    operations(parts, 2, [7], 1000)
    assert [block.pull_p50_us for block in LiveLatencies(parts).read()] == [7]


@pytest.mark.parametrize("columns", [None, {"arm": ["hot"]}])
def test_a_part_that_is_none_is_told(parts: Path, columns: dict[str, list[str]] | None) -> None:
    file = parts / "rpc-worker-1-0.parquet"
    file.touch() if columns is None else pl.DataFrame(columns).write_parquet(file)
    with pytest.raises(DataError, match=rf"^{re.escape(str(file))}: cannot be read: .+$"):
        LiveLatencies(parts).read()


def a_run(folder: Path, error: str | None = "it was killed", *, parts: bool = True) -> Path:
    """A run's folder, as it is while the run goes on."""
    folder.mkdir(parents=True)
    if parts:
        (folder / "parts").mkdir()
    RunRecord(
        target="softswitch",
        config={},
        machine={},
        versions={},
        placement={},
        seeds={},
        jobs=JOBS,
        error=error,
    ).write(folder)
    return folder


@pytest.mark.parametrize(
    ("error", "parts", "ended"),
    [
        ("it was killed", True, False),
        ("it was killed", False, True),
        (None, True, True),
        (None, False, True),
    ],
)
def test_whether_a_run_has_ended(tmp_path: Path, error: str | None, parts: bool, ended: bool) -> None:
    assert has_ended(a_run(tmp_path / "run", error, parts=parts)) is ended


def test_the_run_that_goes_on_comes_before_the_latest(tmp_path: Path) -> None:
    assert run_folder(None, tmp_path) is None
    before = a_run(tmp_path / "20261120-120000", None, parts=False)
    (tmp_path / "latest").symlink_to(before.name)
    assert run_folder(None, tmp_path) == before
    (tmp_path / "20261120-130000" / "parts").mkdir(parents=True)
    assert run_folder(None, tmp_path) == before
    now = a_run(tmp_path / "20261120-110000")
    assert run_folder(None, tmp_path) == now
    for other in (a_run(tmp_path / "20261120-140000"), a_run(tmp_path / "20261120-100000")):
        os.utime(other, (1, 1))  # it was killed before
    os.utime(a_run(tmp_path / "20261120-150000", None, parts=False), (2**32, 2**32))
    assert run_folder(None, tmp_path) == now
    assert run_folder(tmp_path / "latest", tmp_path) == before
    with pytest.raises(AnalysisError, match=r"20261120-130000: not a run folder, there is no run\.json"):
        run_folder(tmp_path / "20261120-130000", tmp_path)


@pytest.fixture
def switch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Say what a switch counts, reading by reading, two seconds apart; behind the last one it has gone."""
    monkeypatch.chdir(tmp_path)

    def say(*found: Counters, then: str = "is gone", answers: bool = False) -> None:
        readings, clocks = iter(found), iter(range(100, 200, 2))
        connections = iter([True, answers])

        async def connect(controller: Controller) -> Controller:
            if not next(connections):
                raise DeviceError("no switch answers")
            return controller

        async def leave(*_: object) -> None:
            return

        async def counters(_: Controller) -> Counters:
            counted = next(readings, None)
            if counted is None:
                raise DeviceError(then)
            return counted

        monkeypatch.setattr(Controller, "__aenter__", connect)
        monkeypatch.setattr(Controller, "__aexit__", leave)
        monkeypatch.setattr(Controller, "counters", counters)
        clock = SimpleNamespace(monotonic=lambda: float(next(clocks)), time=lambda: 1_800_000_000.5)
        monkeypatch.setattr("cli.watch.time", clock)

    return say


def run(*arguments: str) -> Result:
    return CliRunner().invoke(hotline, ["watch", "--interval", "0.2", *arguments])


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


def test_a_reading_is_a_line(switch: Callable[..., None]) -> None:
    switch(FIRST, SECOND)
    result = run("--count", "2")
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{SO_FAR}\n{LATER}\n", "")


def test_a_line_has_the_blocks_that_are_new(switch: Callable[..., None], tmp_path: Path) -> None:
    folder = a_run(tmp_path / "run")
    operations(folder / "parts", 1, [1000, 2000], 1000)
    rpcs(folder / "parts", 1, [(0.5, 12)], 1001)
    operations(folder / "parts", 1, [], 1000, arm="both", load=0.5)
    before = sorted(tmp_path.rglob("*"))
    switch(FIRST, SECOND)
    result = run("--count", "2", str(folder))
    assert result.stdout.splitlines() == [
        f"{SO_FAR}; hot in round 0 at load 0.8, µs: pull p50 1,000, pull p99 2,000, push p50 10,000, "
        "push p99 20,000, PS queue 0.5, W queue 12; both in round 0 at load 0.5, µs: "
        "pull p50 –, pull p99 –, push p50 –, push p99 –, PS queue –, W queue –",
        LATER,
    ]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_reset_is_no_rate(switch: Callable[..., None]) -> None:
    switch(FIRST, a_reading((1, 0, 0, 0)))
    assert run("--count", "2").stdout.splitlines()[1] == (
        f"{NOW} counters were reset, so far – of the lanes hit; RPCs answered 1, RPCs forwarded 0, "
        "RPCs relayed 0, RPCs duplicates 0, lanes 0, hits 0, overflows 0, drops 0"
    )


def test_json_has_a_reading_in_a_line(switch: Callable[..., None], tmp_path: Path) -> None:
    folder = a_run(tmp_path / "run")
    operations(folder / "parts", 1, [7], 1000)
    rpcs(folder / "parts", 1, [(1, 2)], 1001)
    switch(FIRST, SECOND)
    result = run("--count", "2", "--json", str(folder))
    assert (result.exit_code, result.stderr) == (0, "")
    first, second = map(json.loads, result.stdout.splitlines())
    block = {
        "arm": "hot", "round": 0, "load": 0.8, "pull_p50_us": 7, "pull_p99_us": 7,
        "push_p50_us": 70, "push_p99_us": 70, "ps_queue_us": 1, "w_queue_us": 2,
    }  # fmt: skip
    assert first == {
        "time_s": 1_800_000_000.5, "run": str(folder), "was_reset": False, "totals": take(FIRST, 0).totals,
        "hit_share": 0.9, "interval_s": None, "per_s": None, "blocks": [block],
    }  # fmt: skip
    assert second == first | {
        "totals": take(SECOND, 0).totals, "hit_share": 0.25, "interval_s": 2.0, "blocks": [block],
        "per_s": take(SECOND, 2, take(FIRST, 0)).per_s,
    }  # fmt: skip


def test_without_a_run_there_is_the_switch(switch: Callable[..., None]) -> None:
    switch(FIRST)
    told = json.loads(run("--count", "1", "--json").stdout)
    assert (told["run"], told["blocks"], told["totals"]["hits"]) == (None, [], 900)


def test_on_a_terminal_a_reading_takes_the_place_of_the_one_before(
    switch: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_run(tmp_path / "runs" / "20261121-120000")
    operations(folder / "parts", 1, [1000, 2000], 1000)
    screen = io.StringIO()
    monkeypatch.setattr("cli.watch.Console", lambda **_: Console(file=screen, force_terminal=True, width=100))
    switch(FIRST, SECOND)
    assert run("--count", "2").exit_code == 0
    before, erased, after = re.split(r"((?:\x1b\[1A\x1b\[2K)+)", screen.getvalue())[:3]
    lines = [re.split(r" {2,}", line.strip()) for line in _plain(after).splitlines() if line.strip()]
    assert lines[:2] == [
        ["switch 127.0.0.1:9559, 20261121-120000; Ctrl-C ends"], ["in 2.0 s 25.0% of the lanes hit"],
    ]  # fmt: skip
    assert lines[2:] == [
        ["/s", "in all"],
        ["RPCs answered", "250", "1,500"],
        ["RPCs forwarded", "100", "700"],
        ["RPCs relayed", "100", "699"],
        ["RPCs duplicates", "0", "1"],
        ["lanes", "200", "1,400"],
        ["hits", "50", "1,000"],
        ["overflows", "0.5", "1"],
        ["drops", "2.5", "9"],
        ["drops fragment", "2.5", "5"],
        ["drops stale_turn", "0", "4"],
        ["newest blocks, µs"],
        ["arm", "round", "load", "pull p50", "pull p99", "push p50", "push p99", "PS queue", "W queue"],
        ["hot", "0", "0.8", "1,000", "2,000", "10,000", "20,000", "–", "–"],
    ]
    assert "so far 90.0% of the lanes hit" in before and "1,000" in before
    # The cursor goes up as many lines as there were.
    assert erased.count("\x1b[1A") == before.count("\n")


def test_ctrl_c_leaves_the_terminal_in_order_first(
    switch: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    when_told: list[str] = []

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    def told(_: str | None) -> str:
        when_told.append(screen.getvalue())
        return "interrupted"

    monkeypatch.setattr("cli.watch.Console", lambda **_: Console(file=screen, force_terminal=True, width=100))
    monkeypatch.setattr("cli.watch.asyncio.sleep", interrupt)
    monkeypatch.setattr("cli.common.interrupted", told)
    switch(FIRST)
    result = run()
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")
    # The cursor is shown again, and nothing is written behind that.
    assert when_told == [screen.getvalue()] and screen.getvalue().endswith("\x1b[?25h")


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_switch_that_goes_is_told_in_one_line(switch: Callable[..., None], as_json: bool) -> None:
    switch(FIRST)
    result = run("--json") if as_json else run()
    assert result.exit_code == 0
    told = "the switch has gone\n"
    if as_json:
        assert json.loads(result.stdout)["totals"]["hits"] == 900 and result.stderr == told
    else:
        assert (result.stdout, result.stderr) == (f"{SO_FAR}\n{told}", "")


def test_a_switch_that_refuses_has_not_gone(switch: Callable[..., None]) -> None:
    switch(FIRST, then="read failed: NOT_FOUND", answers=True)
    result = run()
    assert (result.exit_code, result.stdout) == (1, f"{SO_FAR}\n")
    assert result.stderr == "Error: read failed: NOT_FOUND\n"


def test_a_first_reading_that_fails_is_an_error(switch: Callable[..., None]) -> None:
    switch(then="switch has no pipeline")
    result = run()
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "Error: switch has no pipeline\n")


def test_a_part_that_cannot_be_read_ends_with_one_line(switch: Callable[..., None], tmp_path: Path) -> None:
    file = a_run(tmp_path / "run") / "parts" / "rpc-worker-1-0.parquet"
    file.touch()
    switch(FIRST)
    result = run(str(file.parents[1]))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: {file}: cannot be read: ")


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A working directory that nobody's runs are in."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def test_no_switch_is_one_clear_error(nowhere: Path) -> None:
    told = f"Error: no switch answers at {NOWHERE}; is it running, and is the address right?\n"
    result = run("--switch", NOWHERE)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", told)
    # Nor is it the end of a run that has not got so far, or was killed.
    result = run("--switch", NOWHERE, str(a_run(nowhere / "run")))
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", told)


def test_a_run_that_has_ended_is_told(nowhere: Path) -> None:
    folder = a_run(nowhere / "runs" / "20261121-120000", None, parts=False)
    (nowhere / "runs" / "latest").symlink_to(folder.name)
    told = f"{folder}: the run has ended, and no switch answers at {NOWHERE}\n"
    result = run("--switch", NOWHERE)
    assert (result.exit_code, result.stdout, result.stderr) == (0, told, "")
    result = run("--switch", NOWHERE, "--json", str(folder))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", told)


def test_a_switch_that_stays_behind_its_run_is_watched(switch: Callable[..., None], tmp_path: Path) -> None:
    folder = a_run(tmp_path / "run", None)
    switch(FIRST, answers=True)
    assert run("--count", "1", str(folder)).stdout == f"{SO_FAR}\n"


def test_an_address_that_is_none_is_not_the_end_of_a_run(nowhere: Path) -> None:
    result = run("--switch", "nonsense", str(a_run(nowhere / "run", None)))
    assert result.exit_code == 1
    assert result.stderr == "Error: switch address 'nonsense': HOST:PORT expected, as 127.0.0.1:9559\n"


def test_a_folder_that_is_no_run_is_told(nowhere: Path) -> None:
    result = run("--switch", NOWHERE, "elsewhere")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: elsewhere: not a run folder, there is no run.json\n"


@pytest.mark.parametrize(
    "arguments", [("--interval", "0.1"), ("--interval", "inf"), ("--count", "0"), ("a", "b")]
)
def test_wrong_usage_is_told_by_the_command_line(nowhere: Path, arguments: tuple[str, ...]) -> None:
    assert run("--switch", NOWHERE, *arguments).exit_code == 2


def test_the_help_says_what_watching_costs() -> None:
    text = " ".join(run("--help").stdout.split())
    assert "Watching costs CPU time of the machine, which the run may be measuring" in text


JOB = JOBS["hot"]


async def start(net: LiveNet, *arguments: str) -> asyncio.subprocess.Process:
    """`hotline watch` on the net's switch, in a process of its own: gRPC takes one loop in each."""
    command = ["-m", "cli", "watch", "--switch", net.address, "--interval", "0.2", *arguments]
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=pipe, stderr=pipe, cwd=CHECKOUT
    )


async def ended(process: asyncio.subprocess.Process) -> tuple[int | None, str, str]:
    output, errors = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    return process.returncode, output.decode(), errors.decode()


def on_net(scenario: Callable[[LiveNet], Any]) -> None:
    async def work() -> None:
        async with LiveNet(JOB, 100) as net:
            await net.set_up()
            await scenario(net)

    asyncio.run(work())


def test_a_live_switch(tmp_path: Path) -> None:
    """Of which another is primary, who is not outbid."""
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

    async def scenario(net: LiveNet) -> None:
        output = await net.work_while(load_and_watch(net))
        first, second = map(json.loads, output.splitlines())
        assert (first["per_s"], first["interval_s"]) == (None, None) and second["interval_s"] >= 0.2
        assert second["per_s"] == {
            name: pytest.approx((total - first["totals"][name]) / second["interval_s"])
            for name, total in second["totals"].items()
        }
        assert second["per_s"]["lanes"] > 0
        assert [block["pull_p50_us"] for block in second["blocks"]] == [7]
        # The workers are still, and both tell the same.
        async with fy.Switch("primary", net.address, fy.SwitchOptions(initial_election_id=50)) as primary:
            outbid: list[object] = []
            primary.ee.add_listener(fy.SwitchEvent.BECOME_BACKUP, outbid.append)
            code, output, _ = await ended(await start(net, str(folder), "--count", "1", "--json"))
            assert primary.is_primary and not outbid
        async with Controller(net.address, primary=False) as controller:
            counters = await controller.counters()
        assert code == 0 and json.loads(output)["totals"] == take(counters, 0).totals
        assert sum(counters.rpcs.values()) > 0

    on_net(scenario)


def test_a_live_switch_that_goes(tmp_path: Path) -> None:
    async def scenario(net: LiveNet) -> None:
        process = await start(net, str(a_run(tmp_path / "run")))
        assert process.stdout is not None
        first = await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)
        assert b"so far" in first
        await net.switch_off()
        code, output, errors = await ended(process)
        assert (code, output.splitlines()[-1], errors) == (0, "the switch has gone", "")

    on_net(scenario)


def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    async def scenario(net: LiveNet) -> None:
        process = await start(net, str(a_run(tmp_path / "run")), "--interval", "3600")
        assert process.stdout is not None
        assert b"so far" in await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)
        process.send_signal(signal.SIGINT)
        assert await ended(process) == (130, "", "hotline: interrupted\n")

    on_net(scenario)
