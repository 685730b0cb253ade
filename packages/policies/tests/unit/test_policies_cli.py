"""`hotline policies`: its output and files, its cache, the input it refuses, and its page in a browser."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import polars as pl
import pytest

from hotline_policies import study as studies
from hotline_policies.findings import findings, headline
from hotline_policies.replay import replay as real_replay
from hotline_policies.result import study
from hotline_policies.rules import BY_NAME
from hotline_policies.settings import WRITES_PER_S, StudySettings
from hotline_policies.table import cells
from packages.policies.tests.unit.conftest import write_log
from switch_harness.damage import damage
from switch_harness.wording import says
from tests.harness.browser import browser, opened
from tests.harness.cli import invoke, json_of
from tools.evidence.result import published_table

SIZES = "5,10,50"
PACKAGE = Path(__file__).parents[2]


policies = partial(invoke, "policies")
studied = partial(json_of, "policies")


def share(report: dict[str, Any], policy: str, size: int) -> float:
    found = next(each for each in report["outcomes"] if (each["policy"], each["size"]) == (policy, size))
    return float(found["hits"] / found["updates"])


@pytest.fixture(scope="module")
def whole_study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Compare all policies, with the page and its figures; return the output's folder and the report."""
    folder = tmp_path_factory.mktemp("whole")
    into = folder / "out"
    return into, studied(write_log(folder), "--sizes", SIZES, "--period-s", 0.04, "--into", into)


def test_a_study_has_outcomes_of_all_policies_and_sizes_and_a_report(
    whole_study: tuple[Path, dict[str, Any]],
) -> None:
    into, report = whole_study
    assert {(each["policy"], each["size"]) for each in report["outcomes"]} == {
        (name, size) for name in BY_NAME for size in (5, 10, 50)
    }
    assert report["facts"]["updates"] == 100 * 20 and report["facts"]["period"] == 10
    # The ten hot keys have a quarter of all updates in the first half of what is scored, and then none.
    assert share(report, "top-k", 10) == pytest.approx(0.125, abs=0.02)
    assert share(report, "window", 10) > share(report, "top-k", 10) + 0.03
    assert share(report, "random", 10) < 0.06
    assert all(share(report, name, 10) <= share(report, "belady", 10) for name in BY_NAME)
    written = sorted(str(file.relative_to(into)) for file in into.rglob("*") if "parts" not in str(file))
    assert written == sorted(
        [
            "facts.json", "figures", "report.html", "study.json", "table.csv", "table.pdf",
            *(f"figures/policies-{name}.{form}" for name in ("updates", "moves", "time")
              for form in ("csv", "pdf", "png")),
        ]
    )  # fmt: skip
    table = pl.read_csv(into / "table.csv")
    row = table.filter((pl.col("policy") == "lru") & (pl.col("size") == 50)).row(0, named=True)
    lru = next(each for each in report["outcomes"] if (each["policy"], each["size"]) == ("lru", 50))
    assert row["hit_share"] == pytest.approx(lru["hits"] / 2_000)
    assert row["moves_per_thousand_updates"] == pytest.approx((lru["installs"] + lru["evictions"]) / 2)
    assert row["moves_per_s"] == pytest.approx((lru["installs"] + lru["evictions"]) / (100 / 250))
    assert (into / "table.pdf").read_bytes().startswith(b"%PDF")
    curve = pl.read_csv(into / "figures" / "policies-updates.csv").filter(pl.col("series") == "LRU")
    assert curve["y"].to_list() == pytest.approx([share(report, "lru", size) for size in (5, 10, 50)])


