"""Summaries of runs with made-up differences."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from analysis.statistics import Comparison
from analysis.summary import LoadSummary, Summary
from analysis.terminal import print_summary, render


def of_ratio(
    ratio: float, low: float | None = None, high: float | None = None, *, reference: float = 100.0
) -> Comparison:
    """Return a difference as a ratio of the baseline, optionally with its interval."""
    return Comparison(
        reference=reference,
        value=reference * (1 + ratio),
        difference=reference * ratio,
        low=None if low is None else reference * low,
        high=None if high is None else reference * high,
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
    )


def a_load(**changes: Any) -> LoadSummary:
    """Return a load of ten rounds; `differences` are by arm and metric."""
    defaults: dict[str, Any] = {"offered_rate": 100, "rounds": 10, "rounds_fallen_behind": 0, "arms": {}}
    return LoadSummary(**{**defaults, "differences": {}, "block_steps": 100, **changes})


def a_summary(loads: Mapping[str, LoadSummary], **changes: Any) -> Summary:
    """Return the summary of a run that lost nothing."""
    defaults: dict[str, Any] = {
        "target": "softswitch", "offered_rate": {}, "capacity": {"baseline": 200.0}, "hot_update_share": None,
        "updates": dict.fromkeys(("sent", "applied", "lost", "unknown", "mismatched_keys"), 0),
        "overflows": 0, "empty_rpc_latency_us": dict.fromkeys(("mean", "p50", "p95", "p99")), "arms": {},
    }  # fmt: skip
    return Summary(**{**defaults, "loads": loads, **changes})


def terminal(summary: Summary) -> str:
    """Return what a terminal without colours shows."""
    output = io.StringIO()
    print_summary(summary, output)
    return output.getvalue()


def coloured(summary: Summary) -> str:
    """Return what a terminal with colours shows, with its escape sequences."""
    output = io.StringIO()
    Console(file=output, force_terminal=True, color_system="standard", width=100).print(render(summary))
    return output.getvalue()
