"""The output of `hotline status` and `hotline registers` for a switch of known content."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.controller import Controller, Register
from controller.status import RPC_OUTCOMES, Counters, LaneCounters, SwitchStatus, drop_reasons
from controller.tables import CallerKind, HotParam, JobRow, KeyState, ServerRow, WorkerRow
from foundation.designs.hotset import ARMS, settings_of
from foundation.protocol.header import LANES
from switch_harness.wording import says
from tests.harness.cli import output_of
from tests.harness.snapshots import assert_snapshot
from tests.harness.watched import a_reading, run_of

MAC = "00:00:00:00:00:01"


def a_status() -> SwitchStatus:
    """Return six jobs of one server and two workers; lane k has 100 k hits and 200 misses."""
    params = [HotParam(1, key, key % LANES, key, KeyState.HOT) for key in range(100)]
    params += [HotParam(4, key, key % LANES, key, KeyState.PARKED) for key in range(50)]
    params += [HotParam(4, 99, 3, 99, KeyState.DRAINING), HotParam(4, 98, 2, 98, KeyState.RESERVED)]
    lanes = tuple(LaneCounters(hits=100 * lane, misses=200, overflows=lane // 31) for lane in range(LANES))
    callers = [(1, 0), (2, 0), (2**15, CallerKind.PRIVILEGED)]
    return SwitchStatus(
        jobs=tuple(JobRow(arm.job, settings_of(arm).aggregates, settings_of(arm).proxies) for arm in ARMS),
        servers=tuple(ServerRow(arm.job, 0, MAC, "10.0.2.1", 9, 5, MAC, "10.0.3.1", 8) for arm in ARMS),
        workers=tuple(
            WorkerRow(arm.job, worker, 1, 7, MAC, "10.0.1.1", 20_001, 3, kind)
            for arm in ARMS
            for worker, kind in callers
        ),
        params=tuple(params),
        counters=Counters(
            rpcs=dict(zip(RPC_OUTCOMES, (12345, 6, 5, 0), strict=True)),
            drops=dict.fromkeys(drop_reasons(), 0) | {"fragment": 1200, "stale_turn": 7},
            lanes=lanes,
        ),
    )


@pytest.fixture
def on_switch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that fakes the result of one of the controller's methods."""

    async def connect(controller: Controller, *_: object) -> Controller:
        return controller

    def say(method: str, found: object, *expected: object) -> None:
        async def find(_: Controller, *arguments: object) -> object:
            assert arguments == expected
            return found

        monkeypatch.setattr(Controller, method, find)

    monkeypatch.setattr("hotline.cli.common.check_listening", lambda address: None)
    monkeypatch.setattr("topologies.lock_record.find_running_folder", lambda: None)
    monkeypatch.setattr(Controller, "__aenter__", connect)
    monkeypatch.setattr(Controller, "__aexit__", connect)
    return say


def test_the_status_and_its_full_tables_equal_the_snapshot(on_switch: Callable[..., None]) -> None:
    """100 * (0 + 1 + ... + 31) hits and 32 * 200 misses are 88.6 % hits."""
    on_switch("status", a_status())
    short, full = output_of("status"), output_of("status", "--all")
    assert len(short.splitlines()) == 11 and full.startswith(short)
    assert_snapshot(Path(__file__).with_name("status.txt"), full)


def test_readings_are_hashable_values() -> None:
    param = HotParam(1, 2, 3, 4, KeyState.HOT)
    assert len({Register(param, (5,)), Register(param, (5,)), Register(param, None)}) == 2
    assert len({LaneCounters(1, 2, 3), LaneCounters(1, 2, 3)}) == 1


def test_a_switch_that_has_seen_nothing(on_switch: Callable[..., None]) -> None:
    param = HotParam(77, 5, 0, 0, KeyState.HOT)
    on_switch("status", SwitchStatus((JobRow(77, True, False),), (), (), (param,), a_reading()))
    output = output_of("status")
    assert says(output, "127.0.0.1:9559", 1)
    assert says(output, "lanes", 0) and "drops: none\n" in output
    # A job that is no arm of an experiment.
    assert output.splitlines()[2].split() == ["77", "on", "off", "0", "0", "1", "0", "0", "0"]


