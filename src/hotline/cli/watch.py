from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import Field
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from controller.address import SwitchAddress
from controller.controller import Controller
from controller.errors import DeviceError, OtherPipeline
from controller.status import Reading, take_reading
from experiment.members import MemberRates
from foundation.concurrency import in_thread
from foundation.logs.columns import at_load, load_name
from hotline.cli.common import (
    PATH,
    json_option,
    one_line_errors,
    plain_table,
    run_on_switch,
)
from hotline.cli.fields import fills
from hotline.cli.members import COLUMNS, MemberWatch, member_cells, slow_members
from hotline.cli.options import ADDRESS

if TYPE_CHECKING:
    from analysis.live import BlockLatency, LiveLatencies

_RUNS = Path("runs")
_UNKNOWN = "–"
_NO_COUNTERS = "no counters: the switch runs another design than hotset"
_BLOCK_COLUMNS = ["arm", "round", "load"]
_LATENCY_COLUMNS = [
    "pull p50",
    "pull p99",
    "push p50",
    "push p99",
    "PS queue",
    "W queue",
]


class WatchSettings(SwitchAddress):
    interval: float = Field(default=2.0, ge=0.2, le=3600)
    """Seconds between two readings."""
    count: int | None = Field(default=None, ge=1)
    """Stop after this many readings."""


@dataclass(frozen=True, slots=True)
class View:
    time_s: float  # Unix time of the reading
    reading: Reading | None
    """None if the switch lacks the counters of design `hotset`."""
    blocks: Sequence[BlockLatency]  # the newest of each arm
    new_blocks: Sequence[BlockLatency]  # those that the previous view did not have
    members: Sequence[MemberRates]  # the workers and servers on this machine


@click.command()
@click.argument("run", required=False, type=PATH)
@fills(WatchSettings, "settings", address=ADDRESS)
@json_option
def watch(run: Path | None, settings: WatchSettings, as_json: bool) -> None:
    """Watch a run while it goes on.

    Shows rates, hit share and drops at the switch, latencies and queues by arm, and workers and servers. RUN
    is its folder; without it, the current run in runs, or else runs/latest, and the workers and servers of
    `hotline up` if that goes on. Rates are of all jobs, since the reading before; the first reading has all
    counts so far. The switch of another design than `hotset` has no such counters. Latencies and the mean
    waits in the queues of PS and worker are of each arm's newest block, in µs. A worker or server is slow if
    it is stopped or has ended, and a worker also if it sends less than half of a median worker's frames. If
    stdout is not a terminal, each reading is one line, with those that are slow.

    Watching costs CPU time of the machine, which the run may be measuring: less with a longer --interval.
    """
    # This import takes half a second, which other commands should not wait for.
    from analysis.live import LiveLatencies, has_ended, run_folder

    with one_line_errors():
        folder = run_folder(run, _RUNS)
        if folder is not None and has_ended(folder) and not asyncio.run(_is_reachable(settings)):
            click.echo(
                f"{folder}: the run has ended, and no switch answers at {settings.address}", err=as_json
            )
            return
    latencies = None if folder is None else LiveLatencies(folder / "parts")
    members = MemberWatch(run, settings.address)

    async def show_views(controller: Controller) -> bool:
        """Show views until the given count; return whether the switch has ended."""
        view_count = 0
        try:
            # Inside the try, so that the terminal is restored before an error is printed.
            with _open_screen(members.switch, folder, as_json) as show:
                async for view in views(controller, latencies, members, settings.interval):
                    show(view)
                    view_count += 1
                    if view_count == settings.count:
                        return False
        except DeviceError:
            if not view_count or await _is_reachable(settings):
                raise
        return True

    if run_on_switch(settings, show_views, primary=False):
        click.echo("the switch has gone", err=as_json)


async def views(
    controller: Controller, latencies: LiveLatencies | None, members: MemberWatch, interval_s: float
) -> AsyncIterator[View]:
    """Yield readings of the switch, logs and processes without end, with `interval_s` s between them."""
    reading: Reading | None = None
    blocks: list[BlockLatency] = []
    while True:
        try:
            reading = take_reading(await controller.counters(), time.monotonic(), reading)
        except OtherPipeline:
            if latencies is None:
                raise
            reading = None
        previous_blocks, blocks = blocks, await in_thread(latencies.read) if latencies else []
        new_blocks = [block for block in blocks if block not in previous_blocks]
        yield View(time.time(), reading, blocks, new_blocks, members.read())
        await asyncio.sleep(interval_s)