@pytest.mark.usefixtures("no_page")
def test_the_terminal_has_a_line_for_each_policy_with_its_shares(log: Path, tmp_path: Path) -> None:
    asked = (log, "--sizes", SIZES, "--into", tmp_path / "out", "--only", "top-k,lru,belady,random")
    result = policies(*asked)
    assert result.exit_code == 0
    report = studied(*asked)
    for name in ("belady", "top-k", "lru", "random"):
        line = next(line for line in result.output.splitlines() if line.startswith(BY_NAME[name].title))
        assert f"{share(report, name, 50):.1%}" in line
    assert "window" not in result.output
    assert f"LRU misses {1 - share(report, 'lru', 50):.1%}" in result.output
    assert result.output.splitlines()[-1] == f"report: {tmp_path / 'out' / 'report.html'}"


@pytest.mark.usefixtures("no_page")
def test_damaged_parts_of_a_study_are_computed_again(log: Path, tmp_path: Path) -> None:
    asked = (log, "--sizes", 10, "--only", "lru,top-k", "--into", tmp_path / "out")
    first = studied(*asked)
    files = [tmp_path / "out" / "facts.json", *sorted((tmp_path / "out" / "parts").iterdir())]
    assert len(files) == 3
    for way in ("empty", "a bit in the middle", "another file's content"):
        contents = [file.read_bytes() for file in files]
        for file, other in zip(files, [*contents[1:], contents[0]], strict=True):
            damage(file, way, other)
        again = studied(*asked)
        assert again["facts"] == first["facts"], way
        for policy in ("lru", "top-k"):
            assert share(again, policy, 10) == share(first, policy, 10), way
        contents = [file.read_bytes() for file in files]
        studied(*asked)
        assert [file.read_bytes() for file in files] == contents, way


@pytest.mark.usefixtures("no_page")
def test_the_answer_names_a_policy_that_is_better_than_a_fixed_set(log: Path, tmp_path: Path) -> None:
    asked = (log, "--sizes", 10, "--period-s", 0.04, "--only", "top-k,window")
    drifts = policies(*asked, "--into", tmp_path / "a")
    assert says(drifts.output, "here", "choice")
    slow = policies(*asked, "--into", tmp_path / "b", "--writes-per-s", 1)
    assert "wrong choice" not in slow.output and "too slow" in slow.output


@pytest.mark.usefixtures("no_page")
@pytest.mark.parametrize(("scored", "is_bound"), [(7, True), (100, True), (101, False)])
def test_a_policy_that_knows_all_scored_mini_batches_is_no_alternative(
    tmp_path: Path, scored: int, is_bound: bool
) -> None:
    """look-ahead knows the next 100 mini-batches; keys drift, so that it has more hits than top-k."""
    lines = [f"{step},1,{step // 3 + key}" for step in range(2 * scored) for key in range(9)]
    (tmp_path / "log.csv").write_text("\n".join(["iteration,worker,key", *lines]) + "\n")
    found = study(
        tmp_path / "log.csv", sizes=(5,), policies=("look-ahead", "top-k"), into=tmp_path / "policies"
    )
    top_k, look_ahead = sorted(found.outcomes, key=lambda each: each.share)
    assert (found.facts.scored_steps, look_ahead.policy) == (scored, "look-ahead")
    assert look_ahead.is_bound is is_bound
    assert ("look-ahead" in headline(found).lower()) is not is_bound
    [reason, *_] = findings(found)
    assert says(reason, "100", f"{scored}", "bound") is is_bound
    assert any("right choice" in each for each in findings(found)) is is_bound
    assert cells(found, top_k)[-1] == "follows" and (cells(found, look_ahead)[-1] == "–") is is_bound


def test_a_switch_that_holds_all_keys_needs_no_policy(log: Path, tmp_path: Path) -> None:
    """The log has 320 keys, and a set of all from its first half misses those that come later."""
    asked = (log, "--only", "top-k,lru,first-come")
    result = policies(*asked, "--sizes", 400, "--into", tmp_path / "out")
    report = studied(*asked, "--sizes", 400, "--into", tmp_path / "out")
    keys = report["facts"]["keys"]
    top = next(each for each in report["outcomes"] if each["policy"] == "top-k")
    assert keys < 400 and "wrong choice" not in result.output and "right choice" not in result.output
    assert says(result.output, 400, keys)
    assert f"Load all {keys} keys: the {top['updates'] - top['hits']} updates" in result.output
    assert "fit into" not in policies(*asked, "--sizes", keys - 1, "--into", tmp_path / "b").output


