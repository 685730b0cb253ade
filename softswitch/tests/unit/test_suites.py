"""The table of suites of others."""

from __future__ import annotations

from switch_harness.suites import Suite


def test_a_row_has_the_counts_and_names_what_does_not_pass_everywhere() -> None:
    results = {"BMv2": {"a": True, "b": True, "c": False}, "softswitch": {"a": True, "b": False}}
    assert list(Suite("theirs", results).rows()) == [
        "| theirs | 3 | 2 | 1 |",
        "  b: BMv2 passes, softswitch fails",
        "  c: BMv2 fails, softswitch does not run",
    ]
