from __future__ import annotations

import json
from pathlib import Path

import click

from foundation.protocol.header import NO_KEY
from hotline.cli.common import (
    Number,
    job_option,
    json_option,
    print_json,
    print_table,
    run_on_switch,
    switch_options,
)

_RECORD = Path("runs/latest/run.json")


@click.command()
@click.argument("keys", nargs=-1, type=click.IntRange(0, NO_KEY - 1), metavar="[KEY]...")
@switch_options
@job_option
@click.option(
    "--scale",
    type=Number(min=0, min_open=True),
    help=f"Units of a value per 1.0 of the model's weight. [default: that of {_RECORD}]",
)
@json_option
def registers(
    keys: tuple[int, ...], address: str, device_id: int, job: int, scale: float | None, as_json: bool
) -> None:
    """Read values that the switch holds for a job.

    KEYs are read through the data plane; without KEY, all keys of the job are read. A value is printed as
    32-bit fixed point, as on the wire, and as the model's weight, which is value / scale. The switch has no
    value for a parked key; its PS has it.
    """
    entries = run_on_switch(address, device_id, lambda controller: controller.registers(job, keys or None))
    unit_scale = _scale_of_latest_run() if scale is None else scale
    # A run under way is not the latest yet, and may have another scale.
    scale_note = (
        f", the scale of {_RECORD.parent.resolve().name}; --scale for another run" if scale is None else ""
    )
    columns = ["key", "lane", "slot", "state", "value", "weight"]
    rows = [
        [
            entry.param.key,
            entry.param.lane,
            entry.param.slot,
            entry.param.state.value,
            entry.value,
            None if entry.value is None or unit_scale is None else entry.value / unit_scale,
        ]
        for entry in entries
    ]
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    cells = [[*others, _format_number(value), _format_number(weight)] for *others, value, weight in rows]
    print_table(f"job {job}", columns, cells)
    click.echo(
        f"weight = value / {unit_scale:.7g}{scale_note}"
        if unit_scale
        else f"no weights: give --scale, as {_RECORD} has none"
    )


def _scale_of_latest_run() -> float | None:
    try:
        scale = json.loads(_RECORD.read_text())["workload"]["scale"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return float(scale)


def _format_number(value: object) -> object:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else value