async def _is_reachable(switch: SwitchAddress) -> bool:
    controller = Controller(switch.address, device_id=switch.device_id, primary=False)
    try:
        async with controller:
            return True
    except DeviceError:
        return False


@contextmanager
def _open_screen(switch: str, run: Path | None, as_json: bool) -> Iterator[Callable[[View], None]]:
    console = Console(highlight=False)
    if as_json:
        yield lambda view: click.echo(json.dumps(_as_json(run, view)))
    elif not console.is_terminal:
        yield lambda view: click.echo("; ".join(_line_parts(view)))
    else:
        title = Text(f"switch {switch}, {'no run' if run is None else run.name}; Ctrl-C ends")
        # Automatic refreshing would only cost CPU time.
        with Live(console=console, auto_refresh=False) as live:
            yield lambda view: live.update(Group(title, *_make_tables(view)), refresh=True)


def _as_json(run: Path | None, view: View) -> dict[str, object]:
    reading = {} if view.reading is None else asdict(view.reading)
    reading.pop("at_s", None)  # monotonic time has no meaning in other processes
    time_and_run = {"time_s": view.time_s, "run": None if run is None else str(run)}
    return (
        time_and_run
        | reading
        | {
            "blocks": [asdict(block) for block in view.blocks],
            "members": [asdict(member) for member in view.members],
        }
    )


def _line_parts(view: View) -> Iterator[str]:
    reading = view.reading
    time_of_day = f"{datetime.fromtimestamp(view.time_s):%H:%M:%S}"
    if reading is None:
        yield f"{time_of_day} {_NO_COUNTERS}"
    else:
        yield f"{time_of_day} {_describe_interval(reading)}"
        rates = {name: f" ({_format_number(rate)}/s)" for name, rate in (reading.per_s or {}).items()}
        yield ", ".join(
            f"{word} {reading.totals[name]:,}{rates.get(name, '')}" for name, word in _counter_labels(reading)
        )
    yield from slow_members(view.members)
    for block in view.new_blocks:
        arm, round_number, load, *latencies = _format_cells(block)
        load_phrase = at_load(load)
        texts = ", ".join(f"{name} {text}" for name, text in zip(_LATENCY_COLUMNS, latencies, strict=True))
        yield f"{arm} in round {round_number} {load_phrase}, µs: {texts}"


def _make_tables(view: View) -> Iterator[Text | Table]:
    reading = view.reading
    if reading is None:
        yield Text(_NO_COUNTERS)
    else:
        yield Text(_describe_interval(reading))
        rates = reading.per_s or {}
        counts = [
            [word, Text(_format_number(rates.get(name))), Text(f"{reading.totals[name]:,}")]
            for name, word in _counter_labels(reading)
        ]
        yield plain_table(["", "/s", "in all"], counts)
    if view.members:
        yield plain_table(COLUMNS, member_cells(view.members))
    if view.blocks:
        yield Text("newest blocks, µs")
        rows = [_format_cells(block) for block in view.blocks]
        columns = [*_BLOCK_COLUMNS, *_LATENCY_COLUMNS]
        yield plain_table(columns, [[arm, *map(Text, numbers)] for arm, *numbers in rows])


def _describe_interval(reading: Reading) -> str:
    interval = "so far" if reading.interval_s is None else f"in {reading.interval_s:.1f} s"
    hit_share = _UNKNOWN if reading.hit_share is None else f"{reading.hit_share:.1%}"
    return f"{'counters were reset, ' if reading.was_reset else ''}{interval} {hit_share} of the lanes hit"


def _counter_labels(reading: Reading) -> Iterator[tuple[str, str]]:
    for name, total in reading.totals.items():
        if total or not name.startswith("drops_"):
            # Outcomes and reasons, after the first "_", keep the names that the program gives them.
            yield name, name.replace("rpcs", "RPCs").replace("_", " ", 1)


def _format_cells(block: BlockLatency) -> list[str]:
    arm, round_number, load, *latencies = astuple(block)
    return [arm, str(round_number), load_name(load), *map(_format_number, latencies)]


def _format_number(number: float | None) -> str:
    if number is None:
        return _UNKNOWN
    return f"{number:,.0f}" if number >= 10 or not number else f"{number:.1f}"
