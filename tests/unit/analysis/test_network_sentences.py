"""The switches and links of a run in sentences, and the ways of its baseline."""

from __future__ import annotations

from typing import Any  # settings have any type that TOML has

import pytest

from analysis.report import result
from analysis.sentences.networks import network_notes
from analysis.sentences.page import provenance_rows
from tests.harness.records import a_record
from tests.harness.summaries import a_summary
from tests.unit.analysis.synthetic import SyntheticRun
from tests.unit.analysis.test_sentences import NO_ROUND


@pytest.mark.parametrize(
    ("settings", "network"),
    [
        ({}, "one switch"),
        ({"topology": "switch", "leaves": 2, "cable_mbit": 100.0}, "one switch, cables of 100 Mbit/s"),
        ({"topology": "leaf-spine", "leaves": 2, "spines": 1, "cable_mbit": 0.0}, "2 leaves and 1 spine"),
        (
            {"topology": "leaf-spine", "leaves": 3, "spines": 2, "cable_mbit": 50.0, "oversubscription": 4.0},
            "3 leaves and 2 spines, cables of 50 Mbit/s, oversubscription 4",
        ),
    ],
)
def test_the_switches_and_bandwidths_of_a_run_are_reported(settings: dict[str, Any], network: str) -> None:
    record = a_record(config={"workers": 4, "servers": 2, **settings})
    rows = dict(provenance_rows(record, a_summary(NO_ROUND), None))
    assert rows["network"].startswith(f"4 workers, 2 parameter servers, {network}: ")


@pytest.mark.parametrize(
    ("settings", "is_noted"),
    [
        ({"topology": "leaf-spine", "hot_sets": "spine"}, True),
        ({"topology": "leaf-spine", "hot_sets": "leaves"}, False),
        ({"topology": "switch", "hot_sets": "spine"}, False),
    ],
)
def test_reports_note_a_baseline_by_way_of_the_spine(
    synthetic_run: SyntheticRun, settings: dict[str, Any], is_noted: bool
) -> None:
    config = {**synthetic_run.record.config, "arms": ["baseline", "offload"], **settings}
    record = synthetic_run.record.model_copy(update={"config": config})
    notes = network_notes(record)
    assert len(notes) == is_noted
    assert set(notes) <= set(result(record, synthetic_run.summary()).notes)
