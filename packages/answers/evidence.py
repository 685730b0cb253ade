"""Simulated sweeps and answers for clusters: tables of README.md, and of this package's and tofino's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from hotline_answers.cluster_answer.ask import ClusterAnswer
from hotline_answers.gain_formula import BOUND, SEEDS
from hotline_answers.regimes import COMPUTE_MS, SERVERS, WORKERS
from hotline_answers.sweeps.point import SweptArm, SweptRun
from packages.answers.evidence_of_networks import LEVELS, NETWORKS, TRAINING
from tools.evidence.result import Cell, Table, make_table
from tools.evidence.stage import Stage, Step, json_output, modules_of, typed
from tools.evidence.stages.command_times import Timed, times_stage

_SWEEPS = typed(
    "sweeps", "./hotline answer sweep clusters top-k skew bandwidth connections incast training --json",
    "--into", "{folder}/sweeps",
)  # fmt: skip
_FLAT_SKEWS = (0.23, 0.14)
"""Shares of the updates that the top 20,000 keys take: less than in the paper."""
_VARIED = f"workload.hot_share={','.join(map(str, _FLAT_SKEWS))}"
_SKEWS = Step(
    "flat-skews",
    (
        "./hotline", "answer", "sweep", "--json", "--config", "{folder}/s1.toml", "--vary", _VARIED,
        "--into", "{folder}/sweeps",
    ),
    f"./hotline answer sweep --json --config s1.toml --vary {_VARIED}",
    files=(("s1.toml", "workers = 80\nservers = 20\nrounds = 3\nblock_steps = 1\ntrace_steps = 14\n"),),
)  # fmt: skip
_CONNECTIONS = (20, 40, 320)
_CHANGE = "{:+.0f} %"
_ONE = "one simulation each"

Runs = Mapping[str, SweptRun]
"""Runs of a sweep by the label of the point."""


def tables(folder: Path) -> dict[str, Table]:
    sweeps = {name: _runs(points) for name, points in json_output(folder, _SWEEPS.name).items()}
    [skews] = json_output(folder, _SKEWS.name).values()
    return {
        "offload-simulated": _clusters(sweeps["clusters"], _runs(skews)),
        "gain-by-top-k": _gains(
            "gain in capacity of S1 by the parameters in the switch", "parameters in the switch",
            {f"{int(label):,}": run for label, run in sweeps["top-k"].items()},
        ),
        "gain-by-skew": _gains(
            "gain in capacity of S1 by the share of the updates that the top 20,000 parameters take", "share",
            {f"{100 * float(label):.0f} %": run for label, run in sweeps["skew"].items()},
        ),
        "gain-by-bandwidth": _gains(
            "gain in capacity of S1 by the bandwidth of every cable", "Mbit/s",
            {f"{int(label):,}": run for label, run in sweeps["bandwidth"].items()},
        ),
        "proxy-scanning": _proxy(sweeps["connections"]),
        "incast": _incast(sweeps["incast"]),
        "training-time": _training(sweeps["training"]),
    }  # fmt: skip


def _runs(points: Mapping[str, Mapping[str, object]]) -> dict[str, SweptRun]:
    return {
        label: SweptRun.model_validate({name: point[name] for name in SweptRun.model_fields})
        for label, point in points.items()
    }


def _clusters(clusters: Runs, skews: Runs) -> Table:
    sizes = {"S1": ("80", "20"), "S3": ("160", "40"), "S6": ("280", "70")}
    rows = {(name, *size, "50 %"): _of_cluster(clusters[name]) for name, size in sizes.items()}
    rows |= {
        ("S1", *sizes["S1"], f"{100 * share:.0f} %"): _of_cluster(skews[f"{share:g}"])
        for share in _FLAT_SKEWS
    }
    return make_table(
        "change by offload for clusters of the paper, with a dedicated switch",
        f"{_ONE}; operations at half of the slowest arm's capacity",
        ("cluster", "workers", "servers", "updates of the top 20,000"),
        {
            "steps/s that it carries": _CHANGE, "servers' CPU": _CHANGE, "time of a pull": _CHANGE,
            "time of a push": _CHANGE, "RPCs": _CHANGE, "packets to the servers": _CHANGE,
        },
        {names: list(cells) for names, cells in rows.items()},
    )  # fmt: skip


def _of_cluster(run: SweptRun) -> Iterator[Cell]:
    fields = (
        "capacity", "ps_cpu_us_per_step", "pull_mean", "push_mean", "rpcs_per_step", "ps_packets_per_step"
    )  # fmt: skip
    return (_change(run, "offload", field) for field in fields)


def _change(run: SweptRun, arm: str, field: str) -> float | None:
    """Return the change of an arm against the baseline in per cent."""
    arms: Mapping[str, SweptArm] = run.result.arms
    base, value = getattr(arms["baseline"], field), getattr(arms[arm], field)
    return None if base is None or value is None else 100 * (value / base - 1)


def _gains(quantity: str, heading: str, runs: Runs) -> Table:
    return make_table(
        quantity,
        _ONE,
        (heading,),
        dict.fromkeys(runs, _CHANGE),
        {("steps/s that S1 carries",): [_change(run, "offload", "capacity") for run in runs.values()]},
    )


def _proxy(runs: Runs) -> Table:
    return make_table(
        "change for 40 servers that scan their connections, 372 ns each",
        f"{_ONE}; operations at half of the slowest arm's capacity",
        ("workers",),
        {
            "`proxy`: steps/s": _CHANGE, "`proxy`: servers' CPU": _CHANGE, "`proxy`: time of a pull": _CHANGE,
            "`offload-proxy`: steps/s": _CHANGE, "`offload`: steps/s": _CHANGE,
        },
        {
            (f"{workers}",): [
                *(_change(run, "proxy", field) for field in ("capacity", "ps_cpu_us_per_step", "pull_mean")),
                _change(run, "offload-proxy", "capacity"), _change(run, "offload", "capacity"),
            ]
            for workers in _CONNECTIONS
            if (run := runs[f"{workers}"])
        },
    )  # fmt: skip


def _incast(runs: Runs) -> Table:
    def cells(run: SweptRun) -> Iterator[Cell]:
        for arm in ("baseline", "offload"):
            simulated = run.result.arms[arm].simulated
            yield 100 * simulated.dropped / simulated.frames
        yield _change(run, "offload", "capacity")

    return make_table(
        "frames that find a queue full if all workers begin at once, 20 servers, 1 Gbit/s, queues of 64 kB",
        _ONE,
        ("workers",),
        {
            "dropped in `baseline`": "{:.1f} %",
            "dropped in `offload`": "{:.1f} %",
            "`offload`: steps/s": _CHANGE,
        },
        {(label,): list(cells(run)) for label, run in runs.items()},
    )


def _training(runs: Runs) -> Table:
    base = runs["16"].result.arms["baseline"].capacity / 16

    def cells(workers: int, run: SweptRun) -> Iterator[Cell]:
        for arm in ("baseline", "offload"):
            yield 1e6 / run.result.arms[arm].capacity
        yield 1e6 / (base * workers)

    return make_table(
        "time of a million steps with 20 servers, 15 ms of computing a step",
        f"{_ONE}; perfect scaling is that of 16 workers of `baseline`",
        ("workers",),
        {"`baseline`, s": "{:,.0f}", "`offload`, s": "{:,.0f}", "perfect scaling, s": "{:,.0f}"},
        {(label,): list(cells(int(label), run)) for label, run in runs.items()},
    )


SWEEPS = Stage(
    name="sweeps",
    minutes=15,
    results=(
        "offload-simulated", "gain-by-top-k", "gain-by-skew", "gain-by-bandwidth", "proxy-scanning", "incast",
        "training-time",
    ),
    steps=(_SWEEPS, _SKEWS),
    tables=tables,
    modules=("hotline_answers.sweeps.point", *modules_of("hotset", "none")),
    files=("p4src/**/*.json",),
    seeds=(1,),
)  # fmt: skip

_S1 = "--workers 80 --servers 20 --racks 8 --json"
_CHIPS = {
    ("ideal", "20,000"): typed("ideal", f"./hotline answer {_S1}"),
    ("Tofino 1", "20,000"): typed("tofino", f"./hotline answer --switch tofino {_S1}"),
    ("Tofino 1", "50,000"): typed("tofino-50000", f"./hotline answer --switch tofino --top-k 50000 {_S1}"),
    ("Tofino 2", "20,000"): typed("tofino2", f"./hotline answer --switch tofino2 {_S1}"),
}
_SMALL = typed("small", "./hotline answer --workers 8 --servers 2 --json")


def answer_tables(folder: Path) -> dict[str, Table]:
    ideal, small = (_answer(folder, step) for step in (_CHIPS["ideal", "20,000"].name, _SMALL.name))
    return {
        "tofino-gain": _gain_of_chips(folder),
        "gain-by-input": _gain_by_input(ideal),
        "gain-by-dim": _gain_by_dim(small),
    }


def _answer(folder: Path, step: str) -> ClusterAnswer:
    return ClusterAnswer.model_validate(json_output(folder, step))


def _gain_by_dim(answer: ClusterAnswer) -> Table:
    sides = answer.sides
    rows = {
        ("1", f"{sides.top_k:,}"): (sides.baseline.capacity, sides.offload.capacity),
        **{(f"{each.dim}", f"{each.top_k:,}"): (each.baseline, each.offload) for each in answer.other_dims},
    }
    return make_table(
        "capacity of 8 workers and 2 servers without the hot set and with it, by the values of a row",
        _ONE,
        ("values of a row", "hot rows"),
        {"steps/s without": "{:,.0f}", "steps/s with": "{:,.0f}", "gain": "× {:.2f}"},
        {
            names: [without, with_hot_set, with_hot_set / without]
            for names, (without, with_hot_set) in rows.items()
        },
    )


def _gain_by_input(answer: ClusterAnswer) -> Table:
    rows: dict[tuple[str, ...], list[Cell]] = {
        (effect.input, effect.value, other.value): [other.gain]
        for effect in answer.effects
        for other in effect.effects
    }
    return make_table(
        "gain in capacity of S1 in 8 racks with another value of one input",
        _ONE,
        ("input", "value", "other value"),
        {"gain": "× {:.2f}"},
        rows,
    )


def _gain_of_chips(folder: Path) -> Table:
    answers = {names: _answer(folder, step.name) for names, step in _CHIPS.items()}
    without = answers["ideal", "20,000"].sides.baseline
    arms = {("none", "0"): without, **{names: each.sides.offload for names, each in answers.items()}}
    return make_table(
        "RPCs, packets and capacity of S1 in 8 racks by the kind of switch",
        _ONE,
        ("switch", "hot keys"),
        {
            "RPCs a step": "{:,.0f}", "packets to servers a step": "{:,.0f}", "steps/s": "{:,.0f}",
            "gain": "× {:.2f}",
        },
        {
            names: [
                arm.rpcs_per_step, arm.ps_packets_per_step, arm.capacity, arm.capacity / without.capacity
            ]
            for names, arm in arms.items()
        },
    )  # fmt: skip


ANSWERS = Stage(
    name="answers",
    minutes=6,
    results=("tofino-gain", "gain-by-input", "gain-by-dim"),
    steps=(*_CHIPS.values(), _SMALL),
    tables=answer_tables,
    modules=("hotline_answers.cluster_answer.ask", *modules_of("hotset", "none")),
    files=("p4src/**/*.json",),
    seeds=(1,),
)

_TRIALS = typed("trials", "python -m hotline_answers.gain_formula")
_FULL = 0.98
"""Utilization from which on servers are called full."""


def formula_tables(folder: Path) -> dict[str, Table]:
    trials = json_output(folder, _TRIALS.name)
    groups = {
        "all": trials,
        f"servers busy for {100 * _FULL:.0f} % or more": [t for t in trials if t["utilization"] >= _FULL],
        "less": [t for t in trials if t["utilization"] < _FULL],
    }
    rows: dict[tuple[str, ...], list[Cell]] = {}
    for name, found in groups.items():
        errors = [abs(each["error"]) for each in found]
        within = sum(error <= BOUND for error in errors)
        rows[name,] = [len(found), within, 100 * median(errors), 100 * max(errors)]
    columns = {
        "clusters": "{:.0f}", f"within {100 * BOUND:.0f} %": "{:.0f}", "median error": "{:.1f} %",
        "largest error": "{:.0f} %",
    }  # fmt: skip
    return {
        "gain-formula": make_table(
            "error of the gain in capacity by the formula", "simulated clusters, seeds 1 to 30", ("",),
            columns, rows,
        )
    }  # fmt: skip


FORMULA = Stage(
    name="gain-formula",
    minutes=2,
    results=("gain-formula",),
    steps=(_TRIALS,),
    tables=formula_tables,
    modules=("hotline_answers.gain_formula", *modules_of("hotset", "none")),
    files=("p4src/**/*.json",),
    seeds=tuple(SEEDS),
)

_REGIMES = typed("regimes", "python -m hotline_answers.regimes")


def regime_tables(folder: Path) -> dict[str, Table]:
    found = json_output(folder, _REGIMES.name)
    headings = ("switch", "values of a row", "added to an RPC at a server")

    def table(quantity: str, field: str, form: str, factor: float) -> Table:
        rows: dict[tuple[str, ...], list[Cell]] = {}
        for each in found:
            names = each["switch"], f"{each['dim']}", f"{each['serve_us']:g} µs"
            rows.setdefault(names, []).append(factor * each[field])
        return make_table(
            f"{quantity} by computing in a step, of a cluster of {WORKERS} workers and {SERVERS} servers at "
            "its capacity", _ONE, headings, {f"{ms:g} ms": form for ms in COMPUTE_MS}, rows,
        )  # fmt: skip

    return {
        "regimes": table("steps/s with a hot set as a multiple of those without", "gain", "× {:.2f}", 1),
        "regimes-busy": table("utilization of servers without a hot set", "servers_busy", "{:.0f} %", 100),
        "regimes-cpu": table("change of the servers' CPU a step", "servers_cpu", _CHANGE, 100),
    }


REGIMES = Stage(
    name="regimes",
    minutes=8,
    results=("regimes", "regimes-busy", "regimes-cpu"),
    steps=(_REGIMES,),
    tables=regime_tables,
    modules=("hotline_answers.regimes", *modules_of("hotset", "none")),
    files=("p4src/**/*.json",),
)

_INSTALL = (
    "python3 -m venv .venv && .venv/bin/pip install -q -e ./packages/softswitch -e . -e ./packages/agents "
    "-e ./packages/simulator -e ./packages/answers"
)
_EXAMPLE = "./hotline answer --workers 8 --servers 2 --data examples/clicks.csv --dim 16"
_TYPED = "./hotline answer --workers 80 --servers 20 --keys-per-step 3000 --rate 10000"
_LARGE = "./hotline answer --workers 2000 --servers 200 --racks 200"
ANSWER_TIMES = times_stage(
    "answer-times",
    6,
    "time of `answer` on two idle cores",
    (
        Timed("first-answer", {_INSTALL: "set-up", _EXAMPLE: "the first answer for a log"}, is_fresh=True),
        Timed("answers", {_TYPED: "80 workers and 20 servers", _LARGE: "2,000 workers and 200 servers"}),
    ),
    ("hotline_answers.cluster_answer.ask", *modules_of("hotset", "none")),
    "two quiet cores, and a package index",
)
STAGES = (ANSWERS, SWEEPS, FORMULA, REGIMES, NETWORKS, LEVELS, TRAINING, ANSWER_TIMES)
