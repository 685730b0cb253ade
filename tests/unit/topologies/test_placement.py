"""Which CPU what runs on."""

from __future__ import annotations

import pytest

from topologies.config import PlacementConfig
from topologies.placement import Placement, place


@pytest.mark.parametrize(
    ("cpus", "expected"),
    [
        ([3], Placement(None, None, None)),
        ([0, 1], Placement(switch=None, servers=0, workers=1)),
        ([2, 3, 5, 7], Placement(switch=5, servers=2, workers=3)),
    ],
)
def test_servers_and_workers_are_kept_apart(cpus: list[int], expected: Placement) -> None:
    assert place(PlacementConfig(), cpus) == expected


def test_what_is_configured_wins() -> None:
    assert place(PlacementConfig(switch=1), [0, 1]) == Placement(switch=1, servers=0, workers=1)
    assert place(PlacementConfig(switch=1), [0, 1]).as_record() == {"switch": 1, "servers": 0, "workers": 1}
