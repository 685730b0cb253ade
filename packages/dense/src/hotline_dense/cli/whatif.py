from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import Field

from experiment.progress import progress_bar
from foundation.concurrency import run_interruptibly
from foundation.text import signed
from hotline.cli.common import (
    into_option,
    json_option,
    number_cells,
    one_line_errors,
    print_json,
    print_plain_table,
)
from hotline.cli.fields import fills
from hotline_dense import DenseError
from hotline_dense.catalogue import MEASURED_MODELS, ModelTimes, open_models
from hotline_dense.fusion import MIB, PRESETS, Fusion
from hotline_dense.network import DenseNetwork, read_utilisation
from hotline_dense.whatif import PAPER_FUSION, TARGET

if TYPE_CHECKING:
    from hotline_dense.answers import Requirements
    from hotline_dense.catalogue import DenseModel
    from hotline_dense.packets import FormulaComparison
    from hotline_dense.whatif import ModelRow

models_argument = click.argument("models", nargs=-1, metavar="[MODEL]...")


def _share_or_curve(text: str) -> object:
    try:
        share = float(text)
    except ValueError:
        with one_line_errors():
            return read_utilisation(Path(text))
    if not 0 < share <= 1:
        raise click.BadParameter(f"expected a share above 0 and up to 1, or a file, got {text}")
    return share


class WhatIfSettings(ModelTimes):
    target: float = Field(default=TARGET, ge=0.01, le=0.999)
    """Find the bandwidth and compression that reach this scaling factor."""


