"""The paper's report from finished runs: every stage's numbers, Fig. 9's table, the map, and the files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from analysis.claims import claims
from analysis.record import read_record
from analysis.report import write_report
from foundation.logs.access.block import ReadOptions
from hotline_paper import map as maps
from hotline_paper import plan, stages
from hotline_paper.__main__ import main
from hotline_paper.connections.figure import delay_against_connections
from hotline_paper.costs import METRICS, read_measured
from hotline_paper.map import draw_map, marker_of
from hotline_paper.numbers import CHANGE_METRICS, MapNumbers, MapPlace, numbers_of
from hotline_paper.plan import Stage
from hotline_paper.report import slopes, write_map, write_paper
from hotline_paper.stages import result_path
from packages.paper.tests.unit.test_connections import measured
from packages.paper.tests.unit.test_map import packed
from tests.unit.golden.run import GoldenRun

STAGES = [
    Stage("r1", 1),
    Stage("connections", 1, is_run=False),
    *(Stage(f"map-skew-{skew:g}-keys-500", 1) for skew in (0.2, 0.4, 0.6)),
    *(Stage(f"top-k-{k}", 1) for k in (10, 18)),
    *(Stage(f"scale-{workers}-2", 1) for workers in (2, 3)),
]


@pytest.fixture(scope="module")
def folder(golden: GoldenRun, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make the folder of finished stages, to which tests add: the golden run with other settings each."""
    made = tmp_path_factory.mktemp("paper")
    _make_stages(golden, made)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(maps, "pack_shape", lambda skew, keys, servers: packed(skew, keys))
        yield made


def _make_stages(golden: GoldenRun, folder: Path) -> None:
    write_report(golden.folder, golden.record, golden.summary)
    for stage in STAGES:
        target = result_path(stage, folder)
        target.parent.mkdir(parents=True)
        if not stage.is_run:
            measured(6).write_parquet(target)
            continue
        shutil.copytree(golden.folder, target)
        record = read_record(target)
        kind, *numbers = stage.name.split("-")
        if kind == "map":
            record.config["workload"] = {"hot_share": float(numbers[1]), "keys_per_step": 500}
        elif kind == "top":
            record.config["top_k"] = int(numbers[1])
        elif kind == "scale":
            record.config["workers"] = int(numbers[0])
        record.write(target)


def test_the_report_has_every_figure_and_table_and_the_verdicts_of_the_answer(folder: Path) -> None:
    """Every run is the golden one, so the effect of offload is the same for 2 and 3 workers."""
    steps: list[str] = []
    report = write_paper(STAGES, folder, [], steps.append)
    assert steps == ["figures of the logs", "map", "files"]
    page = report.read_text()
    names = [
        "fig-04", "fig-04-class", "fig-05", "fig-06", "fig-07a", "fig-07b", "fig-08", "fig-09", "fig-10",
        "completion", "map", "map-workers", "sec-3-2", "sweep-keys", "sweep-skew", "sweep-top-k",
        "sweep-workers",
    ]  # fmt: skip
    assert [page.index(f'<section class="plot" id="{name}"') for name in names] == sorted(
        page.index(f'<section class="plot" id="{name}"') for name in names
    )
    written = {path.name for path in (folder / "figures").iterdir()}
    assert written == {f"{name}.{suffix}" for name in names for suffix in ("pdf", "png", "csv")}
    # Arm offload against baseline, of each run.
    for stage in STAGES:
        assert (f'scope="row">{stage.name}</th>' in page) == stage.is_run
    assert "-24 [-25, -21]" in page and "86,400 sent, 4 lost" in page
    rows = pl.read_csv(folder / "figures" / "map-workers.csv")
    assert {name: rows.filter(panel=name)["y"].round(2).to_list() for name in rows["panel"].unique()} == {
        "packets to the servers": [0.02, 0.02],
        "servers' CPU": [-0.24, -0.24],
        "workers' CPU": [0.22, 0.22],
        "time of a pull": [-0.18, -0.18],
        "time of a push": [-0.34, -0.34],
    }


