from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from experiment.progress import progress_bar
from foundation.concurrency import run_interruptibly
from hotline.cli.common import (
    Number,
    into_option,
    json_option,
    number_cells,
    one_line_errors,
    print_json,
    print_plain_table,
)

if TYPE_CHECKING:
    from hotline_dense.answers import Requirements
    from hotline_dense.catalogue import DenseModel
    from hotline_dense.fusion import Fusion
    from hotline_dense.network import DenseNetwork
    from hotline_dense.packets import FormulaComparison
    from hotline_dense.whatif import ModelRow

models_argument = click.argument("models", nargs=-1, metavar="[MODEL]...")
step_ms_option = click.option(
    "--step-ms",
    type=Number(0.001, 1e6),
    help="Time of a step on one worker, for a table without forward_us; scales all times of an estimate.",
)


@click.command()
@models_argument
@click.option(
    "--workers",
    default=64,
    type=click.IntRange(2, 100_000),
    help="Number of workers.",
)
@click.option(
    "--gbit",
    default=10.0,
    type=Number(0.001, 100_000),
    help="Bandwidth of each link, in Gbit/s.",
)
@click.option(
    "--compression",
    default=1.0,
    type=Number(1, 10_000),
    help="Compression ratio.",
)
@click.option(
    "--aggregation",
    default="ring",
    type=click.Choice(["ring", "tree", "servers", "switch"]),
    help="Where gradients are summed.",
)
@click.option(
    "--servers",
    type=click.IntRange(1, 100_000),
    help="Number of parameter servers. [default: as many as workers]",
)
@click.option(
    "--per-machine",
    default=1,
    type=click.IntRange(1, 100_000),
    help="Workers (GPUs) of a machine, which share its network card of --gbit.",
)
@click.option(
    "--sums-locally",
    is_flag=True,
    help="With --per-machine: the workers of a machine add up their gradients before the machine sends them.",
)
@click.option(
    "--fusion",
    type=click.Choice(["horovod-0.20", "horovod-0.21", "pytorch-ddp-2", "dear", "layers", "whole"]),
    help="When a buffer is sent: the default of other software, each layer by itself, or all at the end. "
    "[default: horovod-0.20, which is 5 ms and 64 MiB]",
)
@click.option(
    "--cycle-ms", type=Number(0, 1e6), help="Instead of --fusion: send after this many ms of backward, ..."
)
@click.option("--buffer-mib", type=Number(0, 1e6), help="... or as soon as this many MiB are ready.")
@click.option(
    "--first-buffer-mib",
    type=Number(0, 1e6),
    help="With --buffer-mib: MiB of the first buffer, of the last layers. PyTorch's DistributedDataParallel "
    "has 1, and then 25.",
)
@click.option(
    "--utilisation",
    metavar="SHARE|FILE",
    default="1",
    help="Achieved share of a link's bandwidth. FILE is a CSV with the columns gbit,utilisation.",
)
@click.option(
    "--startup-us",
    default=0.0,
    type=Number(0, 1e6),
    help="Start-up time of each step of a collective.",
)
@click.option(
    "--target",
    default=0.9,
    type=Number(0.01, 0.999),
    help="Find the bandwidth and compression that reach this scaling factor.",
)
@step_ms_option
@click.option(
    "--packets", is_flag=True, help="Compare with a simulation of all frames in rings of 4, 8 and 16 workers."
)
@into_option("Folder for a page with a map, and its figures.")
@json_option
def whatif(
    models: tuple[str, ...], per_machine: int, sums_locally: bool, aggregation: str, servers: int | None,
    fusion: str | None, cycle_ms: float | None, buffer_mib: float | None, first_buffer_mib: float | None,
    utilisation: str, target: float, step_ms: float | None, packets: bool, into: Path | None, as_json: bool,
    **network_settings: object,
) -> None:  # fmt: skip
    """Compute how much a better network would speed up dense training.

    Also computes the speed-up by compression, and by a switch that sums gradients.

    MODEL is a table of layers, CSV or Parquet with the columns layer,bytes,backward_us,forward_us, or
    resnet50, resnet101, resnet152, vgg16, densenet201, inceptionv4, bert-base, bert-large or dlrm. The
    default is the three models of Zhang et al. (NetAI 2020), whose table is then printed, too.
    """
    from hotline_dense.answers import requirements_of
    from hotline_dense.catalogue import MEASURED_MODELS, open_models
    from hotline_dense.page import write_whatif

    if packets and aggregation != "ring":
        raise click.UsageError(f"--packets simulates rings: leave out --aggregation {aggregation}")
    if packets and utilisation != "1":
        raise click.UsageError("--packets uses links fully: leave out --utilisation")
    if packets and per_machine > 1:
        raise click.UsageError(
            f"--packets gives each worker a network card: leave out --per-machine {per_machine}"
        )
    if sums_locally and per_machine == 1:
        raise click.UsageError("--sums-locally needs --per-machine with at least 2 workers, got 1")
    fusion_rule = _make_fusion(fusion, cycle_ms, buffer_mib, first_buffer_mib)
    with one_line_errors():
        cards = {"per_machine": per_machine, "sums_locally": sums_locally}
        network = _make_network(aggregation, servers, utilisation, {**network_settings, **cards})
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
    settings = [*network.describe(), ("buffers", fusion_rule.describe())]
    click.echo("; ".join(f"{name}: {value}" for name, value in settings))
    _print(requirements)
    if comparisons:
        _print_comparisons(comparisons)
    if page:
        click.echo(f"report: {page}")


def _make_network(
    aggregation: str, servers: int | None, utilisation: str, settings: Mapping[str, object]
) -> DenseNetwork:
    from hotline_dense import DenseError
    from hotline_dense.network import DenseNetwork, read_utilisation

    try:
        link_share: object = float(utilisation)
    except ValueError:
        link_share = read_utilisation(Path(utilisation))
    if isinstance(link_share, float) and not 0 < link_share <= 1:
        raise DenseError(f"--utilisation {utilisation}: expected a share above 0 and up to 1, or a file")
    if servers is not None and aggregation != "servers":
        raise DenseError(f"--servers {servers}: expected --aggregation servers, got {aggregation}")
    return DenseNetwork.model_validate(
        {**settings, "aggregation": aggregation, "servers": servers, "utilisation": link_share}
    )


def _make_fusion(
    preset: str | None, cycle_ms: float | None, buffer_mib: float | None, first_buffer_mib: float | None
) -> Fusion:
    from hotline_dense.fusion import MIB, PRESETS, Fusion

    if first_buffer_mib is not None and buffer_mib is None:
        raise click.UsageError(f"--first-buffer-mib ({first_buffer_mib:g}) needs --buffer-mib")
    if cycle_ms is None and buffer_mib is None:
        return PRESETS[preset or "horovod-0.20"]
    if preset is not None:
        raise click.UsageError("--cycle-ms and --buffer-mib replace --fusion: leave it out")
    return Fusion(
        cycle_us=None if cycle_ms is None else cycle_ms * 1e3,
        max_bytes=None if buffer_mib is None else round(buffer_mib * MIB),
        first_bytes=None if first_buffer_mib is None else round(first_buffer_mib * MIB),
    )


def _print_paper_table() -> None:
    from hotline_dense.whatif import CLAIMED_COMPRESSION, SETUPS, SMALL_SETUP, TARGET, bottleneck_rows

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
                f"{each.deviation:+.2%}",
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
