"""Hot sets in a network of leaves and spines, simulated: tables of packages/answers/docs/networks.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from hotline_answers.networks import (
    COMPARED,
    COMPUTE_MS,
    COST_GBIT,
    COST_MS,
    COST_OVERSUBSCRIPTION,
    LEAVES,
    PLACEMENTS,
    SERVERS,
    WORKERS,
    NetworkResult,
    Placement,
    PlacementPoint,
    by_leaves,
    by_spines,
)
from tools.evidence.result import Cell, Table, make_table
from tools.evidence.stage import Stage, json_output, modules_of, typed

_POINTS = typed("points", "python -m hotline_answers.networks")
_TRAININGS = typed("trainings", "python -m hotline_answers.network_training")
_CLUSTER = f"of {WORKERS} workers and {SERVERS} servers at {LEAVES} leaves and a spine"
_PLACES: Mapping[Placement, str] = {
    "none": "none",
    "spine": "at the spine",
    "leaves": "at the servers' leaves",
    "both": "at both levels",
    "worker-leaves": "at the workers' leaves",
}
_SUMS_AT_SPINE: Placement = "sums at the spine"

Results = Mapping[PlacementPoint, NetworkResult]


def tables(folder: Path) -> dict[str, Table]:
    return tables_of(_results_in(folder))


def level_tables(folder: Path) -> dict[str, Table]:
    results = _results_in(folder)
    with_hot_set = {point: result for point, result in results.items() if point.placement != "none"}
    return {"leaf-spine-levels-gain": _gains(results), "leaf-spine-levels-cost": _costs(with_hot_set)}


def _results_in(folder: Path) -> Results:
    return {
        PlacementPoint(**{name: each[name] for name in PlacementPoint._fields}): NetworkResult(
            **{name: each[name] for name in NetworkResult._fields}
        )
        for each in json_output(folder, "points")
    }


def tables_of(results: Results) -> dict[str, Table]:
    shape = COMPARED[-2:]  # leaves and spines
    of_default = {point: result for point, result in results.items() if point[-2:] == shape}
    return {
        "leaf-spine-gain": _gains(of_default),
        "leaf-spine-cost": _costs(of_default),
        "leaf-spine-by-leaves": _by_shape(results, "leaves", by_leaves()),
        "leaf-spine-by-spines": _by_shape(results, "spines", by_spines()),
    }


def _gains(results: Results) -> Table:
    rows: dict[tuple[str, ...], list[Cell]] = {}
    for point, result in results.items():
        if point.placement not in ("none", _SUMS_AT_SPINE):
            names = (
                f"{point.dim}", f"{point.cables_gbit:g} Gbit/s", f"{point.oversubscription}",
                _PLACES[point.placement], f"{point.top_k:,}",
            )  # fmt: skip
            without = results[point._replace(placement="none", top_k=_first_top_k(results, point.dim))]
            rows.setdefault(names, []).append(result.capacity / without.capacity)
    return make_table(
        f"steps/s with a hot set as a multiple of those without, by computing in a step, {_CLUSTER}",
        "one simulation each",
        ("values of a row", "cables", "oversubscription", "hot set", "rows"),
        {f"{ms:g} ms": "× {:.2f}" for ms in COMPUTE_MS},
        rows,
    )


def _first_top_k(results: Results, dim: int) -> int:
    return next(point.top_k for point in results if point.dim == dim)


def _costs(results: Results) -> Table:
    rows: dict[tuple[str, ...], list[Cell]] = {}
    for point, result in results.items():
        where = point.cables_gbit, point.oversubscription, point.compute_ms
        if where == (COST_GBIT, COST_OVERSUBSCRIPTION, COST_MS):
            hot_rows = "0" if point.placement == "none" else f"{point.top_k:,}"
            place = _PLACES.get(point.placement, point.placement)
            rows[f"{point.dim}", place, hot_rows] = [
                result.server_packets, result.servers_cpu_us, result.uplink_kb, result.pull_us / 1e3,
                result.age_ms, result.capacity,
            ]  # fmt: skip
    return make_table(
        f"what a step takes at the cluster's capacity, with {COST_MS:g} ms of computing, cables of "
        f"{COST_GBIT:g} Gbit/s and an oversubscription of {COST_OVERSUBSCRIPTION}, {_CLUSTER}",
        "one simulation each",
        ("values of a row", "hot set", "rows"),
        {
            "packets to servers": "{:,.0f}", "servers' CPU, µs": "{:,.0f}", "kB on uplinks": "{:,.0f}",
            "time of a pull, ms": "{:,.2f}", "age of copies, ms": "{:,.0f}", "steps/s": "{:,.0f}",
        },
        rows,
    )  # fmt: skip


def _by_shape(results: Results, kind: Literal["leaves", "spines"], networks: list[PlacementPoint]) -> Table:
    rows: dict[tuple[str, ...], list[Cell]] = {}
    for network in networks:
        without = results[network]
        for placement, title in _PLACES.items():
            result = results.get(network._replace(placement=placement))
            if result is None:
                continue
            rows[f"{getattr(network, kind)}", title] = [
                result.servers_cpu_us, result.uplink_kb, result.capacity, result.capacity / without.capacity
            ]  # fmt: skip
    return make_table(
        f"what {WORKERS} workers and {SERVERS} servers carry by the number of {kind}, with "
        f"{COMPARED.compute_ms:g} ms of computing, cables of {COMPARED.cables_gbit:g} Gbit/s and an "
        f"oversubscription of {COMPARED.oversubscription}",
        "one simulation each",
        (kind, "hot set"),
        {
            "servers' CPU a step, µs": "{:,.0f}",
            "kB on uplinks a step": "{:,.0f}",
            "steps/s": "{:,.0f}",
            "gain": "× {:.2f}",
        },
        rows,
    )


def training_tables(folder: Path) -> dict[str, Table]:
    rows: dict[tuple[str, ...], list[Cell]] = {
        (_PLACES.get(each["placement"], each["placement"]),): [
            each["loss_without"], each["loss"], 100 * (each["loss"] / each["loss_without"] - 1),
            each["p50_ms"], each["p99_ms"], 100 * each["late"],
        ]
        for each in json_output(folder, _TRAININGS.name)
    }  # fmt: skip
    return {
        "leaf-spine-training": make_table(
            f"log loss with copies in switches, and their ages when newer ones replace them, {_CLUSTER}, "
            f"with {COMPARED.compute_ms:g} ms of computing, cables of {COMPARED.cables_gbit:g} Gbit/s and an "
            f"oversubscription of {COMPARED.oversubscription}",
            "one simulation each, at 0.8 of the steps/s that the slower arm carries",
            ("hot set",),
            {
                "loss without": "{:.3f}", "loss": "{:.3f}", "change in loss": "{:+.1f} %",
                "median age, ms": "{:.0f}", "99 % are younger than, ms": "{:.0f}",
                "older than the bound, %": "{:.0f}",
            },
            rows,
        )
    }  # fmt: skip


TRAINING = Stage(
    name="leaf-spine-training",
    minutes=8,
    results=("leaf-spine-training",),
    steps=(_TRAININGS,),
    tables=training_tables,
    modules=("hotline_answers.network_training", *modules_of("collect")),
    files=("p4src/**/*.json",),
)
assert PLACEMENTS[0][0] == "none"
NETWORKS = Stage(
    name="leaf-spine-simulated",
    minutes=40,
    results=("leaf-spine-gain", "leaf-spine-cost", "leaf-spine-by-leaves", "leaf-spine-by-spines"),
    steps=(_POINTS,),
    tables=tables,
    modules=("hotline_answers.networks", *modules_of("collect", "hotset", "none")),
    files=("p4src/**/*.json",),
)
LEVELS = replace(
    NETWORKS,
    name="leaf-spine-levels-simulated",
    minutes=18,
    results=("leaf-spine-levels-gain", "leaf-spine-levels-cost"),
    steps=(typed("points", "python -m hotline_answers.network_levels"),),
    tables=level_tables,
    modules=("hotline_answers.network_levels", *modules_of("hotset", "none")),
)