@click.command()
@models_argument
@fills(DenseNetwork, "network", utilisation={"type": _share_or_curve, "metavar": "SHARE|FILE"})
@click.option(
    "--fusion",
    "preset",
    type=click.Choice(list(PRESETS)),
    help="When a buffer is sent: the default of other software, each layer by itself, or all at the end. "
    "[default: horovod-0.20, which is 5 ms and 64 MiB; or by the next three options]",
)
@fills(
    Fusion,
    "fusion",
    cycle_us={"names": ("--cycle-ms",), "scale": 1e3},
    max_bytes={"names": ("--buffer-mib",), "scale": MIB},
    first_bytes={"names": ("--first-buffer-mib",), "scale": MIB},
)
@fills(WhatIfSettings, "settings")
@click.option(
    "--packets", is_flag=True, help="Compare with a simulation of all frames in rings of 4, 8 and 16 workers."
)
@into_option("Folder for a page with a map, and its figures.")
@json_option
def whatif(
    models: tuple[str, ...], network: DenseNetwork, preset: str | None, fusion: Fusion,
    settings: WhatIfSettings, packets: bool, into: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Compute how much a better network would speed up dense training.

    Also computes the speed-up by compression, and by a switch that sums gradients.

    MODEL is a table of layers, CSV or Parquet with the columns layer,bytes,backward_us,forward_us, or
    resnet50, resnet101, resnet152, vgg16, densenet201, inceptionv4, bert-base, bert-large or dlrm. The
    default is the three models of Zhang et al. (NetAI 2020), whose table is then printed, too.
    """
    from hotline_dense.answers import requirements_of
    from hotline_dense.page import write_whatif

    if packets and network.aggregation != "ring":
        raise click.UsageError(f"--packets simulates rings: leave out --aggregation {network.aggregation}")
    if packets and network.utilisation != 1:
        raise click.UsageError("--packets uses links fully: leave out --utilisation")
    if packets and network.per_machine > 1:
        raise click.UsageError(
            f"--packets gives each worker a network card: leave out --per-machine {network.per_machine}"
        )
    if network.sums_locally and network.per_machine == 1:
        raise click.UsageError("--sums-locally needs --per-machine with at least 2 workers, got 1")
    fusion_rule = _select_fusion(preset, fusion)
    target, step_ms = settings.target, settings.step_ms
    with one_line_errors():
        if network.servers is not None and network.aggregation != "servers":
            raise DenseError(
                f"--servers {network.servers}: expected --aggregation servers, got {network.aggregation}"
            )
        loaded_models = open_models(models or MEASURED_MODELS, step_ms and step_ms * 1e3)
        requirements = run_interruptibly(lambda: requirements_of(loaded_models, network, fusion_rule, target))
        comparisons = _compare_packets(loaded_models, network, fusion_rule) if packets else []
        # Not in a thread: the interpreter aborts if it ends while a thread draws a figure.
        page = into and write_whatif(loaded_models, network, fusion_rule, into, target)
    if as_json:
        rings = {"packets": [each.model_dump() for each in comparisons]} if packets else {}
        print_json({**_as_json(requirements, with_table=not models), **rings})
        return
    if not models:
        _print_paper_table()
    described = [*network.describe(), ("buffers", fusion_rule.describe())]
    click.echo("; ".join(f"{name}: {value}" for name, value in described))
    _print(requirements)
    if comparisons:
        _print_comparisons(comparisons)
    if page:
        click.echo(f"report: {page}")


def _select_fusion(preset: str | None, fusion: Fusion) -> Fusion:
    if fusion.first_bytes is not None and fusion.max_bytes is None:
        raise click.UsageError(f"--first-buffer-mib ({fusion.first_bytes / MIB:g}) needs --buffer-mib")
    if fusion == Fusion():
        return PAPER_FUSION if preset is None else PRESETS[preset]
    if preset is not None:
        raise click.UsageError("--cycle-ms and --buffer-mib replace --fusion: leave it out")
    return fusion


def _print_paper_table() -> None:
    from hotline_dense.whatif import CLAIMED_COMPRESSION, SETUPS, SMALL_SETUP, bottleneck_rows

    click.echo(
        "Scaling factors of 64 workers in a ring, from the logs and fusion rule of Zhang et al. (NetAI 2020)"
    )
    models = list(bottleneck_rows())
    rows = [
        [
            row.model.title,
            *number_cells(f"{row.model.layers.bytes / 1e6:.0f}", row.messages),
            *number_cells(*(f"{factor:.3f}" for factor in (*row.factors, row.small_factor))),
        ]
        for row in models
    ]
    setups = (*(setup.title for setup in SETUPS), f"{SMALL_SETUP.title}, {SMALL_SETUP.workers} workers")
    print_plain_table(["model", "MB", "buffers", *setups], rows)
    low, high = CLAIMED_COMPRESSION
    click.echo(
        f'"Compression by {low:g}× to {high:g}× is enough at 10 Gbit/s": for a scaling factor of {TARGET:g} '
        f"that holds for {_list_compressions(models, as_claimed=True)}, "
        f"and not for {_list_compressions(models, as_claimed=False)}.\n"
    )


def _list_compressions(rows: list[ModelRow], as_claimed: bool) -> str:
    return " and ".join(
        f"{row.model.title} ({row.compression:.2f}×)" for row in rows if row.is_as_claimed == as_claimed
    )


def _print(requirements: list[Requirements]) -> None:
    for each in requirements:
        click.echo(each.sentence)
        if each.is_estimate:
            click.echo(
                "  Its times are an estimate: a published step time, split by the layers' shares of FLOPs."
            )


def _compare_packets(
    models: list[DenseModel], network: DenseNetwork, fusion: Fusion
) -> list[FormulaComparison]:
    from hotline_dense.packets import compare_with_formula

    with progress_bar("rings") as progress:
        return run_interruptibly(
            lambda: [
                each
                for model in models
                for each in compare_with_formula(model, network, fusion, progress=progress)
            ]
        )


def _print_comparisons(comparisons: list[FormulaComparison]) -> None:
    click.echo(
        "\nEnd of the last all-reduce, in ms from the start of backward: by formula, and by simulated frames"
    )
    rows = [
        [
            each.model,
            each.workers,
            *number_cells(
                f"{each.formula_ms:,.1f}",
                f"{each.with_headers_ms:,.1f}",
                f"{each.packets_ms:,.1f}",
                f"{signed(100 * each.deviation, 2)}%",
                f"{each.frames:,}",
            ),
        ]
        for each in comparisons
    ]
    print_plain_table(
        ["model", "workers", "formula", "with headers", "simulated", "difference", "frames"], rows
    )


def _as_json(requirements: list[Requirements], with_table: bool) -> dict[str, object]:
    from hotline_dense.whatif import SETUPS, SMALL_SETUP, bottleneck_rows

    answer: dict[str, object] = {"models": [each.model_dump() for each in requirements]}
    if with_table:
        answer["table"] = {
            row.model.name: {
                "bytes": row.model.layers.bytes,
                "buffers": row.messages,
                **{setup.title: factor for setup, factor in zip(SETUPS, row.factors, strict=True)},
                f"{SMALL_SETUP.title}, {SMALL_SETUP.workers} workers": row.small_factor,
                "10G, compression needed": row.compression,
            }
            for row in bottleneck_rows()
        }
    return answer
