"""The paper's figures: packing in docs/design.md; connections and the map in packages/paper/README.md."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

from experiment.run_config import Config
from foundation.checkout import ROOT
from foundation.designs.hotset import BASELINE, OFFLOAD, PROXY
from foundation.text import pluralize
from hotline_paper.connections.figure import ACTIVITIES, delay_against_connections
from hotline_paper.connections.waiting import WAYS
from hotline_paper.map import TITLES
from hotline_paper.numbers import MapNumbers, MapRun
from hotline_paper.packing import PackingRatios
from hotline_paper.packing_by_switch import PackingBySwitch
from hotline_paper.regime.__main__ import ASSUMED, DEFAULT, MIDDLE, OTHER, Range, RegimeReport
from hotline_paper.regime.readings import READINGS
from hotline_paper.regime.verdicts import FIGURES, FigureRow, TextRow, changes
from tools.evidence.result import Cell, Column, Measured, Row, Table, make_table
from tools.evidence.stage import REAL_RUN, Stage, Step, json_output, modules_of, typed
from tools.evidence.stages.each_run import each_run
from tools.evidence.stages.real_runs import (
    PROGRAM_FILES,
    change_in_percent,
    difference_of,
    run_step,
    summary_of_step,
)
from tools.evidence.stages.run_changes import as_table, measured_changes
from tools.evidence.stages.runs import SEEDS

_PACKING = typed("packing", "python -m hotline_paper.packing")
_BY_SWITCH = typed("by-switch", "python -m hotline_paper.packing_by_switch")
_FILE = "fig-09.parquet"
_CONNECTIONS = Step(
    "connections",
    (sys.executable, "-m", "hotline_paper.connections", "-o", f"{{folder}}/{_FILE}"),
    f"python -m hotline_paper.connections -o {_FILE}",
)
_MAP = Step(
    "map",
    (sys.executable, "-m", "hotline_paper", "map", "--json", "--into", "{folder}/map"),
    "make map ARGS=--json",
)
_THOUSAND = 1_000  # connections
_ARMS = (BASELINE.name, PROXY.name)
_CLAIMED, _DISTURBED = "claimed", "disturbed blocks"
_SHORT_TITLES = {
    "packets": "packets", "servers": "servers", "workers": "workers", "pull": "pulls", "push": "pushes"
}  # fmt: skip
_ONE_RUN = (
    "one run each, and its interval of 95 % or more; what is claimed is by the rule of docs/intervals.md"
)


def packing_tables(folder: Path) -> dict[str, Table]:
    ratios = [PackingRatios(**row) for row in json_output(folder, _PACKING.name)]
    by_switch = [PackingBySwitch(**row) for row in json_output(folder, _BY_SWITCH.name)]
    return {
        "packing": make_table(
            "RPCs and packets to the servers with offload, as multiples of those without",
            "mean of 60 mini-batches of one generated trace",
            ("dim", "keys a step", "servers"),
            dict.fromkeys(("RPCs", "least", "packets to the servers"), "× {:.2f}"),
            {
                (f"{each.dim}", f"{each.keys_per_step:,}", f"{each.servers}"): [
                    each.rpcs, each.least, each.server_rpcs
                ]
                for each in ratios
            },
        ),
        "packing-by-switch": _by_switch(by_switch),
    }  # fmt: skip


def _by_switch(packings: Sequence[PackingBySwitch]) -> Table:
    switches = dict.fromkeys(each.switches for each in packings)
    found = {(each.dim, each.keys_per_step, each.switches): each for each in packings}
    columns = {
        f"{what}, {pluralize(number, 'switch', 'switches')}": "× {:.2f}"
        for what in ("RPCs", "packets to the servers")
        for number in switches
    }
    return make_table(
        "RPCs and packets to 20 servers with offload at several switches, as multiples of those without",
        "mean of 60 mini-batches of one generated trace",
        ("dim", "keys a step"),
        columns,
        {
            (f"{dim}", f"{keys:,}"): [
                *(found[dim, keys, number].rpcs for number in switches),
                *(found[dim, keys, number].server_rpcs for number in switches),
            ]
            for dim, keys in dict.fromkeys((each.dim, each.keys_per_step) for each in packings)
        },
    )


PACKING = Stage(
    name="packing",
    minutes=4,
    results=("packing", "packing-by-switch"),
    steps=(_PACKING, _BY_SWITCH),
    tables=packing_tables,
    modules=("hotline_paper.packing", "hotline_paper.packing_by_switch"),
    seeds=(1,),
)


def connection_tables(folder: Path) -> dict[str, Table]:
    facts = delay_against_connections(folder / _CONNECTIONS.name / _FILE).facts
    curves = [(arm, activity) for arm in _ARMS for activity in ACTIVITIES.values()]

    def delay(way: str, activity: str, arm: str) -> Cell:
        slope, low, high = (_THOUSAND * facts[way, activity, arm, name] for name in ("slope", "low", "high"))
        return Measured(value=slope, low=low, high=high)

    return {
        "connections": make_table(
            "delay of an empty RPC that 1,000 connections add, µs",
            "mean slope of six rounds, and its 95 % interval",
            ("server",),
            {f"`{arm}`: {activity.partition(',')[0]}": "{:,.0f}" for arm, activity in curves},
            {(way,): [delay(way, activity, arm) for arm, activity in curves] for way in WAYS},
        )
    }


CONNECTIONS = Stage(
    name="connections",
    minutes=6,
    results=("connections",),
    steps=(_CONNECTIONS,),
    tables=connection_tables,
    modules=(
        "hotline_paper.connections.experiment",
        "hotline_paper.connections.client",
        "hotline_paper.connections.server",
        *REAL_RUN,
    ),
    files=("p4src/hotset/*.p4", "p4src/common/*.p4"),
    seeds=(1,),
    needs="two quiet cores and root",
)


def map_tables(folder: Path) -> dict[str, Table]:
    numbers = MapNumbers.model_validate(json_output(folder, _MAP.name))
    default = Config().workers
    of_map = sorted(
        (run for run in numbers.runs if run.workers == default),
        key=lambda run: (run.skew, run.keys_per_step),
    )
    of_workers = [run for run in numbers.runs if run.workers != default]
    return {
        "map": _table(
            "change by offload at a skew and a number of keys a step, measured",
            ("skew", "keys a step"),
            {(f"{run.skew:g}", f"{run.keys_per_step:,}"): run for run in of_map},
        ),
        "map-workers": _table(
            "change by offload with a number of workers and servers, measured",
            ("workers", "servers"),
            {(f"{run.workers}", f"{run.servers}"): run for run in of_workers},
        ),
        "map-errors": make_table(
            "error of the map's model",
            "distances of predicted and measured change; each run is predicted from the others",
            ("",),
            dict.fromkeys(("median, points", "largest, points"), "{:.1f}"),
            {
                (TITLES[quantity],): [100 * median(errors), 100 * max(errors)]
                for quantity, errors in numbers.errors.items()
            },
        ),
    }


def _table(quantity: str, headings: tuple[str, ...], runs: Mapping[tuple[str, ...], MapRun]) -> Table:
    columns = {**dict.fromkeys(TITLES.values(), "{:+.0f} %"), _CLAIMED: "{:.0f}", _DISTURBED: "{:,.0f}"}
    return make_table(
        quantity, _ONE_RUN, headings, columns, {names: _cells(run) for names, run in runs.items()}
    )


def _cells(run: MapRun) -> list[Cell]:
    changes = [change_in_percent(run.changes[each]) for each in TITLES]
    return [*changes, ", ".join(_SHORT_TITLES[each] for each in run.claimed), run.disturbed_blocks]


MAP = Stage(
    name="map",
    minutes=20,
    results=("map", "map-workers", "map-errors"),
    steps=(_MAP,),
    tables=map_tables,
    modules=("hotline_paper.__main__", "hotline_paper.report", "hotline_paper.numbers", *REAL_RUN),
    files=PROGRAM_FILES,
    seeds=(1,),
    needs="two quiet cores and root",
)
_REGIME = typed("regime", "python -m hotline_paper.regime", "--into", "{folder}")
_DEFAULT_COLUMN, _REGIME_COLUMN = "ours by default", "ours in the paper's regime"
_CHANGE = "{:+.0f} %"
_SETS = "one simulation each; in brackets the range over the sets of parameters that were simulated"
_ALL_FITS = "the middle of the parameters that fit as well, and in brackets their range"
_PARAMETERS = {
    "compute_ms": "computing of a step, ms", "delay_us": "delay of a cable and its stacks, µs",
    "serve_us": "time of a core for a request, µs", "connection_ns": "time for each connection, ns",
    "contention": "competition, % for each other request",
}  # fmt: skip


def regime_tables(folder: Path) -> dict[str, Table]:
    report = RegimeReport.model_validate(json_output(folder, _REGIME.name))
    return {
        "paper-figures": _figures(report),
        "paper-fit": _fits(report),
        "paper-readings": _readings(report),
        "paper-held-out": _held_out(report),
        "paper-predictions": _predictions(report),
        "paper-offload": _offload(report),
    }


def _figures(report: RegimeReport) -> Table:
    """Return the table of figures, with the other sets of parameters as the interval."""
    default, middle = (report.points[name] for name in (DEFAULT, MIDDLE))
    rows = [
        Row(
            names=(each.figure, each.quantity),
            cells=(each.paper, each.default, each.regime, each.verdict)
            if isinstance(each, TextRow)
            else (
                each.paper, each.value(default), _ranged(each.value(middle), _values_of_sets(each, report)),
                each.verdict(middle),
            ),
            form=each.form if isinstance(each, FigureRow) else None,
        )
        for each in FIGURES
    ]  # fmt: skip
    columns = ("the paper", _DEFAULT_COLUMN, _REGIME_COLUMN, "verdict")
    return Table(
        quantity="the paper's figures and tables, by default and in its regime",
        statistic=_SETS,
        headings=("figure", "what"),
        columns=tuple(Column(name=name) for name in columns),
        rows=tuple(rows),
    )


def _values_of_sets(row: FigureRow, report: RegimeReport) -> Iterator[float]:
    for name, points in report.points.items():
        if name != DEFAULT:
            with suppress(KeyError):  # not all clusters were simulated with all sets
                yield row.value(points)


def _ranged(value: float, others: Iterable[float]) -> Cell:
    """Return a value with the range of all sets, or alone if only its own set was simulated."""
    found = list(others)
    if len(found) == 1:
        return value
    return Measured(value=value, low=min(found), high=max(found))


def _of_range(values: Range, scale: float = 1.0) -> Measured:
    low, middle, high = (scale * value for value in values)
    return Measured(value=middle, low=low, high=high)


def _fits(report: RegimeReport) -> Table:
    rows = [
        Row(
            names=(title,),
            cells=tuple(
                _of_range(fit.parameters[name], 100 if name == "contention" else 1)
                for fit in report.fits.values()
            ),
            form="{:.3g}",
        )
        for name, title in _PARAMETERS.items()
    ]
    counts = Row(
        names=("accepted points of the grid",),
        cells=tuple(float(fit.accepted) for fit in report.fits.values()),
    )
    return Table(
        quantity="parameters of the paper's servers that agree with its figures",
        statistic=_ALL_FITS,
        headings=("",),
        columns=tuple(Column(name=f"Fig. 1 with {name}") for name in report.fits),
        rows=(*rows, counts),
    )


def _readings(report: RegimeReport) -> Table:
    fit = report.fits[ASSUMED]
    return make_table(
        "readings of the paper's figures that its regime is fitted to",
        _ALL_FITS,
        ("reading",),
        {"at least": "{:.3g}", "at most": "{:.3g}", "the fit": "{:.3g}", "points it rejects": "{:,.0f}"},
        {
            (name,): [
                reading.low, None if reading.high == float("inf") else reading.high,
                _of_range(fit.readings[name]), fit.rejections[name],
            ]
            for name, reading in zip(fit.readings, READINGS, strict=True)
        },
    )  # fmt: skip


def _held_out(report: RegimeReport) -> Table:
    assumed, other = (report.fits[name] for name in (ASSUMED, OTHER))
    simulated = report.points[MIDDLE]

    def busy(cluster: str, role: str) -> Cell:
        if cluster not in simulated:
            return None
        return 100 * float(getattr(simulated[cluster].arms[BASELINE.name], f"{role}_busy"))

    rows: dict[tuple[str, ...], list[Cell]] = {
        (cluster,): [
            _of_range(assumed.servers_busy[cluster], 100), busy(cluster, "servers"),
            _of_range(other.servers_busy[cluster], 100), _of_range(assumed.workers_busy[cluster], 100),
            busy(cluster, "workers"), _of_range(other.workers_busy[cluster], 100),
        ]
        for cluster in assumed.servers_busy
    }  # fmt: skip
    columns = (
        "servers", "servers, simulated", f"servers, if Fig. 1 had {OTHER}", "workers", "workers, simulated",
        f"workers, if Fig. 1 had {OTHER}",
    )  # fmt: skip
    return make_table(
        "CPU utilisation of S1 to S6 as predicted from other figures", _ALL_FITS, ("cluster",),
        dict.fromkeys(columns, "{:.0f} %"), rows,
    )  # fmt: skip


def _predictions(report: RegimeReport) -> Table:
    fits = report.fits.values()
    shares = {
        "parameters whose servers are 85 to 95 % busy in S6": [each.agreeing_at_s6 for each in fits],
        "parameters whose servers are busier in each cluster than in the one before": [
            each.rising_servers for each in fits
        ],
        "parameters whose workers are less busy in S6 than in S1": [each.falling_workers for each in fits],
    }
    rows = [
        Row(names=(name,), cells=tuple(100 * share for share in found), form="{:.0f} %")
        for name, found in shares.items()
    ]
    delays = Row(
        names=("delay of an empty RPC that 1,000 connections add, µs",),
        cells=tuple(_of_range(each.added_by_connections_us) for each in fits),
    )
    return Table(
        quantity="predictions of the paper's Fig. 8 and 9 from other figures",
        statistic=f"share of the accepted parameters, or {_ALL_FITS}",
        headings=("",),
        columns=tuple(Column(name=f"Fig. 1 with {name}") for name in report.fits),
        rows=(*rows, delays),
    )


def _offload(report: RegimeReport) -> Table:
    sets = [points for name, points in report.points.items() if name != DEFAULT]
    rows: dict[tuple[str, ...], list[Cell]] = {}
    for cluster in [each for each in report.fits[ASSUMED].servers_busy if each in report.points[MIDDLE]]:
        for arm in list(report.points[MIDDLE][cluster].arms)[1:]:
            found = [
                list(changes(each, cluster, arm))
                for each in sets
                if cluster in each and arm in each[cluster].arms
            ]
            middle = changes(report.points[MIDDLE], cluster, arm)
            rows[cluster, f"`{arm}`"] = [
                _ranged(value, others) for value, others in zip(middle, zip(*found, strict=True), strict=True)
            ]
    columns = ("steps/s", "PS_proc", "servers' CPU a step", "time of a pull", "time of a push")
    return make_table(
        "change by offload and proxy in the paper's regime", _SETS, ("cluster", "arm"),
        dict.fromkeys(columns, _CHANGE), rows,
    )  # fmt: skip


REGIME = Stage(
    name="paper-regime",
    minutes=12,
    results=(
        "paper-figures",
        "paper-fit",
        "paper-readings",
        "paper-held-out",
        "paper-predictions",
        "paper-offload",
    ),
    steps=(_REGIME,),
    tables=regime_tables,
    modules=("hotline_paper.regime.__main__", *modules_of("hotset", "none")),
    files=("p4src/**/*.json",),
    seeds=(1,),
)
_PS_PROC = "ps_proc_cpu_us_per_step"
_PRESET = ROOT / "packages/paper/presets/paper-mininet.toml"


def mininet_tables(folder: Path) -> dict[str, Table]:
    runs = [summary_of_step(folder, f"seed-{seed}") for seed in SEEDS]
    quantity = "change by offload in the paper's regime, scaled down to 4 workers and 2 servers"
    changes = [
        {**measured_changes(run), _PS_PROC: difference_of(run, OFFLOAD.name, _PS_PROC)} for run in runs
    ]
    return {
        "paper-mininet": as_table(quantity, {"measured": changes}, more_titles={_PS_PROC: "`PS_proc`"}),
        "paper-mininet-each-run": each_run(
            f"{quantity}, in each of three runs", {f"run {number}": run for number, run in enumerate(runs, 1)}
        ),
    }


MININET = Stage(
    name="paper-mininet",
    minutes=6,
    results=("paper-mininet", "paper-mininet-each-run"),
    steps=tuple(
        run_step(
            f"seed-{seed}",
            f"SEED={seed}",
            settings=_PRESET.read_text(),
            shown=f"make run-topo CONFIG={_PRESET.relative_to(ROOT)} SEED={seed}",
        )
        for seed in SEEDS
    ),
    tables=mininet_tables,
    modules=REAL_RUN,
    files=(*PROGRAM_FILES, str(_PRESET.relative_to(ROOT))),
    seeds=SEEDS,
    needs="two quiet cores and root",
)
STAGES = (PACKING, CONNECTIONS, MAP, REGIME, MININET)
