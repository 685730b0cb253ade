from __future__ import annotations

from pathlib import Path

import click

from experiment.progress import progress_bar
from foundation.concurrency import run_interruptibly
from foundation.text import pluralize
from hotline.cli.common import FILE, json_option, one_line_errors, print_json
from hotline.cli.fields import fills
from hotline_dense.hooks import TimingSettings


@click.command()
@click.argument("script", type=FILE)
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENT...]")
@click.option("-o", "--output", type=FILE, required=True, help="The table to write, .csv or .parquet.")
@fills(TimingSettings, "settings")
@json_option
def layers(
    script: Path, arguments: tuple[str, ...], output: Path, settings: TimingSettings, as_json: bool
) -> None:
    """Time the layers of a PyTorch model.

    SCRIPT is a Python file that has `model`, a torch.nn.Module on its device, and a function `loss()` that
    runs it forward on a mini-batch. ARGUMENTs after -- are the script's, as in `python SCRIPT ARGUMENT`.
    Needs PyTorch, which set-up does not install: pip install 'torch>=2.1'.
    """
    from hotline_dense.hooks import layers_of_script
    from hotline_dense.layers import check_suffix, write_layers

    with one_line_errors():
        check_suffix(output)
        with progress_bar("steps") as progress:
            timings = run_interruptibly(
                lambda: layers_of_script(script, settings.steps, settings.warm_up, progress, arguments)
            )
        write_layers(timings, output)
    assert timings.forward_us is not None
    totals = {
        "layers": len(timings.names),
        "bytes": timings.bytes,
        "backward_ms": timings.total_backward_us / 1e3,
        "forward_ms": float(timings.forward_us.sum()) / 1e3,
    }
    if as_json:
        print_json(totals)
        return
    click.echo(
        f"{output}: {pluralize(len(timings.names), 'layer')}, {timings.bytes / 1e6:,.1f} MB of gradients, "
        f"forward {totals['forward_ms']:,.1f} ms, backward {totals['backward_ms']:,.1f} ms"
    )
