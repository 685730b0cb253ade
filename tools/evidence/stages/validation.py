"""Real runs of many configurations beside their simulations: how far the simulator is off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from analysis.summary import Summary
from tools.evidence.result import Cell, Measured, Table, make_table
from tools.evidence.stage import REAL_RUN, Stage, Step, modules_of
from tools.evidence.stages.real_runs import PROGRAM_FILES, run_step, summary_of_step
from tools.evidence.validation import (
    CAPACITY,
    LATENCY,
    SERVER_CPU,
    WORKER_CPU_CHANGE,
    Prediction,
    Predictions,
    Score,
    predictions_of,
    scores,
)

Setting: TypeAlias = int | float | str | tuple[float, ...] | tuple[str, ...]
Settings: TypeAlias = Mapping[str, Setting]
"""Settings of a run by their names in run.toml; those of a table have a dot."""

CONFIGURATIONS: Mapping[str, Settings] = {
    "default": {},
    "2 workers": {"workers": 2},
    "8 workers": {"workers": 8},
    "16 workers, 4 servers": {"workers": 16, "servers": 4},
    "1 server": {"servers": 1},
    "4 servers": {"servers": 4},
    "1,000 keys a step": {"workload.keys_per_step": 1_000},
    "10,000 keys a step": {"workload.keys_per_step": 10_000},
    "2,000 hot keys": {"top_k": 2_000},
    "rows of 4": {"dim": 4},
    "rows of 16": {"dim": 16},
    "rows of 64": {"dim": 64},
    "skew 25 %": {"workload.hot_share": 0.25},
    "skew 75 %": {"workload.hot_share": 0.75},
    "load 0.25": {"loads": (0.25,)},
    "load 0.8": {"loads": (0.8,)},
    "`collect`": {"design": "collect", "arms": ("collect-baseline", "collect")},
}
"""Each differs from the default run in what its name says; 0.5 is the load of the others."""
SEED = 76
_SHORT: Settings = {
    "arms": ("baseline", "offload"), "loads": (0.5,), "rounds": 12, "block_ms": 1_500, "seed": SEED
}  # fmt: skip
"""Two arms and one load, so that a run of 12 rounds takes one to two minutes."""
_POINTS, _PERCENT = "{:+.1f}", "{:+.0f} %"


def run_toml(name: str, **changes: Setting) -> str:
    """Return the settings of a configuration's run as lines of TOML."""
    settings: dict[str, Setting] = {**_SHORT, **CONFIGURATIONS[name], **changes}
    tables: dict[str, dict[str, Setting]] = {"": {}}
    for key, value in settings.items():
        table, _, field = key.rpartition(".")
        tables.setdefault(table, {})[field] = value
    lines: list[str] = []
    for table, fields in tables.items():
        lines += [f"[{table}]"] if table else []
        lines += [f"{field} = {_as_toml(value)}" for field, value in fields.items()]
    return "\n".join(lines) + "\n"


def _as_toml(value: Setting) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_as_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else f"{value}"


def step_name(name: str) -> str:
    """Return the folder of a configuration's step."""
    return "-".join("".join(c if c.isalnum() else " " for c in name.replace(",", "")).split())


def _steps() -> Iterator[Step]:
    for name in CONFIGURATIONS:
        shown = f"./hotline run CONFIG={step_name(name)}.toml"
        yield run_step(step_name(name), settings=run_toml(name), shown=shown)


def tables(folder: Path) -> dict[str, Table]:
    runs = {name: summary_of_step(folder, step_name(name)) for name in CONFIGURATIONS}
    found = {name: predictions_of(name, summary) for name, summary in runs.items()}
    return {
        "validation": _claims(runs),
        "validation-cpu": _changes(found),
        "validation-levels": _levels(found),
    }


def _claims(runs: Mapping[str, Summary]) -> Table:
    # Servers that collect do more than answer, and would outweigh all other errors.
    answering = {name: run for name, run in runs.items() if "design" not in CONFIGURATIONS[name]}
    return make_table(
        "error of simulations by claim",
        "simulated less measured, over the configurations without `collect`; the bias has its 95 % interval",
        ("claim",),
        {
            "predictions": "{:.0f}", "bias": _POINTS, "spread": "{:.1f}", "goal": "{:.0f}",
            "within it": "{:.0f} %", "met": "{:.0f}", "right signs": "{:.0f}",
            "misses, largest error": "{:.0f}",
        },
        {(f"{each.claim.title}, {each.claim.unit}",): _of_claim(each) for each in scores(answering)},
    )  # fmt: skip


def _of_claim(found: Score) -> list[Cell]:
    signs = None if found.signs is None else f"{found.signs[0]} of {found.signs[1]}"
    return [
        float(found.predictions), found.bias, found.spread, found.claim.goal_text, 100 * found.within_goal,
        "yes" if found.is_met else "no", signs, "; ".join(found.misses) or "none",
    ]  # fmt: skip


def _changes(found: Mapping[str, Predictions]) -> Table:
    def cells(of_run: Predictions) -> Iterator[Cell]:
        for claim in (SERVER_CPU, WORKER_CPU_CHANGE):
            [prediction] = of_run[claim]
            yield prediction.predicted
            yield _measured(prediction)
            yield prediction.error

    columns = {
        f"{who}, {what}": form
        for who in ("servers", "workers")
        for what, form in {"simulated": "{:+.1f} %", "measured": "{:+.1f} %", "error": _POINTS}.items()
    }
    return make_table(
        "change of CPU time by the switch, simulated and measured",
        "of one run; what was measured has its interval, and the error is in points",
        ("configuration",),
        columns,
        {(name,): list(cells(of_run)) for name, of_run in found.items()},
    )


def _measured(prediction: Prediction) -> Cell:
    if prediction.low is None or prediction.high is None:
        return prediction.measured
    return Measured(value=prediction.measured, low=prediction.low, high=prediction.high)


def _levels(found: Mapping[str, Predictions]) -> Table:
    names = [
        *(f"{op}, {arm}" for op in ("pull", "push") for arm in ("baseline", "lead")),
        "steps/s, lead",
    ]
    return make_table(
        "relative error of simulated times and capacities",
        "simulated against measured in one run, in per cent of what was measured",
        ("configuration",),
        dict.fromkeys(names, _PERCENT),
        {
            (name,): [prediction.error for claim in (LATENCY, CAPACITY) for prediction in of_run[claim]]
            for name, of_run in found.items()
        },
    )


VALIDATION = Stage(
    name="validation",
    minutes=2 * len(CONFIGURATIONS),
    results=("validation", "validation-cpu", "validation-levels"),
    steps=tuple(_steps()),
    tables=tables,
    modules=(*REAL_RUN, *modules_of("collect"), "hotline_simulator.dedicated_switch.simulate"),
    files=PROGRAM_FILES,
    seeds=(SEED,),
    needs="two quiet cores and root",
)
