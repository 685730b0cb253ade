"""The output and files of `hotline hotset curve`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from click.testing import Result

from foundation.protocol.hashing import lane_of
from switch_harness.wording import says, says_in_one_line
from tests.harness.cli import invoke

UPDATES = {1: 60, 2: 15, 3: 15, **dict.fromkeys(range(4, 14), 1)}
"""Key -> updates: 100 in all."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.parquet"
    job, keys = [1] * len(UPDATES), list(UPDATES)
    pl.DataFrame({"job": job, "key": keys, "updates": list(UPDATES.values())}).write_parquet(path)
    return path


def curve(*arguments: object) -> Result:
    return invoke("hotset", "curve", *arguments)


def test_the_curve_is_printed_with_its_knee_and_its_limit(log: Path) -> None:
    result = curve(log)
    assert result.exit_code == 0
    assert [line.rstrip() for line in result.stdout.splitlines()] == [
        f"{log}: 100 updates of 13 keys",
        "keys are scored on the updates that they are chosen from, because counts of updates have no order: "
        "later ones may differ",
        "top-k   share",
        "    1   60.0%  ██████████████████",
        "    2   75.0%  ██████████████████████▌",
        "    3   90.0%  ███████████████████████████     knee, chosen",
        "    5   92.0%  ███████████████████████████▌",
        "   10   97.0%  █████████████████████████████",
        "   13  100.0%  ██████████████████████████████  table limit",
        "in the switch 3 keys take, with rows of 1 value (--dim), 48 bytes of registers and 42 bytes of "
        "table entries",
        "3 keys take 90.0% of the updates: `hotline hotset build --top-k 3`",
    ]


def test_the_curve_as_json_has_shares_knee_and_limit(log: Path) -> None:
    reported = json.loads(curve(log, "--json", "--top-k", 2, "--jobs", 3).stdout)
    points = [{"top_k": k, "share": pytest.approx(share)} for k, share in ((1, 0.6), (2, 0.75), (3, 0.9))]
    assert reported.pop("curve")[:3] == points
    assert reported == {
        "updates": 100,
        "keys": 13,
        "steps": 0,
        "training_steps": 0,
        "scored_updates": 100,
        "jobs": 3,
        "dims": [1],
        "register_bytes": 2 * 16,
        "entry_bytes": 2 * 14,
        "knee": {"top_k": 3, "share": 0.9},
        "limit": {"top_k": 13, "share": 1.0},
        "chosen": {"top_k": 2, "share": 0.75},
    }


def test_the_curve_warns_of_more_keys_than_the_tables_hold(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    one_lane = [key for key in range(200) if lane_of(key) == 7][:3]
    log.write_text("key,updates\n" + "".join(f"{key},1\n" for key in one_lane))
    *_, table, _, advice = curve(log, "--jobs", 2048, "--top-k", 3).output.splitlines()
    assert table.split()[-1] == "chosen"
    assert advice.startswith("3 keys take 100.0%") and says(advice, 2, 2048)
    assert says_in_one_line(
        curve(log, "--jobs", 2048, "--top-k", 2).output.splitlines()[-1], 2, "66.7%", "updates", "--top-k"
    )


@pytest.mark.parametrize(("suffix", "start"), [("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_the_curve_is_drawn_as_pdf_png_and_svg(log: Path, tmp_path: Path, suffix: str, start: bytes) -> None:
    figure = tmp_path / f"curve.{suffix}"
    assert curve(log, "-o", figure).exit_code == 0
    assert figure.read_bytes().startswith(start)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([figure.name, log.name])


def test_the_curve_as_csv_has_its_points(log: Path, tmp_path: Path) -> None:
    assert curve(log, "--top-k", 11, "-o", tmp_path / "curve.csv").exit_code == 0
    points = dict(pl.read_csv(tmp_path / "curve.csv").iter_rows())
    assert (points[1], points[3], points[11], points[13]) == (0.6, 0.9, pytest.approx(0.98), 1.0)


def test_curves_of_a_training_set_and_of_a_compressed_log_are_printed(tmp_path: Path) -> None:
    data = tmp_path / "train.svm"
    data.write_text("1 1:1 5:1\n0 1:2\n1 1:1 7:0.5\n")
    assert curve(data, "--samples-per-step", 2).stdout.startswith(f"{data}: 4 updates of 3 keys\n")
    assert curve(data).stdout.startswith(f"{data}: 3 updates of 3 keys\n")
    packed = tmp_path / "log.csv.gz"
    packed.write_bytes(gzip.compress(b"key,updates\n1,2\n3,4\n"))
    assert curve(packed).stdout.startswith(f"{packed}: 6 updates of 2 keys\n")
    assert curve(packed, packed).stdout.startswith(f"{packed}, {packed}: 12 updates of 2 keys\n")


def test_the_curve_counts_the_updates_of_one_job(log: Path) -> None:
    assert curve(log, "--job", 1).exit_code == 0
    refused = curve(log, "--job", 2)
    assert (refused.exit_code, refused.output) == (1, f"Error: {log}: no update of job 2 in it\n")


def test_wrong_outputs_of_the_curve_are_refused(log: Path, tmp_path: Path) -> None:
    before = log.read_bytes()
    for arguments, message in (
        ((log, "-o", tmp_path / "curve.txt"), f"{tmp_path / 'curve.txt'}: expected a suffix of .csv"),
        ((log, "-o", tmp_path / "curve"), f"{tmp_path / 'curve'}: expected a suffix of .csv"),
        ((log, "-o", tmp_path / "no" / "curve.csv"), f"{tmp_path}/no/curve.csv: cannot be written: No such"),
        ((tmp_path / "gone.csv",), f"{tmp_path}/gone.csv: cannot be read: No such file"),
    ):
        refused = curve(*arguments)
        assert refused.exit_code == 1
        assert refused.output.startswith(f"Error: {message}") and refused.output.count("\n") == 1
    data = tmp_path / "log.csv"
    data.write_text("key,updates\n1,2\n")
    assert says(curve(data, "-o", data).output, "overwrite")
    assert (log.read_bytes(), data.read_text()) == (before, "key,updates\n1,2\n")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log.csv", "log.parquet"]


def test_a_note_says_that_updates_added_by_the_switch_are_left_out(tmp_path: Path) -> None:
    pl.DataFrame({"job": 1, "ps": 0, "key": [5, 6], "updates": [2, 3]}).write_parquet(
        tmp_path / "log.parquet"
    )
    found = curve(tmp_path / "log.parquet")
    assert says_in_one_line(found.stderr, "out", tmp_path / "log.parquet")
