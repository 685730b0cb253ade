"""Draw the picture of one push that README shows, for light and for dark pages: `python -m tools.picture`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

from foundation.checkout import ROOT

FOLDER = ROOT / "docs"
WIDTH, HEIGHT = 960, 400
SHOWN_LANES = (True, False, True, True, False, True, False, True)
"""Whether the key of each lane that is drawn is in the switch. A frame has 32 lanes; eight are drawn."""
_LANE, _GAP = 30, 4
_ROWS = 4  # of registers that are drawn for each lane
_ADDED_ROW = (1, 0, 3, 0, 0, 2, 0, 1)  # the row of registers that each hot lane adds to


class Colours(NamedTuple):
    """Colours of a page's scheme."""

    ink: str
    faint: str
    surface: str
    hot: str
    cold: str


SCHEMES = {
    "light": Colours(ink="#1f2328", faint="#59636e", surface="#f6f8fa", hot="#bc4c00", cold="#0969da"),
    "dark": Colours(ink="#f0f6fc", faint="#9198a1", surface="#151b23", hot="#f0883e", cold="#4493f8"),
}


def draw_push(colours: Colours) -> str:
    """Return the picture as SVG: workers, the switch with its lanes and registers, and servers."""
    body = "\n".join([*_hosts(colours), *_switch(colours), *_frames(colours)])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="system-ui, sans-serif" font-size="15">\n'
        "<title>A push: the switch adds the values of hot keys to its registers, and the parameter server "
        f"gets the others</title>\n{body}\n</svg>\n"
    )


def _hosts(colours: Colours) -> Iterator[str]:
    for name, y in (("worker 1", 70), ("worker 2", 150), ("worker 3", 230), ("worker 4", 310)):
        yield _box(20, y, 110, 46, colours.ink if name == "worker 1" else colours.faint, colours)
        yield _text(75, y + 29, name, colours.ink if name == "worker 1" else colours.faint)
    for name, y in (("server 1", 110), ("server 2", 270)):
        yield _box(830, y, 110, 46, colours.ink if name == "server 1" else colours.faint, colours)
        yield _text(885, y + 29, name, colours.ink if name == "server 1" else colours.faint)


def _switch(colours: Colours) -> Iterator[str]:
    yield _box(310, 30, 350, 340, colours.ink, colours)
    yield _text(485, 56, "P4 switch", colours.ink, weight=600)
    for lane, is_hot in enumerate(SHOWN_LANES):
        x = _lane_x(lane)
        yield _cell(x, 108, _LANE, colours.hot if is_hot else colours.cold, 1)
        for row in range(_ROWS):
            is_added = is_hot and row == _ADDED_ROW[lane]
            yield _cell(
                x, 200 + row * 26, 22, colours.hot if is_added else colours.faint, 1 if is_added else 0.25
            )
        if is_hot:
            end = 198 + _ADDED_ROW[lane] * 26
            yield _arrow(x + _LANE / 2, 108 + _LANE, x + _LANE / 2, end, colours.hot)
    yield _text(485, 94, "the frame's lanes: a key and an update each", colours.faint)
    yield _text(485, 330, "registers: the sums of hot keys", colours.faint)
    yield _text(485, 352, "hot: added here", colours.hot, weight=600)


def _frames(colours: Colours) -> Iterator[str]:
    yield _arrow(130, 93, 308, 123, colours.ink)
    yield _text(220, 88, "push", colours.ink, weight=600)
    yield _arrow(660, 123, 828, 128, colours.cold)
    yield _text(744, 112, "the other keys", colours.cold, weight=600)
    yield _arrow(828, 148, 662, 158, colours.faint, is_dashed=True)
    yield _arrow(308, 143, 132, 113, colours.faint, is_dashed=True)
    yield _text(220, 152, "answer", colours.faint)


def _lane_x(lane: int) -> float:
    first = 485 - (len(SHOWN_LANES) * (_LANE + _GAP) - _GAP) / 2
    return first + lane * (_LANE + _GAP)


def _box(x: float, y: float, width: float, height: float, stroke: str, colours: Colours) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" '
        f'fill="{colours.surface}" stroke="{stroke}" stroke-width="1.5"/>'
    )


def _cell(x: float, y: float, height: float, colour: str, opacity: float) -> str:
    size = f'width="{_LANE}" height="{height}" rx="3"'
    return f'<rect x="{x}" y="{y}" {size} fill="{colour}" opacity="{opacity}"/>'


def _text(x: float, y: float, text: str, colour: str, weight: int = 400) -> str:
    style = f'text-anchor="middle" fill="{colour}" font-weight="{weight}"'
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'


def _arrow(x1: float, y1: float, x2: float, y2: float, colour: str, is_dashed: bool = False) -> str:
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    along_x, along_y = (x2 - x1) / length, (y2 - y1) / length
    head = " ".join(
        f"{x2 - 9 * along_x + side * 4 * along_y:.1f},{y2 - 9 * along_y - side * 4 * along_x:.1f}"
        for side in (1, -1)
    )
    dashes = ' stroke-dasharray="5 4"' if is_dashed else ""
    return (
        f'<line x1="{x1}" y1="{y1}" x2="{x2 - 8 * along_x:.1f}" y2="{y2 - 8 * along_y:.1f}" '
        f'stroke="{colour}" stroke-width="2"{dashes}/><polygon points="{x2},{y2} {head}" fill="{colour}"/>'
    )


def path_of(scheme: str, folder: Path = FOLDER) -> Path:
    return folder / f"push-{scheme}.svg"


def main() -> int:
    for scheme, colours in SCHEMES.items():
        path_of(scheme).write_text(draw_push(colours))
    return 0


if __name__ == "__main__":
    sys.exit(main())
