"""`tools.bench.repeat` on made-up summaries, and with fake runs."""

from __future__ import annotations

import io
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tomli
from click import ClickException
from click.testing import CliRunner
from rich.console import Console

from analysis.metrics import answer_metrics
from analysis.report import write_report
from analysis.statistics import Comparison
from analysis.summary import Summary, summarise
from experiment.run_config import Config
from switch_harness.wording import says
from tests.harness import summaries
from tests.unit.analysis.synthetic import make_run
from tools.bench.repeat import (
    SHORT,
    claims_of_null,
    main,
    make_runs,
    missing_claims,
    pairs,
    print_default,
    print_null,
    tallies,
)


def comparison(difference: float, half: float | None, baseline: float = 1000.0) -> Comparison:
    bounds = [] if half is None else [difference - half, difference + half]
    ratios = [each / baseline for each in (difference, *bounds)]
    return summaries.of_ratio(*ratios, reference=baseline)


def a_summary(**arms: dict[str, Comparison]) -> Summary:
    return summaries.a_summary({"0.5": summaries.a_load(differences=arms)})


def null(outside: bool) -> Summary:
    """Return one metric that is outside or not, one without noise, and one without an interval."""
    of_pull = comparison(10 if outside else -3, 5)
    return a_summary(
        repeat={"pull_mean": of_pull, "rpcs_per_step": comparison(0, 0), "step_mean": comparison(1, None)},
        offload={"pull_mean": comparison(500, 5)},
    )


def repeats(outside: int, metric: str, *others: str) -> list[Summary]:
    """Return 20 runs; in `outside` of them the interval of `metric` leaves out 0."""
    inside = dict.fromkeys(others, comparison(0, 5))
    return [
        a_summary(repeat={metric: comparison(10 if number < outside else 0, 5), **inside})
        for number in range(20)
    ]


def printed(printer: Any, summaries: list[Summary]) -> tuple[bool, str]:
    output = io.StringIO()
    return printer(summaries, Console(file=output, width=130)), output.getvalue()


def test_null_intervals_are_counted_by_load_and_metric() -> None:
    assert tallies([null(True), null(False), null(False)]) == [("0.5", "pull_mean", 3, 1)]


@pytest.mark.parametrize(("outside", "met"), [(0, False), (1, True), (2, False), (5, False)])
def test_neither_too_many_nor_too_few_null_intervals_leave_out_0(outside: int, met: bool) -> None:
    """Of 20 intervals 5 % should leave out 0; 2 % to 8 % are allowed."""
    is_met, text = printed(print_null, [null(number < outside) for number in range(20)])
    assert is_met is met
    assert f"pull_mean {outside} of 20" in " ".join(text.split())
    assert says(text, 20, 0, "2%", "8%", outside, f"{outside / 20:.1%}")


def test_a_metrics_interval_may_exclude_0_in_at_most_a_fifth_of_the_runs() -> None:
    metrics = [each.name for each in answer_metrics() if each.name not in ("push_mean", "loss")]
    assert printed(print_null, repeats(4, "push_mean", *metrics))[0]
    is_met, text = printed(print_null, repeats(5, "push_mean", *metrics))
    assert not is_met
    assert says(text, 5, 160, 0, "3.1%")
    assert says(text, "25%", "20%")


def test_runs_without_intervals_show_nothing() -> None:
    assert printed(print_null, [a_summary(repeat={"pull_mean": comparison(1, None)})])[0] is False


def message(runs: list[Summary]) -> list[tuple[str, int, int]]:
    return [(each.metric, each.sentences, each.claimed) for each in claims_of_null(runs)]


def test_false_claims_about_the_repeat_are_counted_by_metric() -> None:
    """Equal RPC counts make a sentence, too; the mean of steps is not in the answer."""
    assert message([null(True), null(False)]) == [("pull_mean", 2, 1), ("rpcs_per_step", 2, 0)]
    learnt = null(False).model_copy(update={"learning": {"repeat": comparison(50, 20)}})
    assert message([learnt])[-1] == ("loss", 1, 1)


def test_at_most_8_of_100_sentences_may_claim_a_difference() -> None:
    """The answer mentions three of the four metrics."""
    metrics = "pull_mean", "push_mean", "ps_cpu_us_per_step", "step_mean"
    is_met, text = printed(print_null, repeats(4, *metrics))
    assert is_met
    assert says(text, 4, 60, "difference", "6.7%", "8%", "wanted")
    is_met, text = printed(print_null, repeats(5, *metrics))
    assert not is_met
    assert says(text, 5, 80, 0, "6.2%", "2%", "8%", "25%")
    assert says(text, 5, 60, "difference", "8.3%", "8%", "wanted")


SAVED = {"ps_packets_per_step": comparison(-480, 1), "ps_cpu_us_per_step": comparison(-330, 30)}


