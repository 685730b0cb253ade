"""The project's own vectors, by the kernel."""

from __future__ import annotations

import pytest

from softswitch.conformance.pairs import Pair
from softswitch.conformance.runner import Outcome, run
from softswitch.conformance.targets import TARGETS
from switch_harness.stf import PAIRS


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.vectors.stem)
def test_vectors_pass_in_the_kernel(pair: Pair) -> None:
    verdict = run(TARGETS["kernel"], *pair)
    assert verdict.outcome is Outcome.PASS, verdict
