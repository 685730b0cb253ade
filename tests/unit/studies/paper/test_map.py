"""Costs that are known are found again; the map shows what they say, and where measured runs lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from studies.paper import map as maps
from studies.paper.costs import METRICS, Costs, Point, errors
from studies.paper.map import KEYS, SKEWS, change, draw_map
from studies.paper.packing import Packed

COST = {
    "servers": (10.0, 0.0, 0.1),
    "workers": (4.0, 6.0, 0.2),
    "pull": (8.0, 1.0, 0.0),
    "push": (9.0, 3.0, 0.5),
}
"""µs of an RPC at a server, of one at the switch, of a key."""


def packed(skew: float, keys: int) -> Packed:
    """Simple, and unlike for unlike data."""
    rpcs = keys / 32 + 1
    return Packed(keys, skew, rpcs, rpcs * (1 + skew), rpcs * (1 - skew))


def point(skew: float, keys: int, off: float = 1.0) -> Point:
    of = packed(skew, keys)
    without = {what: 2 * (server * of.rpcs + key * of.keys) for what, (server, _, key) in COST.items()}
    with_hot = {
        what: off * 2 * (server * of.to_servers + switch * (of.rpcs_with - of.to_servers) + key * of.keys)
        for what, (server, switch, key) in COST.items()
    }
    return Point(of, without, with_hot)


POINTS = [point(skew, keys) for skew in (0.1, 0.4, 0.7) for keys in (200, 3000)]


def test_known_costs_are_found_and_predict_every_run() -> None:
    costs = Costs.fit(POINTS)
    for what, known in COST.items():
        assert costs.of[what] == pytest.approx(known, abs=1e-6)
    assert errors(POINTS) == pytest.approx(dict.fromkeys(METRICS, 0.0), abs=1e-6)
    unseen = point(0.55, 900)
    assert costs.ratio("workers", unseen.packed) == pytest.approx(unseen.ratio("workers"))


def test_no_cost_is_negative_and_a_run_that_does_not_fit_is_told() -> None:
    crooked = [*POINTS, point(0.3, 1000, off=2.0)]
    assert all((costs >= 0).all() for costs in Costs.fit(crooked).of.values())
    assert all(0 < found < 1 for found in errors(crooked).values())


def test_change_is_a_part_of_what_it_is_without() -> None:
    costs = Costs.fit(POINTS)
    of = packed(0.5, 640)
    assert change("packets", of, costs) == pytest.approx(-0.5)
    known = 10 * of.rpcs + 0.1 * 640
    assert change("servers", of, costs) == pytest.approx((10 * of.to_servers + 0.1 * 640) / known - 1)


def test_the_map_has_every_place_and_the_measured_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Run:
        """Of a skew and keys a step."""

        def __init__(self, skew: float, keys: int) -> None:
            shape = type("Shape", (), {"share": skew, "keys_per_step": keys})
            self.config = type("Config", (), {"workload": shape})

    runs: list[Any] = [Run(skew, keys) for skew in (0.1, 0.7) for keys in (500, 3000)]
    monkeypatch.setattr(maps, "pack_shape", lambda skew, keys, servers: packed(skew, keys))
    monkeypatch.setattr(
        maps, "point_of", lambda run, of: point(run.config.workload.share, run.config.workload.keys_per_step)
    )
    found = draw_map(runs, 2, [maps.Place("mine", 0.42, 700.0)])
    packets, servers, *_ = found.figure.panels
    assert packets.title == "packets to the servers, counted"
    assert servers.title == "servers' CPU, predicted to ±0%"
    surface, *dots = servers.series
    assert surface.z is not None and surface.z.shape == (len(KEYS), len(SKEWS))
    for row, keys in enumerate(KEYS):
        for column, skew in enumerate(SKEWS):
            expected = change("servers", packed(skew, keys), Costs.fit(POINTS))
            assert surface.z[row, column] == pytest.approx(expected, abs=1e-6)
    assert [(float(np.asarray(dot.x)[0]), float(dot.y[0])) for dot in dots[:-1]] == [
        (0.1, 500), (0.1, 3000), (0.7, 500), (0.7, 3000),
    ]  # fmt: skip
    assert dots[0].name == f"{point(0.1, 500).ratio('servers') - 1:+.0%}"
    assert (dots[-1].name, float(dots[-1].y[0])) == ("mine", 700)
    table = found.figure.table()
    assert table.columns == ["panel", "series", "x", "y", "z"]
    assert table.drop_nulls().height == len(maps.TITLES) * len(KEYS) * len(SKEWS)