def test_fig_9s_table_has_slopes_with_intervals(folder: Path) -> None:
    found = slopes(delay_against_connections(result_path(STAGES[1], folder)))
    half, nothing = "500.0 [500.0, 500.0]", "0.0 [0.0, 0.0]"
    # Arms baseline and proxy, all and few calling; offload and offload-proxy.
    assert found.texts() == [
        ["scan", half, half, nothing, nothing, half, nothing],
        *([way, *[nothing] * 6] for way in ("poll", "epoll", "shared")),
    ]


@pytest.mark.soak
def test_a_users_log_is_marked_on_the_map(folder: Path) -> None:
    log = folder / "updates.csv"
    rows = [f"{step},1,{key}" for step in range(50) for key in (1, 2, 100 + step, 200 + step)]
    log.write_text("\n".join(["iteration,worker,key", *rows]))
    own = marker_of(log, ReadOptions(), lambda note: None)
    # 102 keys, of which the top 2 take 100 of 200 updates.
    assert (own.name, own.skew, own.keys) == ("updates.csv", 0.5, 4)
    runs = [stage for stage in STAGES if stage.name.startswith(("map-", "scale-"))]
    found = {stage.name: read_measured(result_path(stage, folder)) for stage in runs}
    mapped, page = write_map(found, folder, [own])
    assert "updates.csv" in page.read_text()
    assert all(f'id="{name}"' in page.read_text() for name in ("map", "map-workers"))
    changes = own.changes(mapped.costs)
    assert list(changes) == list(maps.TITLES)
    assert changes["packets"] == own.packing.server_rpcs_with_offload / own.packing.rpcs - 1
    assert numbers_of(found.values(), mapped, [own]).data == (
        MapPlace(name="updates.csv", skew=0.5, keys_per_step=4, changes=changes),
    )


def test_the_numbers_are_the_runs_and_the_map(
    folder: Path, golden: GoldenRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [stage for stage in STAGES if stage.name.startswith(("map-", "scale-"))]
    monkeypatch.setattr(plan, "map_stages", lambda quick: runs)
    monkeypatch.setattr(stages, "is_done", lambda stage, folder: True)
    main(["map", "--json", "--into", str(folder)], standalone_mode=False)
    numbers = MapNumbers.model_validate_json(capsys.readouterr().out)
    of_map, of_workers = numbers.runs[:3], numbers.runs[3:]
    assert [(run.skew, run.keys_per_step) for run in of_map] == [(skew, 500) for skew in (0.2, 0.4, 0.6)]
    assert [run.workers for run in of_workers] == [2, 3]
    [(load, measured_load), *_] = golden.summary.loads.items()
    measured_change = measured_load.differences["offload"]
    claimed = claims(golden.summary, load, "offload")
    for run in numbers.runs:
        assert run.disturbed_blocks == measured_load.blocks_disturbed
        assert [claimed[CHANGE_METRICS[each]].sign != 0 for each in CHANGE_METRICS] == [
            each in run.claimed for each in CHANGE_METRICS
        ]
        assert run.changes == {
            quantity: measured_change[metric] for quantity, metric in CHANGE_METRICS.items()
        }
    facts = {
        (quantity, f"{each.skew:g}", f"{each.keys_per_step:g}"): change
        for each in numbers.predicted
        for quantity, change in each.changes.items()
    }
    mapped = draw_map([read_measured(result_path(stage, folder)) for stage in runs[:3]], maps.SERVERS)
    assert facts == pytest.approx(mapped.figure.facts)
    assert list(numbers.errors) == list(METRICS)
    for quantity, errors in mapped.errors.items():
        assert numbers.errors[quantity] == pytest.approx(errors)
    assert (folder / "map.html").exists() and (folder / "map.png").exists()
