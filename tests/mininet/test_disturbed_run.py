"""A recorded real run, disturbed on paper, claims nothing that it does not claim as it was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.dedicated_switch import predict
from analysis.record import read_record
from analysis.summary import summarise
from packages.simulator.tests.unit.test_disturbed_costs import (
    DRAWS,
    NO_CLAIM,
    QuietRun,
    claimed,
    predict_disturbed,
)
from tests.harness.disturbed_runs import draw_injection
from tests.mininet.run_topo import run_topo

pytestmark = [pytest.mark.mininet, pytest.mark.soak]


def test_a_disturbed_copy_of_a_real_run_claims_nothing_that_the_run_does_not_claim(tmp_path: Path) -> None:
    """The machine has to be quiet during the run; forty minutes on one core."""
    with run_topo(tmp_path, small={}) as run:
        assert run.wait() == 0, run.errors
    record = read_record(run.folder)
    prediction = predict(summarise(run.folder, record))
    assert record.virtual is not None and prediction is not None
    quiet = QuietRun(run.folder, record.virtual, prediction)
    new = {}
    for seed in DRAWS:
        injection = draw_injection(seed)
        found = predict_disturbed(quiet, injection)
        added = claimed(found) - claimed(prediction)
        if added or found.recommendation not in {prediction.recommendation, *NO_CLAIM}:
            new[injection] = added, found.recommendation
    assert new == {}
