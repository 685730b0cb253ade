"""Degenerate runs, simulated, through the whole report: values that are 0, constant, or missing."""

from __future__ import annotations

import asyncio
import io
import json
import math
import re
import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from plotly.offline import get_plotlyjs

from analysis.dedicated_switch import predict
from analysis.figures.all import figures
from analysis.figures.figure_data import source_of_run
from analysis.figures.figure_files import draw
from analysis.record import RunRecord, Virtual, read_record
from analysis.report import answers, result
from analysis.summary import Summary, read_summary, summarise
from analysis.terminal import RESULT_WIDTH, print_result
from experiment.phases.workload import read_data
from experiment.run_config import config_of
from hotline_simulator.config import SimulationConfig
from hotline_simulator.experiment import quiet_reporter, simulate
from tests.harness.cli import invoke, output_of

SMALL: Mapping[str, object] = {
    "workers": 2, "servers": 2, "top_k": 64, "rounds": 6, "loads": [0.5], "block_ms": 1, "discard_ms": 0,
    "block_steps": 4, "calibration_s": 0.002, "profile_lanes": 1_000,
}  # fmt: skip
WORKLOAD: Mapping[str, object] = {
    "parameters": 2_000, "hot_parameters": 64, "hot_share": 0.5, "keys_per_step": 32,
}  # fmt: skip


def log_of(folder: Path, keys: Callable[[int], int]) -> dict[str, object]:
    """Write an access log; return the settings of a run with it."""
    rows = 6_000
    log = folder / "log.csv"
    pl.DataFrame({"time": range(rows), "key": [keys(row) for row in range(rows)]}).write_csv(log)
    return {"data": log, "columns": "key=key,time=time", "samples_per_step": 8, "top_k": 64}


def movielens_like(folder: Path) -> dict[str, object]:
    """Write a log like MovieLens-100k, with fewer rows; all of its 2,625 keys fit into the switch."""
    users, items, rows = 943, 1_682, 20_000
    rng = np.random.default_rng(1)
    columns = {
        "user_id:token": np.append(np.arange(users), rng.integers(users, size=rows - users)) + 1,
        "item_id:token": np.append(np.arange(items), rng.integers(items, size=rows - items)) + 1,
        "rating:float": rng.integers(1, 6, rows),
        "timestamp:float": np.sort(rng.integers(874_724_710, 893_286_638, rows)),
    }
    log = folder / "ml-100k.inter"
    pl.DataFrame(columns).write_csv(log, separator="\t")
    return {"data": log, "top_k": 20_000, "workers": 4, "profile_lanes": 100_000}


def drifting(row: int) -> int:
    """The keys are others as soon as the hot set is chosen."""
    return row % 100 if row < 1_200 else 1_000 + row % 1_000


SIMULATED: Mapping[str, Callable[[Path], dict[str, object]]] = {
    "plain": lambda folder: {},
    "all hot": lambda folder: log_of(folder, lambda row: row * row % 61),
    "MovieLens": movielens_like,
    "none hot": lambda folder: log_of(folder, drifting),
    "one key": lambda folder: log_of(folder, lambda row: 7),
    "one worker": lambda folder: {"workers": 1},
    "one server": lambda folder: {"servers": 1},
    "one of each": lambda folder: {"workers": 1, "servers": 1, **log_of(folder, lambda row: 7)},
    "one round": lambda folder: {"rounds": 1},
    "one arm": lambda folder: {"arms": ["baseline"]},
}


def disturb_all(run: Path, record: RunRecord) -> None:
    for block in record.blocks:
        block.disturbed = ["others' CPU"]


def only(op: str) -> Callable[[Path, RunRecord], None]:
    """Leave out the rows of the other operation, as if the workers had not had it."""
    other = {"pull": "push", "push": "pull"}[op]

    def edit(run: Path, record: RunRecord) -> None:
        for name in ("operations", "rpc"):
            change_log(run, name, lambda rows: rows.filter(pl.col("op") != other))

    return edit


