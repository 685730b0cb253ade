from __future__ import annotations

import re
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from foundation.errors import HotlineError
from foundation.protocol.header import LANES, Op
from hotline.cli.common import FILE, one_line_errors
from softswitch.errors import SwitchError

_OPS = {"push": Op.PUSH, "pull": Op.PULL}
_FONTS = re.compile(r"@font-face \{.*?\}\n?", re.DOTALL)
"""CSS rules by which Rich has a browser download fonts."""
PICTURE_WIDTH = 140  # columns


@click.command()
@click.argument("rpc", type=click.Choice(list(_OPS)), default="push")
@click.option(
    "--keys",
    type=click.IntRange(1, LANES),
    default=4,
    help="Number of keys in the RPC; each takes one lane.",
)
@click.option(
    "--cold",
    type=click.IntRange(0, LANES),
    default=0,
    show_default=False,
    help="Number of the keys that the switch does not hold; the RPC then goes to a server.",
)
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="NAME=PATTERN",
    help="Show only these events, such as part=parser or table=hot_params; may be repeated.",
)
@click.option("--all", "show_all", is_flag=True, help="Show all events, including those without effect.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each event.")
@click.option("--svg", type=FILE, help="Write an SVG file instead.")
def explain(
    rpc: str,
    keys: int,
    cold: int,
    filters: tuple[str, ...],
    show_all: bool,
    as_json: bool,
    svg: Path | None,
) -> None:
    """Explain what the switch does to one RPC.

    RPC is a worker's push or pull of keys that the switch holds. Tables are filled as in a run.
    Needs no running switch. `softswitch explain` explains programs and frames of your own
    (softswitch/docs/explain.md).
    """
    from hotline.explain import explain_rpc, program
    from softswitch.explain.filters import parse_filter, select
    from softswitch.explain.tree import draw, make_tree, show

    if cold > keys:
        raise click.BadParameter(
            f"expected at most the number of keys, {keys}, got {cold}", param_hint="'--cold'"
        )
    with one_line_errors():
        try:
            selected_filters = [parse_filter(text) for text in filters]
            for event_filter in selected_filters:
                event_filter.check(program())
        except SwitchError as error:
            raise HotlineError(str(error)) from error
        events = explain_rpc(_OPS[rpc], lanes=keys, cold_keys=cold)
        if svg is None:
            show(events, selected_filters, as_json, show_all)
            return
        trees = make_tree(select(events, selected_filters), show_all)
        _write_picture(svg, f"hotline explain {rpc}", list(draw(trees, PICTURE_WIDTH)))


def _write_picture(file: Path, title: str, lines: list[str]) -> None:
    from foundation.logs.parts import write_text

    with Path("/dev/null").open("w") as devnull:
        console = Console(record=True, width=PICTURE_WIDTH, file=devnull)
        for line in lines:
            console.print(Text.from_ansi(line), soft_wrap=True)
    text = console.export_svg(title=title)
    write_text(file, _FONTS.sub("", text))
