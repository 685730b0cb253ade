"""The fit recovers known costs; the map shows their predictions and the measured runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hotline_paper import map as maps
from hotline_paper.costs import METRICS, MeasuredPoint, RpcCosts, prediction_errors
from hotline_paper.map import KEYS_PER_STEP, SKEWS, draw_map, relative_change
from hotline_paper.packing import MeanPacking

COST = {
    "servers": (10.0, 2.0, 0.0, 0.1, 70.0),
    "workers": (4.0, 5.0, 6.0, 0.2, 500.0),
    "pull": (8.0, 0.5, 1.0, 0.0, 0.0),
    "push": (9.0, 0.0, 3.0, 0.5, 30.0),
}
"""Costs in µs: of an RPC at a server, with offload in addition, at the switch, of a key, of an operation."""


def packed(skew: float, keys: int) -> MeanPacking:
    """Return a simple packing that differs by data."""
    rpcs = keys**0.9 / 16
    return MeanPacking(keys, skew, rpcs, rpcs * (1 + skew), rpcs * (1 - skew))


def point(skew: float, keys: int, off: float = 1.0) -> MeasuredPoint:
    of = packed(skew, keys)
    without = {
        what: 2 * (server * of.rpcs + key * of.keys + operation)
        for what, (server, _, _, key, operation) in COST.items()
    }
    at_servers = of.server_rpcs_with_offload
    at_switch = of.rpcs_with_offload - at_servers
    with_offload = {
        what: off * 2 * ((server + addition) * at_servers + switch * at_switch + key * of.keys + operation)
        for what, (server, addition, switch, key, operation) in COST.items()
    }
    return MeasuredPoint(of, without, with_offload)


POINTS = [point(skew, keys) for skew in (0.1, 0.4, 0.7) for keys in (200, 900, 3000)]


def test_known_costs_are_found_and_predict_every_run() -> None:
    costs = RpcCosts.fit(POINTS)
    for what, known in COST.items():
        assert costs.by_quantity[what] == pytest.approx(known, abs=1e-6)
    for errors in prediction_errors(POINTS).values():
        assert errors == pytest.approx([0.0] * len(POINTS), abs=1e-6)
    unseen = point(0.55, 900)
    assert costs.ratio("workers", unseen.packing) == pytest.approx(unseen.ratio("workers"))


def test_no_cost_is_negative_and_errors_are_measured() -> None:
    crooked = [*POINTS, point(0.3, 1000, off=2.0)]
    assert all((costs >= 0).all() for costs in RpcCosts.fit(crooked).by_quantity.values())
    found = prediction_errors(crooked)
    assert list(found) == list(METRICS) and all(len(errors) == len(crooked) for errors in found.values())
    # The crooked one is predicted as if it were like the others.
    assert all(max(errors) == errors[-1] == pytest.approx(0.5 * point(0.3, 1000, off=2.0).ratio(quantity))
               for quantity, errors in found.items())  # fmt: skip


def test_change_is_relative_to_the_value_without_offload() -> None:
    costs = RpcCosts.fit(POINTS)
    of = packed(0.5, 640)
    assert relative_change("packets", of, costs) == pytest.approx(-0.5)
    known = 10 * of.rpcs + 0.1 * 640 + 70
    assert relative_change("servers", of, costs) == pytest.approx(
        (12 * of.server_rpcs_with_offload + 0.1 * 640 + 70) / known - 1
    )


def test_the_map_has_every_place_and_the_measured_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(run: Any, of: object) -> MeasuredPoint:
        shape = run.config.workload
        return point(shape.hot_share, shape.keys_per_step)

    shapes = [
        SimpleNamespace(hot_share=skew, keys_per_step=keys)
        for skew in (0.1, 0.7)
        for keys in (500, 900, 3000)
    ]
    runs: list[Any] = [SimpleNamespace(config=SimpleNamespace(workload=shape)) for shape in shapes]
    monkeypatch.setattr(maps, "pack_shape", lambda skew, keys, servers: packed(skew, keys))
    monkeypatch.setattr(maps, "measured_point", measured)
    found = draw_map(runs, 2, [maps.Marker("mine", 0.42, 700.0)])
    packets, servers, *_ = found.figure.panels
    assert packets.title == "packets to the servers, counted"
    assert servers.title == "servers' CPU, predicted to ±0 points"
    surface, *dots = servers.series
    assert surface.z is not None and surface.z.shape == (len(KEYS_PER_STEP), len(SKEWS))
    for row, keys in enumerate(KEYS_PER_STEP):
        for column, skew in enumerate(SKEWS):
            expected = relative_change("servers", packed(skew, keys), RpcCosts.fit(POINTS))
            assert surface.z[row, column] == pytest.approx(expected, abs=1e-6)
    assert [(float(np.asarray(dot.x)[0]), float(dot.y[0])) for dot in dots[:-1]] == [
        (0.1, 500), (0.1, 900), (0.1, 3000), (0.7, 500), (0.7, 900), (0.7, 3000),
    ]  # fmt: skip
    assert dots[0].name == f"{point(0.1, 500).ratio('servers') - 1:+.0%}"
    assert (dots[-1].name, float(dots[-1].y[0])) == ("mine", 700)
    table = found.figure.table()
    assert table.columns == ["panel", "series", "x", "y", "z"]
    assert table.drop_nulls().height == len(maps.TITLES) * len(KEYS_PER_STEP) * len(SKEWS)