def change_log(run: Path, name: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    file = run / f"{name}.parquet"
    change(pl.read_parquet(file)).write_parquet(file)


def measure_nothing(run: Path, record: RunRecord) -> None:
    for name in ("operations", "rpc"):
        change_log(run, name, lambda rows: rows.with_columns(measured=pl.lit(False)))


def use_no_server(run: Path, record: RunRecord) -> None:
    """The baseline, too, has no packets, bytes or CPU time at the servers."""
    for block in record.blocks:
        block.servers = type(block.servers)()


def swap_arms(run: Path, record: RunRecord) -> None:
    """The baseline is what offload was, so that it is 0 where offload was."""
    swapped = {"baseline": "offload", "offload": "baseline"}
    for block in record.blocks:
        block.arm = swapped.get(block.arm, block.arm)
    arms = pl.col("arm").cast(pl.String).replace(swapped)
    for name in ("operations", "rpc"):
        change_log(run, name, lambda rows: rows.with_columns(arms.cast(rows.schema["arm"])))


def lack_capacities(run: Path, record: RunRecord) -> None:
    record.capacity = dict.fromkeys(record.capacity, 0.0)


EDITED: Mapping[str, tuple[str, Callable[[Path, RunRecord], None]]] = {
    "only pulls": ("plain", only("pull")),
    "only pushes": ("plain", only("push")),
    "all blocks disturbed": ("plain", disturb_all),
    "nothing measured": ("plain", measure_nothing),
    "no use of servers": ("plain", use_no_server),
    "all hot, from a baseline of 0": ("all hot", swap_arms),
    "no capacity": ("plain", lack_capacities),
}
MEMBERS = (*SIMULATED, *EDITED)


def packets(summary: Summary) -> tuple[float | None, bool, bool]:
    """Return offload's change of packets to the servers, and whether both arms' values are 0."""
    change = summary.loads["0.5"].differences["offload"]["ps_packets_per_step"]
    return change.ratio, change.reference == 0, change.value == 0


def are_all_busy(summary: Summary) -> bool:
    busy = summary.loads["0.5"].busy
    return busy is not None and (busy.disturbed, busy.blocks, busy.reasons) == (24, 24, {"others' CPU": 24})


def has_no_round(summary: Summary) -> bool:
    return summary.loads["0.5"].differences == {}


MEANT: Mapping[str, Callable[[Summary], bool]] = {
    "all hot": lambda summary: packets(summary) == (-1, False, True),
    "one key": lambda summary: packets(summary) == (-1, False, True),
    "MovieLens": lambda summary: packets(summary) == (-1, False, True),
    "none hot": lambda summary: summary.hot_update_share == 0,
    "one round": lambda summary: summary.loads["0.5"].lacks_intervals,
    "one arm": has_no_round,
    "only pulls": has_no_round,
    "only pushes": has_no_round,
    "nothing measured": has_no_round,
    "all blocks disturbed": are_all_busy,
    "no use of servers": lambda summary: packets(summary) == (None, True, True),
    "all hot, from a baseline of 0": lambda summary: packets(summary) == (None, True, False),
    "no capacity": lambda summary: not any(summary.capacity.values()),
}
"""What a member is named for did happen, so that the tests are about it."""
DRAWN = ("all hot", "one of each", "nothing measured")
"""Members whose figures are drawn, too, which takes as long as the rest; in `make soak` all are written."""


class Runs:
    """The members' runs, which are simulated when they are asked for."""

    def __init__(self, make_folder: Callable[[str], Path]) -> None:
        self._make_folder = make_folder
        self._folders: dict[str, Path] = {}

    def __getitem__(self, name: str) -> Path:
        if name not in self._folders:
            self._folders[name] = self._edited(name) if name in EDITED else self._simulated(name)
        return self._folders[name]

    def _simulated(self, name: str) -> Path:
        folder = self._make_folder(name.replace(" ", "-"))
        settings = {**SMALL, "workload": WORKLOAD, **SIMULATED[name](folder)}
        config = config_of(SimulationConfig, settings)
        (folder / "parts").mkdir()
        asyncio.run(simulate(config, read_data(config, quiet_reporter()), folder, quiet_reporter()))
        return folder

    def _edited(self, name: str) -> Path:
        original, edit = EDITED[name]
        folder = self._make_folder(name.replace(" ", "-")) / "run"
        shutil.copytree(self[original], folder)
        record = read_record(folder)
        edit(folder, record)
        record.write(folder)
        return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp)


@cache
def summary_of(run: Path) -> tuple[RunRecord, Summary]:
    """Return the record and summary of a run whose files do not change any more."""
    record = read_record(run)
    return record, summarise(run, record)


def refuse_constant(name: str) -> None:
    raise ValueError(f"expected JSON, which has no {name}")


