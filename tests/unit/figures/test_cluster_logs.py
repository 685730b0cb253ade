"""Test logs of a real cluster: accepted formats, and the message for the first wrong row."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest
from click.testing import Result

from foundation.logs.cluster import RPC
from switch_harness.wording import says, says_in_one_line
from tests.harness.cli import invoke
from tests.unit.figures.cluster import ROW, rows

GOOD = rows({}, {"op": "push", "worker": 2, "t_send_us": 5})


def report(folder: Path, *options: str) -> Result:
    return invoke("report", "--logs", folder, *options)


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "theirs"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_report_of_a_clusters_logs(logs: Path, suffix: str) -> None:
    updates = pl.DataFrame({"key": [1, 2], "updates": [3, 1]})
    for name, frame in (("rpc", GOOD), ("updates", updates)):
        getattr(frame, f"write_{suffix}")(logs / f"{name}.{suffix}")
    result = report(logs)
    assert result.exit_code == 0, result.output
    assert says(result.stdout, "report", "report.html")
    page = Path("report.html").read_text()
    assert "<h1>RPCs of theirs</h1>" in page and "2 in 0.0 s" in page and "2 workers" in page
    assert "Verdict" not in page and 'id="fig-10"' in page
    # Nothing is left beside what was read.
    assert sorted(path.name for path in logs.iterdir()) == [f"rpc.{suffix}", f"updates.{suffix}"]


def test_findings_of_a_cluster_are_printed_as_json(logs: Path) -> None:
    GOOD.write_csv(logs / "rpc.csv")
    result = report(logs, "--json", "-o", "page.html")
    reported = json.loads(result.stdout)
    assert reported["report"] == "page.html" and Path("page.html").exists()
    assert reported["findings"]["mean request: pull, push"] == {"paper": "100–200 B", "here": "100 B, 100 B"}


def test_arms_and_names_of_the_cluster(logs: Path) -> None:
    arms = pl.Series(["before", "before", "after", "after"])
    named = pl.concat([GOOD, GOOD]).with_columns(arm=arms, worker=pl.lit("rack-7/w3"))
    named.write_parquet(logs / "rpc.parquet")
    reported = json.loads(report(logs, "--json").stdout)
    assert reported["findings"]["mean request: pull, push"].keys() == {"paper", "here, after", "here, before"}


@pytest.mark.parametrize(
    ("column", "value", "fault"),
    [
        ("ps_proc_us", "abc", "'abc'; a time in µs from 0 expected"),
        ("n_tx_us", "-1.5", "'-1.5'; a time in µs from 0 expected"),
        ("w_queue_us", "inf", "'inf'; a time in µs from 0 expected"),
        ("w_proc_us", "", "empty; a time in µs from 0 expected"),
        ("op", "get", "'get'; pull or push expected"),
        ("request_bytes", "1e3", "'1e3'; a whole number of bytes from 0 expected"),
        ("t_send_us", "0.5", "'0.5'; a whole number of µs from 0 expected"),
        ("iteration", "-1", "'-1'; a whole number of steps from 0 expected"),
        ("worker", "", "empty; a name or a number expected"),
    ],
)
def test_the_first_wrong_row_is_named(logs: Path, column: str, value: str, fault: str) -> None:
    lines = [",".join(ROW), *(",".join(map(str, ROW.values())) for _ in range(3))]
    lines[3] = ",".join(value if name == column else str(of) for name, of in ROW.items())
    (logs / "rpc.csv").write_text("\n".join(lines))
    result = report(logs)
    assert (result.exit_code, result.stdout) == (1, "")
    assert says_in_one_line(result.stderr, "line 4", logs, column, fault)
    assert not Path("report.html").exists()


def test_a_row_of_parquet_is_named_by_its_number(logs: Path) -> None:
    rows({}, {"ps_queue_us": -3.0}).write_parquet(logs / "rpc.parquet")
    assert says_in_one_line(report(logs).stderr, "row 2", "ps_queue_us", "-3.0", 0, logs)


def _of_a_second(per_s: int, latency_us: float = 900.0) -> pl.DataFrame:
    """Return 2,000 RPCs of one worker, one a millisecond, whose times are in units of 1 / `per_s` s."""
    at = [int(1.75e9 * per_s) + number * per_s // 1_000 for number in range(2_000)]
    zeros = {name: 0.0 for name in RPC if name.endswith("_us") and name not in ("t_send_us", "n_tx_us")}
    return rows(*({"t_send_us": us, **zeros, "n_tx_us": latency_us} for us in at))


@pytest.mark.parametrize(
    ("per_s", "latency_us", "unit"),
    [
        (1, 900.0, "t_send_us in s, as its size suggests"),
        (1_000, 900.0, "t_send_us in ms, as its size suggests"),
        (10**9, 900.0, "t_send_us in ns, as its size suggests"),
        (10**6, 0.0009, "an RPC takes 0.0009 µs on average"),
        (10**6, 9e5 * 1_000, "another unit in some"),
    ],
)
def test_times_in_another_unit_are_refused(logs: Path, per_s: int, latency_us: float, unit: str) -> None:
    _of_a_second(per_s, latency_us).write_parquet(logs / "rpc.parquet")
    result = report(logs)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert unit in result.stderr and "expected" in result.stderr and f"{logs}/rpc.parquet" in result.stderr


def test_times_in_microseconds_are_taken(logs: Path) -> None:
    """A hundred RPCs outstanding are many, and possible."""
    _of_a_second(10**6, 90_000.0).write_parquet(logs / "rpc.parquet")
    assert report(logs).exit_code == 0


def test_a_missing_folder_log_or_column_is_named(logs: Path, tmp_path: Path) -> None:
    nowhere = report(tmp_path / "nowhere").stderr
    assert nowhere == (
        f"Error: --logs {tmp_path}/nowhere: expected a folder with rpc.csv or rpc.parquet, got no folder\n"
    )
    assert says_in_one_line(report(logs).stderr, "rpc.parquet", "rpc.csv", "RPC", logs)
    GOOD.drop("ps", "n_tx_us").write_csv(logs / "rpc.csv")
    assert says_in_one_line(report(logs).stderr, "n_tx_us", logs, ", ".join(RPC))
    GOOD.clear().write_csv(logs / "rpc.csv")
    assert says_in_one_line(report(logs).stderr, f"{logs}/rpc.csv", "row")
    (logs / "rpc.csv").write_bytes(b"\x00\x01")
    assert says(report(logs).stderr, "Parquet", "text")
    GOOD.write_csv(logs / "rpc.csv")
    (logs / "connections.csv").write_text("time_us,ps\n1,2\n")
    assert says(report(logs).stderr, "connections.csv", "column")
    (logs / "connections.csv").unlink()
    (logs / "updates.csv").write_text("key\n1\n")
    assert says(report(logs).stderr, "iteration", "updates")


def test_a_run_and_logs_do_not_go_together(logs: Path) -> None:
    both = invoke("report", "runs/latest", "--logs", logs)
    expected = f"expected RUN or --logs, got RUN (runs/latest) and --logs ({logs})"
    assert both.exit_code == 2 and expected in both.stderr
    without = invoke("report", "-o", "page.html")
    assert without.exit_code == 2 and says(without.stderr, "--output", "page.html", "--logs")


def test_the_documented_columns_of_a_cluster_are_the_required_columns() -> None:
    text = (Path(__file__).parents[3] / "docs" / "logs.md").read_text()
    section = text[text.index("## Logs of a real cluster") :]
    named = re.findall(r"^\| `([^|]+)` \|", section, re.MULTILINE)
    assert [name for names in named for name in names.split("`, `")] == [*RPC, "arm"]
