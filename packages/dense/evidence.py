"""Dense training: the tables of packages/dense/README.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hotline_dense.answers import Requirements, StepTimes
from tools.evidence.result import Cell, Table, make_table
from tools.evidence.stage import Stage, json_output, typed

_PAPER = typed("whatif", "./hotline dense whatif --json")
_LARGE = typed("whatif-bert-large", "./hotline dense whatif bert-large --json")
_OVERLAP = typed("overlap", "./hotline dense overlap --json")
_GAPS = typed("gaps", "./hotline dense overlap --gaps --json")
_TITLES = {"resnet50": "ResNet-50", "resnet101": "ResNet-101", "vgg16": "VGG-16"}
_SCHEDULERS = {
    "wfbp": "WFBP", "fixed": "fixed buffers", "mg-wfbp": "MG-WFBP", "asc-wfbp": "ASC-WFBP", "best": "best"
}  # fmt: skip
PUBLISHED_SPEEDUPS = (1.82, 2.48, 1.91, 1.09, 1.09)
"""ASC-WFBP over WFBP, from Shi et al. (INFOCOM 2021), by the models of `hotline dense overlap`, in order."""


def tables(folder: Path) -> dict[str, Table]:
    paper, large = json_output(folder, _PAPER.name), json_output(folder, _LARGE.name)
    required = [Requirements.model_validate(each) for each in (*paper["models"], *large["models"])]
    times = [StepTimes.model_validate(each) for each in json_output(folder, _OVERLAP.name)]
    return {
        "dense-scaling": _scaling(paper["table"]),
        "dense-required": _required(required),
        "dense-gaps": _gaps(json_output(folder, _GAPS.name)),
        "dense-schedulers": _schedulers(times),
    }


def _scaling(by_model: Mapping[str, Mapping[str, Any]]) -> Table:  # JSON
    not_factors = ("bytes", "buffers", "10G, compression needed")
    setups = [name for name in next(iter(by_model.values())) if name not in not_factors]
    return make_table(
        "scaling factors of 64 workers in a ring",
        "computed from measured times of layers",
        ("model",),
        {"MB": "{:.0f}", "buffers": "{:.0f}", **dict.fromkeys(setups, "{:.3f}")},
        {
            (_TITLES[name],): [row["bytes"] / 1e6, row["buffers"], *(row[setup] for setup in setups)]
            for name, row in by_model.items()
        },
    )


def _required(models: list[Requirements]) -> Table:
    return make_table(
        "network for a scaling factor of 0.9 with 64 workers",
        "computed from times of layers",
        ("model",),
        {
            "bandwidth, no compression": "{:.1f} Gbit/s",
            "compression at 10 Gbit/s": "{:.2f}×",
            "the same with a switch that sums": "{:.2f}×",
        },
        {(each.model,): [each.gbit, each.compression, each.compression_with_switch] for each in models},
    )


def _gaps(by_scheduler: Mapping[str, Mapping[str, float]]) -> Table:
    fields = {"mean": "{:.1f} %", "p99": "{:.1f} %", "largest": "{:.2f} %", "optimal_share": "{:.1f} %"}
    titles = {"optimal_share": "models at optimum"}
    return make_table(
        "how much later than the optimum the last gradient arrives",
        "over 1,000 random models",
        ("scheduler",),
        {titles.get(field, field): form for field, form in fields.items()},
        {
            (_SCHEDULERS[name],): [100 * gap[field] for field in fields] for name, gap in by_scheduler.items()
        },
    )  # fmt: skip


def _schedulers(models: list[StepTimes]) -> Table:
    def cells(times: StepTimes, published: float) -> Iterator[Cell]:
        yield from times.step_ms.values()
        yield times.speedup("ASC-WFBP", "WFBP")
        yield published
        yield times.speedup("ASC-WFBP", "MG-WFBP")

    milliseconds = {f"{name}, ms": "{:,.0f}" for name in models[0].step_ms}
    ratios = ("ASC-WFBP over WFBP", "the same, published", "ASC-WFBP over MG-WFBP")
    return make_table(
        "time of a step by scheduler, and its ratios",
        "computed from estimated times of layers",
        ("model (all estimates)",),
        {**milliseconds, **dict.fromkeys(ratios, "{:.2f}")},
        {
            (each.model.removesuffix(" (estimate)"),): list(cells(each, published))
            for each, published in zip(models, PUBLISHED_SPEEDUPS, strict=True)
        },
    )


DENSE = Stage(
    name="dense",
    minutes=3,
    results=("dense-scaling", "dense-required", "dense-gaps", "dense-schedulers"),
    steps=(_PAPER, _LARGE, _OVERLAP, _GAPS),
    tables=tables,
    modules=("hotline_dense.answers", "hotline_dense.gaps", "hotline_dense.whatif"),
    files=("packages/dense/src/hotline_dense/models/*",),
    seeds=(1,),
)
STAGES = (DENSE,)
