"""The report of a run on BMv2 says what BMv2 carried, and that offload loses where that is claimed."""

from __future__ import annotations

import pytest

from analysis.caveats import BMV2, Carried, facts
from analysis.record import AgentCost
from analysis.report import result
from analysis.statistics import Comparison
from analysis.summary import Summary
from analysis.wording import sentence_text
from experiment.run_config import load_config
from switch_harness.wording import says
from tests.harness.records import a_record
from tests.harness.summaries import a_summary
from tests.unit.analysis.synthetic import SyntheticRun
from tests.unit.analysis.test_answer import CPU, LESS, MORE, NOT_KNOWN, OPEN, PULL, summary

PUSH = "push_mean"
AGENTS = {codec: AgentCost(worker_us=us, server_us=us) for codec, us in (("fast", 5.0), ("scapy", 3000.0))}


def note(of: Summary) -> str | None:
    """Return the first screen's sentence about BMv2."""
    sentences = map(sentence_text, result(a_record(), of).warnings)
    return next((text for text in sentences if "BMv2" in text), None)


def test_the_target_has_its_name() -> None:
    assert load_config([f"TARGET={BMV2}"]).target == BMV2


def test_a_run_on_bmv2_reports_the_rpcs_that_bmv2_carried(synthetic_run: SyntheticRun) -> None:
    synthetic_run.record.capacity = {"baseline": 1200.0, "offload": 900.0}
    assert note(synthetic_run.summary()) is None
    synthetic_run.record.target = BMV2
    of = synthetic_run.summary()
    rpcs = {arm: of.loads["0.5"].arms[arm].rpcs_per_step for arm in of.capacity}
    found = facts(of).bmv2
    assert found is not None and not found.loses
    assert found.lead == Carried(900.0, 900.0 * rpcs["offload"])
    assert found.reference == Carried(1200.0, 1200.0 * rpcs["baseline"])
    sentence = note(of)
    assert sentence is not None and "loses" not in sentence
    for number in (900.0, 1200.0, 900.0 * rpcs["offload"], 1200.0 * rpcs["baseline"]):
        assert f"{number:,.0f}" in sentence
    assert sentence.replace("'", "&#39;") in " ".join(synthetic_run.page().split())


@pytest.mark.parametrize(
    ("pull", "push", "loses"),
    [
        (MORE, MORE, True),
        (MORE, OPEN, True),
        (OPEN, MORE, True),
        (MORE, LESS, False),
        (OPEN, OPEN, False),
        (NOT_KNOWN, NOT_KNOWN, False),
        (LESS, OPEN, False),
    ],
)
def test_offload_loses_if_operations_are_claimed_to_take_longer(
    pull: Comparison, push: Comparison, loses: bool
) -> None:
    differences = {PULL: pull, PUSH: push, CPU: LESS}
    sentence = note(summary(differences, target=BMV2)) or ""
    assert ("Offload loses" in sentence) is loses
    assert (says(sentence, "BMv2", "bottleneck")) is loses
    # With slow agents, the run does not show what is the bottleneck.
    slow = note(summary(differences, target=BMV2, agents=AGENTS)) or ""
    assert ("Offload loses" in slow) is loses and "bottleneck" not in slow
    assert note(summary(differences)) is None


def test_a_run_without_loads_or_capacities_names_bmv2_alone() -> None:
    found = facts(a_summary({}, target=BMV2)).bmv2
    assert found is not None and (found.lead, found.reference, found.loses) == (None, None, False)