@pytest.mark.usefixtures("no_page")
def test_a_period_has_two_steps_and_a_shorter_period_is_explained(tmp_path: Path) -> None:
    """In a period of one step, whose keys are distinct, *first come* has no hit by construction."""
    log = tmp_path / "log.csv"
    rows = [f"{step},1,{key}" for step in range(12) for key in range(8)]
    log.write_text("iteration,worker,key\n" + "\n".join(rows) + "\n")
    asked = (log, "--sizes", 64, "--only", "first-come")
    report = studied(*asked, "--into", tmp_path / "a")
    assert report["facts"]["period"] == 2 and share(report, "first-come", 64) > 0.3
    one = policies(*asked, "--period-s", 0.004, "--into", tmp_path / "b").output
    assert "A period is one step" in one and "0.0%" in one


def test_pulls_have_a_separate_share(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    of_a_step = "{0},1,pull,1\n{0},1,pull,{1}\n{0},1,push,1"
    rows = [of_a_step.format(step, 2 + step) for step in range(20)]
    log.write_text("iteration,worker,op,key\n" + "\n".join(rows) + "\n")
    report = studied(log, "--sizes", "1", "--only", "top-k", "--into", tmp_path / "out")
    (found,) = report["outcomes"]
    assert [found[name] for name in ("updates", "hits", "pulls", "pull_hits")] == [10, 10, 20, 10]
    assert (tmp_path / "out" / "figures" / "policies-pulls.csv").exists()


@pytest.mark.usefixtures("no_page")
def test_finished_work_is_not_repeated(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C behind two policies only the others are computed, and all of them when the log changes."""
    done, over = list[str](), Event()

    def replay(log: Any, spec: Any, sizes: Any, *rest: Any) -> Any:
        if len(done) == 2 and spec.name != "lru":
            os.kill(os.getpid(), signal.SIGINT)
            over.wait()
            raise KeyboardInterrupt
        done.append(spec.name)
        return real_replay(log, spec, sizes, *rest)

    arguments = (log, "--sizes", "5", "--only", "belady,top-k,lru", "--into", tmp_path / "out")
    monkeypatch.setattr(studies, "replay", replay)
    interrupted = policies(log, "--sizes", "5", "--only", "belady,top-k,lfu", "--into", tmp_path / "out")
    assert interrupted.exit_code == 130
    assert done == ["belady", "top-k"]
    assert not list((tmp_path / "out").glob("log-*"))  # a log's arrays go with the command
    over.set()
    assert policies(*arguments).exit_code == 0
    assert done == ["belady", "top-k", "lru"]
    with monkeypatch.context() as patched:
        patched.setattr(studies, "prepare", None)
        first = policies(*arguments, "--json").stdout
    assert done == ["belady", "top-k", "lru"]
    pl.read_parquet(log).filter(pl.col("iteration") < 190).write_parquet(log)
    assert policies(*arguments, "--json").stdout != first
    assert done[3:] == ["belady", "top-k", "lru"]


def test_the_default_rate_of_writes_is_the_published_rate() -> None:
    """The rate is that of a hot set in the kernel, as published."""
    kernel = published_table("performance").text_of("hot set written over gRPC, thousand/s", "kernel")
    assert float(kernel) * 1_000 == WRITES_PER_S
    rate = f"{WRITES_PER_S:,.0f}"
    assert says((PACKAGE / "README.md").read_text(), "softswitch", rate)
    assert StudySettings().writes_per_s == WRITES_PER_S


def test_a_generated_log_is_studied_before_and_after_its_shift(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    given = ("--built-in", "r1", "--steps", 40, "--shift", "--sizes", "20000", "--only", "belady,top-k,lru")
    report = studied(*given, "--into", tmp_path / "out")
    assert report["facts"]["steps"] == 40 and report["facts"]["shift_at"] == 30
    assert share(report, "top-k", 20_000) > 0.2
    after = {each["policy"]: each["follows_after"] for each in report["outcomes"]}
    assert after["top-k"] is None and 0 < after["belady"] < 10
    for each in report["outcomes"]:
        by_step = each["over_time"]  # of 20 steps, the shift in their middle
        goal = 0.95 * sum(by_step[:10]) / 10
        assert after[each["policy"]] == next((at for at in range(10) if by_step[10 + at] >= goal), None)
        without = report["facts"]["without"]["to_servers"]
        assert each["spared"] == pytest.approx(1 - each["packed"]["to_servers"] / without)
        hit = each["hits"] / each["updates"]
        assert hit - 0.04 < each["spared"] < hit
    request.getfixturevalue("no_page")  # the same page as before
    lines = policies(*given, "--into", tmp_path / "out").output.splitlines()
    (top,) = (line.split() for line in lines if line.startswith("top-k "))
    (lru,) = (line.split() for line in lines if line.startswith("LRU "))
    assert (top[-2:], lru[-1]) == (["over", "10"], str(after["lru"]))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "give LOG or DATA files, or else --built-in"),
        (("LOG", "--built-in", "r1"), 2, "not both"),
        (("LOG", "--half-life", "5"), 2, "give --built-in, too"),
        (("LOG", "--sizes", "5,x"), 2, "'x' is not a valid integer"),
        (("LOG", "--sizes", "0"), 2, "0 is not in the range 1<=x<=131072"),
        (("LOG", "--sizes", "131073"), 2, "131073 is not in the range 1<=x<=131072"),
        (("LOG", "--only", "lru,mru"), 1, "'mru' is no policy; expected one of belady, look-ahead, top-k"),
        (("LOG", "--only", ""), 1, "'' is no policy"),
        (("LOG", "--train-share", "1"), 2, "0<x<1"),
        (("LOG", "--rate", "nan"), 2, "'nan' is not a finite number"),
        (("gone.csv",), 1, "gone.csv: cannot be read: No such file"),
    ],
)
def test_wrong_options_are_refused_and_write_no_output(
    log: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    given = [str(log) if argument == "LOG" else argument for argument in arguments]
    result = policies(*given, "--into", tmp_path / "out")
    assert (result.exit_code, message in " ".join(result.output.split())) == (code, True), result.output
    assert not (tmp_path / "out").exists()


def test_a_bad_log_leaves_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("iteration,worker,key\n1,1,2\n1,1,minus\n")
    result = policies(log, "--into", tmp_path / "out")
    assert result.exit_code == 1
    problem = f"Error: {log}, line 3: column key is 'minus'; expected an integer from 0 to 2^64 - 2 ("
    assert result.output.startswith(problem) and result.output.count("\n") == 1
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (390, "light"),
        *(pytest.param(*each, marks=pytest.mark.soak) for each in ((1280, "dark"), (390, "dark"))),
    ],
)
def test_nothing_is_cut_off_and_no_script_fails(
    whole_study: tuple[Path, dict[str, Any]], width: int, scheme: str
) -> None:
    into, _ = whole_study
    with (
        browser() as started,
        opened(started, into / "report.html", width, scheme) as (shown, errors),
    ):
        shown.evaluate("dispatchEvent(new Event('beforeprint'))")
        shown.wait_for_function(
            "document.querySelectorAll('.panel').length == 3 && "
            "[...document.querySelectorAll('.panel')].every(of => of.querySelector('.main-svg'))"
        )
        assert errors == []
        wider = shown.evaluate(
            "[...document.querySelectorAll('body, body *:not(script)')].filter(element => "
            "element.getBoundingClientRect().right > innerWidth + 1 "
            "&& !element.closest('.panels')).length"
        )
        assert wider == 0
        assert shown.locator("tbody tr").first.is_visible()
