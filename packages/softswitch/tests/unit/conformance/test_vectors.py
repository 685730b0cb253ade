"""The project's own vectors pass, interpreted and compiled (tests/bmv2/test_vectors.py: and on BMv2)."""

from __future__ import annotations

import pytest

from softswitch.conformance.pairs import Pair
from softswitch.conformance.runner import Outcome, Verdict, run
from softswitch.conformance.targets import TARGETS
from switch_harness.stf import PAIRS, WITHOUT_PROGRAM


@pytest.mark.parametrize("target", ["interpreter", "compiled"])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.vectors.stem)
def test_vectors_pass_interpreted_and_compiled(target: str, pair: Pair) -> None:
    assert run(TARGETS[target], *pair) == Verdict(*pair, Outcome.PASS)


def test_all_vectors_have_a_program() -> None:
    assert PAIRS
    assert WITHOUT_PROGRAM == []
