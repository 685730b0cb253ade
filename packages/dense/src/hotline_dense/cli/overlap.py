from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from experiment.progress import progress_bar
from foundation.concurrency import run_interruptibly
from foundation.text import signed
from hotline.cli.common import (
    T,
    into_option,
    json_option,
    number_cells,
    one_line_errors,
    print_json,
    print_plain_table,
)
from hotline.cli.fields import fills
from hotline_dense.alpha_beta import AlphaBetaModel
from hotline_dense.catalogue import ModelTimes, open_models
from hotline_dense.cli.whatif import models_argument

if TYPE_CHECKING:
    from hotline_dense.alpha_beta import GradientSchedule
    from hotline_dense.answers import StepTimes
    from hotline_dense.catalogue import DenseModel
    from hotline_dense.gaps import Gap
    from hotline_dense.packets import ModelComparison

_SCHEDULERS = ("wfbp", "fixed", "mg-wfbp", "asc-wfbp", "best")
_MODELS = ("resnet152", "densenet201", "inceptionv4", "bert-base", "bert-large")


@click.command()
@models_argument
@fills(
    AlphaBetaModel,
    "network",
    alpha_us={"names": ("--alpha-ms",), "scale": 1e3},
    max_at_once={"names": ("--max-concurrent",)},
)
@click.option(
    "--scheduler",
    "scheduler_names",
    multiple=True,
    type=click.Choice(_SCHEDULERS),
    help="Compare only this scheduler; may be repeated. [default: all]",
)
@click.option("--tensors", is_flag=True, help="Count a module's weight and bias as two layers.")
@fills(ModelTimes, "times")
@click.option(
    "--gaps",
    "show_gaps",
    is_flag=True,
    help="Instead of MODEL: the gap between each scheduler and the optimum, over 1,000 random models.",
)
@click.option(
    "--packets", is_flag=True, help="Compare with a simulation of all frames in a ring of 8 workers."
)
@into_option("Folder for a page with timelines, and its figures.")
@json_option
def overlap(
    models: tuple[str, ...], network: AlphaBetaModel, scheduler_names: tuple[str, ...], tensors: bool,
    times: ModelTimes, show_gaps: bool, packets: bool, into: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Compare step times under schedulers of all-reduces.

    MODEL is a table of layers or a name, as for `hotline dense whatif`. The defaults are those of Shi et al.
    (INFOCOM 2021): their five models and their network, 8 nodes at 10 Gbit/s.
    """
    from hotline_dense.answers import step_times
    from hotline_dense.packets import compare_with_model
    from hotline_dense.page import write_overlap
    from hotline_dense.schedulers import SCHEDULERS

    step_ms = times.step_ms
    if show_gaps:
        if models or scheduler_names or tensors or step_ms or packets or into:
            raise click.UsageError(
                "--gaps uses random models: it allows only the network's options and --json"
            )
        _print_gaps(network, as_json)
        return
    with one_line_errors():
        loaded_models = open_models(models or _MODELS, step_ms and step_ms * 1e3)
        if not tensors:
            loaded_models = [replace(model, layers=model.layers.by_module()) for model in loaded_models]

        def make_schedules(model: DenseModel) -> list[GradientSchedule]:
            return [SCHEDULERS[name](model.layers, network) for name in scheduler_names or _SCHEDULERS]

        def compare_packets(model: DenseModel) -> list[ModelComparison]:
            return compare_with_model(model, network, schedules[model.name])

        names = [model.name for model in loaded_models]
        schedules = dict(zip(names, _map_models("models", loaded_models, make_schedules), strict=True))
        all_times = [step_times(model, network, schedules[model.name]) for model in loaded_models]
        comparisons = _map_models("rings", loaded_models, compare_packets) if packets else []
        # Not in a thread: the interpreter aborts if it ends while a thread draws a figure.
        page = into and write_overlap(loaded_models, network, schedules, into)
    if as_json:
        results = [each.model_dump() for each in all_times]
        # Without --packets there are no comparisons.
        for result, model_comparisons in zip(results, comparisons, strict=False):
            result["packets_ms"] = {each.schedule.scheduler: each.packets_ms for each in model_comparisons}
            result["gradients_ms"] = {each.schedule.scheduler: each.model_ms for each in model_comparisons}
        print_json(results)
        return
    click.echo("; ".join(f"{name}: {value}" for name, value in network.describe()))
    _print(all_times)
    for model, model_comparisons in zip(loaded_models, comparisons, strict=False):
        _print_comparison(model, model_comparisons)
    if page:
        click.echo(f"report: {page}")


def _print(times: list[StepTimes]) -> None:
    schedulers = list(times[0].step_ms)
    rows = [
        [each.model, *number_cells(*(f"{ms:,.1f}" for ms in (*each.step_ms.values(), each.compute_ms)))]
        for each in times
    ]
    click.echo("\nms of a step")
    print_plain_table(["model", *schedulers, "without communication"], rows)
    baseline = schedulers[0]
    if len(schedulers) > 1:
        click.echo(f"\nspeedup over {baseline} (buffers, maximum number at once)")
        speedups = [
            [each.model, *number_cells(*(_format_speedup(each, name, baseline) for name in schedulers[1:]))]
            for each in times
        ]
        print_plain_table(["model", *schedulers[1:]], speedups)


def _format_speedup(times: StepTimes, name: str, baseline: str) -> str:
    return f"{times.speedup(name, baseline):.2f} ({times.buffers[name]}, {times.at_once[name]})"


def _map_models(label: str, models: list[DenseModel], compute: Callable[[DenseModel], T]) -> list[T]:
    with progress_bar(label) as progress:
        results = []
        for done, model in enumerate(models):
            progress(done, len(models))
            results.append(run_interruptibly(partial(compute, model)))
        return results


def _print_comparison(model: DenseModel, comparisons: list[ModelComparison]) -> None:
    click.echo(f"\n{model.label}: ms from the start of backward until all gradients are reduced")
    rows = [
        [
            each.schedule.scheduler,
            each.schedule.at_once,
            *number_cells(
                f"{each.model_ms:,.1f}", f"{each.packets_ms:,.1f}", f"{signed(100 * each.deviation, 1)}%"
            ),
        ]
        for each in comparisons
    ]
    print_plain_table(["scheduler", "at once", "model", "frames", "difference"], rows)


def _print_gaps(network: AlphaBetaModel, as_json: bool) -> None:
    from dataclasses import asdict

    from hotline_dense.gaps import MODELS, gaps

    with progress_bar("random models") as progress:
        gap_by_scheduler = run_interruptibly(lambda: gaps(network, progress=progress))
    if as_json:
        print_json({name: asdict(gap) for name, gap in gap_by_scheduler.items()})
        return
    click.echo(f"delay against the optimum, over {MODELS:,} random models of 2 to 12 layers")
    rows = [[name, *number_cells(*_format_gap(gap))] for name, gap in gap_by_scheduler.items()]
    print_plain_table(["scheduler", "mean", "p99", "largest", "models at optimum"], rows)


def _format_gap(gap: Gap) -> tuple[str, str, str, str]:
    return f"{gap.mean:.2%}", f"{gap.p99:.2%}", f"{gap.largest:.2%}", f"{gap.optimal_share:.1%}"
