from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.page.build import Page
from analysis.page.study import text_table, write_report
from analysis.wording import AnswerText, ReportTable, Span
from hotline_dense.alpha_beta import AlphaBetaModel, GradientSchedule
from hotline_dense.answers import COLUMNS, StepTimes, requirements_of, step_times
from hotline_dense.catalogue import DenseModel
from hotline_dense.figures import scaling_by_workers, scaling_map, timeline
from hotline_dense.fusion import Fusion
from hotline_dense.network import DenseNetwork
from hotline_dense.whatif import TARGET

_GLOSSARY = (
    ("scaling factor", "throughput on n workers, divided by n times the throughput on one"),
    ("all-reduce", "a collective after which all workers have the sum of all gradients"),
    ("buffer", "gradients that are sent together"),
    (
        "estimate",
        "a published time of a step, split by the layers' multiply-adds; the layers' times were not measured",
    ),
)
_HOW_TO_READ_WHATIF = (
    "T is the time of a step on one worker. All-reduces run one after the other, each as soon as its buffer "
    "is ready; the time they take after the end of backward is added to T. Bandwidth is used fully unless a "
    "curve is given, compression takes no time, and start-ups are counted only if given ([BOTTLENECK]).",
    "With a switch that sums, each gradient goes up once while the sum comes down, and no worker adds.",
)
_HOW_TO_READ_OVERLAP = (
    "A single all-reduce of s bytes takes α + β·s. While k of them transfer bytes, each takes f(k) times as "
    "long for its bytes; start-ups do not interfere. Each buffer is sent as soon as it is ready and fewer "
    "than the maximum number of all-reduces are under way, in the order of backward.",
    "MG-WFBP and ASC-WFBP merge as the later code of their authors does. That ASC-WFBP chooses the number "
    "of concurrent all-reduces with the earliest end is our reading of its abstract. “Best” is the fastest, "
    "in this model, of the other schedules and the schedules that a beam search finds.",
)


def write_whatif(
    models: Sequence[DenseModel], network: DenseNetwork, fusion: Fusion, folder: Path, target: float = TARGET
) -> Path:
    figures = [scaling_map(models, network, fusion, target), scaling_by_workers(models, network, fusion)]
    requirements = requirements_of(models, network, fusion, target)
    rows = [(each.model, f"{each.factor:.3f}", *each.cells()) for each in requirements]
    table = text_table(f"For a scaling factor of {target:g}", ("", "scaling factor", *COLUMNS), rows)
    page = Page(
        title="Is the network the bottleneck?",
        answers=[
            AnswerText(
                title=f"{network.workers} workers at {network.gbit:g} Gbit/s",
                headline=requirements[0].headline
                if len(requirements) == 1
                else f"What it takes for a scaling factor of {target:g}",
                is_trusted=True,
                sentences=tuple((Span(text=each.sentence),) for each in requirements),
            )
        ],
        provenance=[*_sources(models), *network.describe(), ("buffers", fusion.describe())],
        tables=[("Required network", [table])],
        how_to_read=_HOW_TO_READ_WHATIF,
        glossary=_GLOSSARY,
    )
    return write_report(page, figures, folder)


def write_overlap(
    models: Sequence[DenseModel],
    network: AlphaBetaModel,
    schedules: Mapping[str, Sequence[GradientSchedule]],
    folder: Path,
) -> Path:
    figures = [timeline(model, network, schedules[model.name]) for model in models]
    times = [step_times(model, network, schedules[model.name]) for model in models]
    page = Page(
        title="Which gradients to merge",
        provenance=[*_sources(models), *network.describe()],
        tables=[("Time of a step", [times_table(times)])],
        how_to_read=_HOW_TO_READ_OVERLAP,
        glossary=_GLOSSARY,
    )
    return write_report(page, figures, folder)


def times_table(times: Sequence[StepTimes]) -> ReportTable:
    names = list(times[0].step_ms)
    rows = [
        (each.model, *(f"{ms:,.1f}" for ms in (*(each.step_ms[name] for name in names), each.compute_ms)))
        for each in times
    ]
    return text_table("ms of a step", ("", *names, "without communication"), rows)


def _sources(models: Sequence[DenseModel]) -> list[tuple[str, str]]:
    return [(model.label, model.source) for model in models]