def test_the_status_as_json_has_jobs_workers_lanes_and_totals(on_switch: Callable[..., None]) -> None:
    on_switch("status", a_status())
    found = json.loads(output_of("status", "--json"))
    assert set(found) == {
        "jobs",
        "workers",
        "rpcs",
        "drops",
        "lanes",
        "totals",
        "members",
        "switch",
        "switch_name",
    }
    assert found["totals"] == {
        "hits": 49600, "misses": 6400, "overflows": 1, "entries": 152, "hit_rate": 49600 / 56000,
    }  # fmt: skip
    assert [job["arm"] for job in found["jobs"]] == [arm.name for arm in ARMS]
    assert found["jobs"][4]["entries"] == {"hot": 0, "reserved": 1, "draining": 1, "parked": 50}
    assert len(found["workers"]) == 18 and found["lanes"][2] == {
        "lane": 2, "entries": 7, "hits": 200, "misses": 200, "overflows": 0,
    }  # fmt: skip


def test_the_status_names_slow_workers_and_servers(
    on_switch: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    on_switch("status", a_status())
    run_of(tmp_path, monkeypatch)
    found = output_of("status").splitlines()[-1]
    assert found == "3 workers and servers, slow: worker-2 has ended"
    table = output_of("status", "--all").splitlines()[13:16]
    assert [row.split()[0] for row in table] == ["worker-1", "worker-2", "ps-0"]
    members = json.loads(output_of("status", "--json"))["members"]
    assert [each["slowness"] for each in members] == [None, "has ended", None]
    assert says(output_of("status", "--switch", "127.0.0.1:9560"), "127.0.0.1:9560")
    assert json.loads(output_of("status", "--switch", "127.0.0.1:9560", "--json"))["members"] == []


@pytest.fixture
def held(on_switch: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Fake two registers; return the path of the record of the latest run."""
    params = [HotParam(4, 5, 1, 8, KeyState.HOT), HotParam(4, 6, 2, 9, KeyState.PARKED)]
    on_switch("registers", [Register(params[0], (-(2**19),)), Register(params[1], None)], 4, None)
    monkeypatch.chdir(tmp_path)
    record = tmp_path / "runs" / "latest" / "run.json"
    record.parent.mkdir(parents=True)
    return record


def weights(*arguments: str) -> list[float | None]:
    found = json.loads(output_of("registers", "--job", "4", "--json", *arguments))
    assert [row["values"] for row in found] == [[-(2**19)], None]
    return [row["weights"] and row["weights"][0] for row in found]


def test_registers_in_the_models_units_by_the_latest_runs_scale(held: Path) -> None:
    held.write_text(json.dumps({"workload": {"scale": 2.0**20}}))
    held.parent.rename(held.parents[1] / "20261120-120000")
    held.parent.symlink_to("20261120-120000")
    assert weights() == [-0.5, None]
    output = output_of("registers", "--job", "4")
    reported = "weight = value / 1048576, the scale of 20261120-120000; --scale for another run\n"
    assert output.endswith(reported)
    rows = [re.split(r" *[│┃] *", line)[1:-1] for line in output.splitlines() if line[0] in "│┃"]
    assert rows == [
        ["key", "lane", "slot", "state", "values", "weights"],
        ["5", "1", "8", "hot", "-524288", "-0.5"],
        ["6", "2", "9", "parked", "–", "–"],
    ]
    assert output.splitlines()[0].strip() == "job 4"


def test_a_scale_that_is_given_wins(held: Path) -> None:
    held.write_text(json.dumps({"workload": {"scale": 2.0**20}}))
    assert weights("--scale", "524288") == [-1.0, None]
    assert says(output_of("registers", "--job", "4", "--scale", "524288"), 524288, "weight")


@pytest.mark.parametrize("record", [None, "{}", "not JSON", '{"workload": {}}', '{"workload": []}'])
def test_without_a_scale_there_are_values_only(held: Path, record: str | None) -> None:
    if record is not None:
        held.write_text(record)
    assert weights() == [None, None]
    output = output_of("registers", "--job", "4")
    assert says(output, "weights", "--scale", "runs/latest/run.json")
    assert "-524288" in output


def test_registers_of_the_given_keys_are_printed_as_json(held: Path, on_switch: Callable[..., None]) -> None:
    largest = 2**64 - 2
    on_switch(
        "registers", [Register(HotParam(65535, largest, 31, 4095, KeyState.HOT), (7,))], 65535, (largest,)
    )
    found = json.loads(output_of("registers", "--job", "65535", "--scale", "2", "--json", str(largest)))
    assert found == [
        {"key": largest, "lane": 31, "slot": 4095, "state": "hot", "values": [7], "weights": [3.5]}
    ]
