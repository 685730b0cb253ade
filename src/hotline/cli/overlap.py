"""`hotline overlap`: what to send when, while backward goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from experiment.bars import progress_bar
from foundation.concurrency import run_interruptibly
from hotline.cli.common import (
    Number,
    json_option,
    numbers,
    one_line_errors,
    plain_table,
    print_json,
)

if TYPE_CHECKING:
    from studies.dense.catalogue import Model
    from studies.dense.gaps import Gap
    from studies.dense.packets import Contended
    from studies.dense.play import Collectives, Plan
    from studies.dense.told import Times

_SCHEDULERS = ("wfbp", "fixed", "mg-wfbp", "asc-wfbp", "best")
_MODELS = ("resnet152", "densenet201", "inceptionv4", "bert-base", "bert-large")
_INTO = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@click.option(
    "--alpha-ms",
    default=1.37,
    show_default=True,
    type=Number(0, 1e4),
    help="α: start-up time of an all-reduce.",
)
@click.option(
    "--beta-ns",
    default=1.66,
    show_default=True,
    type=Number(1e-6, 1e6),
    help="β: time that an all-reduce takes for each byte, alone.",
)
@click.option(
    "--sharing",
    default=0.5,
    show_default=True,
    type=Number(0, 10),
    help="With k under way a byte takes 1 + SHARING·(k - 1) times as long. 1: a link that is shared fairly.",
)
@click.option(
    "--most",
    default=2,
    show_default=True,
    type=click.IntRange(1, 8),
    help="Largest number of all-reduces under way at a time.",
)
@click.option(
    "--scheduler",
    "names",
    multiple=True,
    type=click.Choice(_SCHEDULERS),
    help="Only this one; may be repeated. [default: all]",
)
@click.option("--tensors", is_flag=True, help="Take a module's weight and bias for two layers.")
@click.option(
    "--step-ms",
    type=Number(0.001, 1e6),
    help="Time of a step on one worker, for a table without forward_us; scales an estimate.",
)
@click.option(
    "--gaps",
    "show_gaps",
    is_flag=True,
    help="Instead of MODEL: how far each scheduler is from the optimum, over 1,000 random models.",
)
@click.option(
    "--packets", is_flag=True, help="Beside the model, send the buffers as frames in a ring of 8 workers."
)
@click.option("--into", type=_INTO, help="Folder for a page with timelines, and its figures.")
@json_option
def overlap(
    models: tuple[str, ...], alpha_ms: float, beta_ns: float, sharing: float, most: int,
    names: tuple[str, ...], tensors: bool, step_ms: float | None, show_gaps: bool, packets: bool,
    into: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Tell how long a step takes under schedulers of all-reduces.

    MODEL is a table of layers or a name, as for `hotline whatif`; without it the five of Shi et al. (INFOCOM
    2021) are asked about. Unless told otherwise the network is theirs: 8 nodes at 10 Gbit/s.
    """
    from studies.dense.catalogue import open_models
    from studies.dense.page import write_overlap
    from studies.dense.play import Collectives
    from studies.dense.schedulers import SCHEDULERS
    from studies.dense.told import times_of

    network = Collectives(alpha_us=alpha_ms * 1e3, beta_ns=beta_ns, sharing=sharing, most=most)
    if show_gaps:
        if models or names or tensors or step_ms or packets or into:
            raise click.UsageError(
                "--gaps is of random models: only the network's options and --json go with it"
            )
        _gaps(network, as_json)
        return
    with one_line_errors():
        opened = open_models(models or _MODELS, step_ms and step_ms * 1e3)
        if not tensors:
            opened = [replace(model, layers=model.layers.by_module()) for model in opened]
        with progress_bar("models") as progress:
            plans = {}
            for done, model in enumerate(opened):
                progress(done, len(opened))
                plans[model.name] = run_interruptibly(
                    lambda layers=model.layers: [  # type: ignore[misc]  # mypy knows no defaults of lambdas
                        SCHEDULERS[name](layers, network) for name in names or _SCHEDULERS
                    ]
                )
        found = [times_of(model, network, plans[model.name]) for model in opened]
        carried = _carried(opened, network, plans) if packets else []
        # Not in a thread: a figure that is being drawn when the interpreter ends would have it abort.
        page = into and write_overlap(opened, network, plans, into)
    if as_json:
        told = [each.model_dump() for each in found]
        for each, frames in zip(told, carried, strict=False):
            each["packets_ms"] = {of.plan.scheduler: of.packets_ms for of in frames}
            each["gradients_ms"] = {of.plan.scheduler: of.model_ms for of in frames}
        print_json(told)
        return
    click.echo("; ".join(f"{name}: {value}" for name, value in network.told()))
    _print(found)
    for model, frames in zip(opened, carried, strict=False):
        _print_carried(model, frames)
    if page:
        click.echo(f"report: {page}")


def _print(found: list[Times]) -> None:
    from rich.console import Console

    names = list(found[0].step_ms)
    rows: list[list[object]] = [
        [each.model, *numbers(*(f"{ms:,.1f}" for ms in (*each.step_ms.values(), each.compute_ms)))]
        for each in found
    ]
    click.echo("\nms of a step")
    console = Console(width=120)
    console.print(plain_table(["model", *names, "computing alone"], rows))
    first = names[0]
    if len(names) > 1:
        click.echo(f"\nhow many times as fast as {first} (buffers, at once)")
        faster: list[list[object]] = [
            [each.model, *numbers(*(_faster(each, name, first) for name in names[1:]))] for each in found
        ]
        console.print(plain_table(["model", *names[1:]], faster))


def _faster(of: Times, name: str, than: str) -> str:
    return f"{of.faster(name, than):.2f} ({of.buffers[name]}, {of.at_once[name]})"


def _carried(
    models: list[Model], network: Collectives, plans: dict[str, list[Plan]]
) -> list[list[Contended]]:
    from studies.dense.packets import beside_model

    with progress_bar("rings") as progress:
        found = []
        for done, model in enumerate(models):
            progress(done, len(models))
            found.append(
                run_interruptibly(lambda model=model: beside_model(model, network, plans[model.name]))  # type: ignore[misc]  # as above
            )
        return found


def _print_carried(model: Model, frames: list[Contended]) -> None:
    from rich.console import Console

    click.echo(f"\n{model.shown}: ms since backward began until all gradients are there")
    rows: list[list[object]] = [
        [
            of.plan.scheduler,
            of.plan.at_once,
            *numbers(f"{of.model_ms:,.1f}", f"{of.packets_ms:,.1f}", f"{of.apart:+.1%}"),
        ]
        for of in frames
    ]
    Console(width=120).print(plain_table(["scheduler", "at once", "model", "frames", "apart"], rows))


def _gaps(network: Collectives, as_json: bool) -> None:
    from dataclasses import asdict

    from rich.console import Console

    from studies.dense.gaps import MODELS, gaps

    with progress_bar("random models") as progress:
        found = run_interruptibly(lambda: gaps(network, progress=progress))
    if as_json:
        print_json({name: asdict(gap) for name, gap in found.items()})
        return
    click.echo(f"later than the optimum, over {MODELS:,} random models of 2 to 12 layers")
    rows: list[list[object]] = [[name, *numbers(*_cells(gap))] for name, gap in found.items()]
    Console(width=120).print(plain_table(["scheduler", "mean", "p99", "largest", "is the optimum"], rows))


def _cells(gap: Gap) -> tuple[str, str, str, str]:
    return f"{gap.mean:.2%}", f"{gap.p99:.2%}", f"{gap.largest:.2%}", f"{gap.reached:.1%}"