def test_differences_with_tight_intervals_have_to_be_claimed_by_every_run() -> None:
    [one] = runs_with((-100.0, 10.0))
    assert missing_claims(one) == []
    cpu = {**SAVED, "ps_cpu_us_per_step": comparison(-330, 340)}
    silent = a_summary(offload={**of_operations(-100.0, 10.0), **cpu})
    assert missing_claims(silent) == ["PS CPU a step"]
    more = a_summary(offload={**SAVED, "ps_packets_per_step": comparison(480, 1)})
    assert missing_claims(more) == ["packets to PS a step"]
    assert missing_claims(a_summary(offload={})) == ["packets to PS a step", "PS CPU a step"]
    is_met, text = printed(print_default, [one, one, silent])
    assert not is_met
    reported = " ".join(text.split())
    [claim] = re.findall(r"2 of 3 runs claim .*?missed", reported)
    less = ("packets to PS a step", "PS CPU a step", "less with offload", "run 3: PS CPU a step")
    assert all(each in claim for each in less)
    is_met, text = printed(print_default, [one, one])
    assert is_met and says(text, 2, "claim")


def of_operations(pull: float, half: float) -> dict[str, Comparison]:
    return {"pull_mean": comparison(pull, half), "push_mean": comparison(-200, 30)}


def runs_with(*pulls: tuple[float, float]) -> list[Summary]:
    return [a_summary(offload={**of_operations(*pull), **SAVED}) for pull in pulls]


def test_two_runs_agree_within_their_half_widths_together() -> None:
    found = list(pairs(runs_with((-100, 30), (-150, 40), (-151, 40))))
    assert [(pair.runs, pair.op, pair.agrees) for pair in found] == [
        ((1, 2), "pull", True),
        ((1, 2), "push", True),
        ((1, 3), "pull", False),
        ((1, 3), "push", True),
        ((2, 3), "pull", True),
        ((2, 3), "push", True),
    ]
    assert (found[0].distance, found[0].joint_half_width) == pytest.approx((50, 50))


def test_shares_of_the_baseline_are_compared_as_well() -> None:
    one, other = (a_summary(offload={"pull_mean": comparison(-100, 1, base)}) for base in (1000.0, 500.0))
    [in_us], [in_shares] = pairs([one, other]), pairs([one, other], relative=True)
    assert in_us.agrees and not in_shares.agrees
    assert in_shares.distance == pytest.approx(0.1)


def test_34_of_40_comparisons_have_to_agree() -> None:
    """One of five runs differs in pulls: 4 of 20 comparisons, and 3 are allowed."""
    is_met, text = printed(print_default, runs_with(*[(-100.0, 10.0)] * 5))
    assert is_met
    assert says(text, "µs", 20, 17, "wanted")
    assert says(text, "-100", "-10.0%", "±1.0%")
    is_met, text = printed(print_default, runs_with(*[(-100.0, 10.0)] * 4, (-200.0, 10.0)))
    assert not is_met
    assert says(text, 16, 20, 17, "wanted")


def test_runs_are_made_in_sequence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command[3:])
        folder = tmp_path / "made" / f"run-{len(commands)}"
        folder.mkdir()
        (tmp_path / "made" / "latest").unlink(missing_ok=True)
        (tmp_path / "made" / "latest").symlink_to(folder.name)
        return subprocess.CompletedProcess(command, 1 if len(commands) == 4 else 0)

    monkeypatch.setattr("tools.bench.repeat.subprocess.run", run)
    made = list(make_runs(2, SHORT, tmp_path / "made", with_seeds=True))
    assert [folder.name for folder in made] == ["run-1", "run-2"]
    config = tmp_path / "made" / "run.toml"
    assert commands == [["run", f"CONFIG={config}", f"SEED={seed}"] for seed in (1, 2)]
    values = tomli.loads(config.read_text())
    assert Config.model_validate(values).runs == tmp_path / "made"
    with pytest.raises(ClickException, match=r"^run 2 of 3 failed"):
        list(make_runs(3, {}, tmp_path / "made", with_seeds=False))
    assert commands[2:] == [["run", f"CONFIG={config}"]] * 2


def test_the_command_compares_run_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.report.figures", lambda sources, progress: [])
    made = make_run(tmp_path / "run")
    for block in made.record.blocks:
        if block.arm == "offload":
            block.servers.packets, block.servers.cpu_s = 200, 0.1
    write_report(made.folder, made.record, summarise(made.folder, made.record))
    compared = CliRunner().invoke(main, ["default", str(made.folder), str(made.folder)])
    assert (compared.exit_code, "4 of 4 comparisons" in compared.output) == (0, True)
    assert says(compared.output, "run", 6, 0)
    missing = CliRunner().invoke(main, ["null", str(tmp_path)])
    assert missing.exit_code == 1 and "has no summary.json" in missing.output
