"""Answers from costs that were measured on a busy machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.disturbed_blocks import SECOND, DisturbedBlocks
from hotline_answers import result
from hotline_answers.cluster_answer.ask import ClusterAnswer
from hotline_answers.cluster_answer.cluster import Cluster
from hotline_answers.hosts_file import hosts_text
from hotline_simulator.config import load_hosts
from hotline_simulator.costs import HostCosts
from switch_harness.wording import says

QUIET = DisturbedBlocks(blocks=60, disturbed=0, reasons={}, kind=SECOND)
FEW = DisturbedBlocks(blocks=60, disturbed=12, reasons={"steal": 9, "run queue": 4}, kind=SECOND, taken=0.03)
MANY = DisturbedBlocks(blocks=60, disturbed=13, reasons={"others' CPU": 13}, kind=SECOND, taken=0.4)


def answer_with(
    sources: tuple[DisturbedBlocks, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> result.Answer:
    """Return the answer for a cluster whose costs have these sources, without a simulation."""

    def answer_cluster(cluster: Cluster, reporter: object) -> ClusterAnswer:
        said: dict[str, Any] = {"headline": "1.5 times", "sentences": ("Servers save.",), "rows": "With rows"}
        return ClusterAnswer.model_construct(cluster=cluster, **said)

    monkeypatch.setattr(result, "answer_cluster", answer_cluster)
    hosts = None if sources is None else HostCosts(sources=sources)
    return result.answer(workers=4, servers=2, hosts=hosts)


@pytest.mark.parametrize("sources", [None, (), (QUIET,)])
def test_costs_of_a_quiet_machine_change_nothing(
    sources: tuple[DisturbedBlocks, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = answer_with(sources, monkeypatch)
    assert (found.headline, found.sentences, found.rows) == ("1.5 times", ("Servers save.",), "With rows")


def test_costs_of_few_disturbed_seconds_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer_with((QUIET, FEW), monkeypatch)
    assert found.headline == "1.5 times" and found.sentences[0] == "Servers save."
    assert says(found.sentences[-1], 9, 60, 4, "seconds", "hypervisor")


def test_costs_of_many_disturbed_seconds_conclude_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer_with((QUIET, MANY), monkeypatch)
    assert says(found.headline, 13, 60, "seconds", "other programs")
    text = " ".join((found.headline, *found.sentences, found.rows))
    assert "1.5" not in text and "Servers save" not in text and "With rows" not in text


def test_a_file_of_costs_has_the_disturbances_of_its_sources(tmp_path: Path) -> None:
    hosts = HostCosts(serve_ns=77, sources=(QUIET, FEW, MANY))
    (tmp_path / "hosts.toml").write_text(hosts_text(hosts, ["a comment"]))
    assert load_hosts(tmp_path / "hosts.toml") == hosts