def check_text(text: str) -> None:
    """No number is missing, and no change or bound of one is below -100 %."""
    assert not re.search(r"\b(nan|NaN|inf|Infinity|None)\b", text), text
    changes = re.findall(r"(-[\d.]+) (?:%|\[)", text) + re.findall(r"\[(-[\d.]+), ", text)
    assert all(float(change) >= -100 for change in changes), text


def check_summary(summary: Summary) -> None:
    for load in summary.loads.values():
        for comparisons in load.differences.values():
            for comparison in comparisons.values():
                numbers = [number for number in comparison.model_dump().values() if number is not None]
                assert all(map(math.isfinite, numbers))
                assert (comparison.ratio is None) == (comparison.reference == 0)
                if comparison.ratio_low is not None and comparison.ratio_high is not None:
                    assert -1 <= comparison.ratio_low <= comparison.ratio_high


@pytest.mark.parametrize("name", MEMBERS)
def test_a_degenerate_run_goes_through_the_whole_report(name: str, runs: Runs) -> None:
    assert name not in MEANT or MEANT[name](summary_of(runs[name])[1])
    check_report(runs[name])
    check_comparison(runs[name], runs["plain"])
    if name in DRAWN:
        for figure in figures([source_of_run(runs[name])]):
            draw(figure)
    own, plain, all_hot = (summary_of(run)[1] for run in (runs[name], runs["plain"], runs["all hot"]))
    for pair in ((own, own), (own, plain), (plain, own), (all_hot, all_hot)):
        check_prediction(runs[name], *pair)


def check_report(run: Path) -> None:
    check_text(output_of("report", run))
    text = (run / "summary.json").read_text()
    json.loads(text, parse_constant=refuse_constant)
    check_summary(read_summary(run))
    page = (run / "report.html").read_text().replace(get_plotlyjs(), "", 1)
    visible = re.sub(r"<(script|style|pre)\b.*?</\1>", "", page, flags=re.DOTALL)
    check_text(re.sub(r"<[^>]*>", " ", visible))


def check_comparison(run: Path, plain: Path) -> None:
    compared = invoke("compare", plain, run)
    if compared.exit_code:
        assert not summary_of(run)[1].loads["0.5"].differences
        assert compared.output.startswith(f"Error: {run}: no round is complete")
    check_text(compared.output)
    assert invoke("compare", run, plain).exit_code == compared.exit_code


def as_real(record: RunRecord, summary: Summary, own: Summary, shared: Summary) -> tuple[RunRecord, Summary]:
    """Return a run as if it was real, with simulations of a dedicated switch and of the run's machine."""
    changes = [each.loads["0.5"].differences.get("offload", {}) for each in (own, shared)]
    capacities = own.capacity, shared.capacity
    virtual = Virtual(
        load="0.5", own=changes[0], shared=changes[1], own_capacity=capacities[0],
        shared_capacity=capacities[1], network={"switch_us": 1.0, "switch_mpps": 1_000.0},
    )  # fmt: skip
    changed: dict[str, Any] = {"virtual": virtual, "virtual_s": None, "cpus": 2}
    return record.model_copy(update={"simulation": None}), summary.model_copy(update=changed)


def check_prediction(run: Path, own: Summary, shared: Summary) -> None:
    """Simulations of a dedicated switch (`own`) and of the run's machine (`shared`) had these results."""
    real, summary = as_real(*summary_of(run), own, shared)
    predicted = predict(summary)
    for claim in [] if predicted is None else predicted.claims.values():
        low, high = claim.change.ratio_low, claim.change.ratio_high
        assert low is None or high is None or -1 <= low <= high < math.inf
    for answer_text in answers(summary):
        check_text(" ".join([answer_text.title, answer_text.headline, *answer_text.texts()]))
    shown = result(real, summary)
    # Each row that is not claimed has its reason, in a line of the terminal.
    unclaimed = {row.title for row in shown.rows for effect in row.effects if not effect.verdict.sign}
    assert all(any(title in line for line in shown.row_reasons) for title in unclaimed)
    output = io.StringIO()
    print_result(real, summary, run / "report.html", output)
    check_text(output.getvalue())
    assert all(len(line) <= RESULT_WIDTH for line in output.getvalue().splitlines() if "/" not in line)


@pytest.mark.soak
@pytest.mark.parametrize("name", MEMBERS)
def test_the_figures_of_a_degenerate_run_are_written(name: str, runs: Runs, tmp_path: Path) -> None:
    output_of("figures", runs[name], runs["plain"], "-o", tmp_path)
    assert {file.suffix for file in tmp_path.iterdir()} == {".pdf", ".png", ".csv"}
