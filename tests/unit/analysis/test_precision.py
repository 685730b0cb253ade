"""The interval that is farthest from its goal."""

from __future__ import annotations

import pytest

from analysis.metrics import find_widest, goals, widths
from tests.harness.summaries import of_ratio


def test_the_widest_interval_is_the_one_farthest_from_its_goal() -> None:
    """Half widths of 4 % and 12 %, where 3 % and 10 % are wanted."""
    assert goals() == {"pull_mean": 0.03, "pull_p99": 0.1, "push_mean": 0.03, "push_p99": 0.1}
    mean, p99, none = of_ratio(0, -0.04, 0.04), of_ratio(0, -0.1, 0.14), of_ratio(0)
    of_arms = {
        "repeat": {"pull_p99": p99, "rpc_mean": p99},
        "offload": {"push_mean": mean, "pull_mean": none},
    }
    found = list(widths("0.5", of_arms))
    assert [(width.arm, width.metric, width.goal) for width in found] == [
        ("repeat", "pull_p99", 0.1),
        ("offload", "push_mean", 0.03),
    ]
    assert [width.half_width for width in found] == pytest.approx([0.12, 0.04])
    assert find_widest(found) == found[1]
    assert find_widest([]) is None
