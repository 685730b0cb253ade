from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import Field
from rich.console import Console
from rich.text import Text

from foundation.errors import HotlineError
from foundation.protocol.header import LANES, Op
from foundation.protocol.leaf_spine import HotSetPlace
from foundation.settings import Strict
from hotline.cli.common import FILE, one_line_errors
from hotline.cli.fields import fills
from softswitch.errors import SwitchError

if TYPE_CHECKING:
    from hotline_simulator.explain import Hop
    from softswitch.explain.filters import Filter

_OPS = {"push": Op.PUSH, "pull": Op.PULL}
_FONTS = re.compile(r"@font-face \{.*?\}\n?", re.DOTALL)
"""CSS rules by which Rich has a browser download fonts."""
PICTURE_WIDTH = 140  # columns


class ExplainSettings(Strict):
    keys: int = Field(default=4, ge=1, le=LANES)
    """Number of keys in the RPC; each takes one lane."""
    cold: int = Field(default=0, ge=0, le=LANES)
    """Number of the keys that the switch does not hold; the RPC then goes to a server."""
    hot_sets: HotSetPlace | None = None
    """Explain it in a network of two leaves and a spine, with the hot set at the spine, at the server's leaf,
    which is not the worker's, or at the worker's leaf, which then sums. [default: one switch]"""
    filters: tuple[str, ...] = ()
    """Show only these events, such as part=parser or table=hot_params; may be repeated."""
    show_all: bool = False
    """Show all events, including those without effect."""
    as_json: bool = False
    """Print a line of JSON for each event."""
    svg: Path | None = None
    """Write an SVG file instead."""


@click.command()
@click.argument("rpc", type=click.Choice(list(_OPS)), default="push")
@fills(
    ExplainSettings,
    "settings",
    filters={"names": ("--filter",), "metavar": "NAME=PATTERN"},
    show_all={"names": ("--all",)},
    as_json={"names": ("--json",)},
    svg={"type": FILE},
)
def explain(rpc: str, settings: ExplainSettings) -> None:
    """Explain what the switch does to one RPC.

    RPC is a worker's push or pull of keys that the switch holds. Tables are filled as in a run.
    Needs no running switch. `softswitch explain` explains programs and frames of your own
    (packages/softswitch/docs/explain.md).
    """
    from hotline_simulator.explain import Hop, explain_in_network, explain_rpc, program
    from softswitch.explain.filters import parse_filter, select
    from softswitch.explain.tree import draw, make_tree

    if settings.cold > settings.keys:
        raise click.BadParameter(
            f"expected at most the number of keys, {settings.keys}, got {settings.cold}",
            param_hint="'--cold'",
        )
    with one_line_errors():
        try:
            selected_filters = [parse_filter(text) for text in settings.filters]
            for event_filter in selected_filters:
                event_filter.check(program(settings.hot_sets))
        except SwitchError as error:
            raise HotlineError(str(error)) from error
        op, place = _OPS[rpc], settings.hot_sets
        if place is None:
            hops = [Hop("", explain_rpc(op, settings.keys, settings.cold))]
        else:
            hops = explain_in_network(op, settings.keys, place, settings.cold)
        if settings.svg is None:
            for hop in hops:
                _show(hop, selected_filters, settings)
            return
        events = [event for hop in hops for event in hop.events]
        trees = make_tree(select(events, selected_filters), settings.show_all)
        _write_picture(settings.svg, f"hotline explain {rpc}", list(draw(trees, PICTURE_WIDTH)))


def _show(hop: Hop, filters: Sequence[Filter], settings: ExplainSettings) -> None:
    from softswitch.explain.events import to_dict
    from softswitch.explain.filters import select
    from softswitch.explain.tree import show

    if hop.switch and settings.as_json:
        for event in select(hop.events, filters):
            click.echo(json.dumps({"switch": hop.switch, **to_dict(event)}, separators=(",", ":")))
        return
    if hop.switch:
        click.secho(hop.switch, bold=True)
    show(hop.events, filters, settings.as_json, settings.show_all)


def _write_picture(file: Path, title: str, lines: list[str]) -> None:
    from foundation.logs.parts import write_text

    with Path("/dev/null").open("w") as devnull:
        console = Console(record=True, width=PICTURE_WIDTH, file=devnull)
        for line in lines:
            console.print(Text.from_ansi(line), soft_wrap=True)
    text = console.export_svg(title=title)
    write_text(file, _FONTS.sub("", text))
