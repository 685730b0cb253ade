"""The project's own vectors say what BMv2 does."""

from __future__ import annotations

from pathlib import Path

import pytest

from softswitch.conformance.pairs import Pair
from softswitch.conformance.runner import Outcome, Verdict, run
from softswitch.conformance.targets import TARGETS
from switch_harness.match_kinds import MATCH_KINDS
from switch_harness.stf import PAIRS
from switch_harness.wording import says

pytestmark = pytest.mark.bmv2


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.vectors.stem)
def test_vectors_pass_on_bmv2(pair: Pair) -> None:
    assert run(TARGETS["bmv2"], *pair) == Verdict(*pair, Outcome.PASS)


def test_a_wrong_expectation_fails(tmp_path: Path) -> None:
    vectors = tmp_path / "wrong.stf"
    vectors.write_text("packet 2 0a0b0c0d\nexpect 1 0a0b0c0e\n")
    verdict = run(TARGETS["bmv2"], MATCH_KINDS.with_suffix(".json"), vectors)
    assert verdict.outcome is Outcome.FAIL
    assert says(verdict.reason, "byte 3", "0a0b0c0e", "0a0b0c0d")


def test_registers_are_refused_by_name(tmp_path: Path) -> None:
    vectors = tmp_path / "registers.stf"
    vectors.write_text("register_write narrow 0 1\n")
    verdict = run(TARGETS["bmv2"], MATCH_KINDS.with_name("registers.json"), vectors)
    assert verdict.outcome is Outcome.REFUSED
    assert says(verdict.reason, "P4Runtime", "Keep.narrow")


def test_an_update_that_bmv2_refuses_fails_with_bmv2s_own_message(tmp_path: Path) -> None:
    vectors = tmp_path / "twice.stf"
    vectors.write_text("add lpm_table exact_part:1 lpm_hit(value:1)\n" * 2)
    verdict = run(TARGETS["bmv2"], MATCH_KINDS.with_suffix(".json"), vectors)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason.startswith("line 2: code 6: ")
