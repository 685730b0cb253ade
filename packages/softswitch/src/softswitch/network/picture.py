"""A picture of a network: its nodes in rows, its links with their loads and drops, as SVG."""

from __future__ import annotations

from collections import defaultdict
from html import escape

from softswitch.network.host import Host
from softswitch.network.network import Network
from softswitch.network.report import directions

_COLUMN, _ROW, _MARGIN = 130, 150, 70
_WIDTH, _HEIGHT = 64, 30  # of a node
_ARC = 90  # height of the control point of an arc
_LABEL = 0.38  # the place of a label on its link
_IDLE, _FULL = (154, 164, 178), (214, 69, 65)
_STYLE = (
    "text{font:12px sans-serif;fill:#1d2733;text-anchor:middle}"
    ".node{fill:#fff;stroke:#3b7dd8;stroke-width:2}.host{stroke:#7f8b99}"
    ".label{font-size:10px;fill:#4b5766;paint-order:stroke;stroke:#fff;stroke-width:3px}"
)


def draw(net: Network) -> str:
    """Return an SVG document: the thicker and redder a link, the higher its load, in its busier direction."""
    places = _place(net)
    width = max(x for x, _ in places.values()) + _MARGIN
    height = max(y for _, y in places.values()) + _MARGIN
    loads = list(directions(net))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">',
        f'<style>{_STYLE}</style><rect width="100%" height="100%" fill="#fff"/>',
    ]
    for k, link in enumerate(net.links):
        busier = max(loads[2 * k : 2 * k + 2], key=lambda each: (each.load, each.mbit))
        dropped = sum(each.counters.dropped + each.counters.lost for each in loads[2 * k : 2 * k + 2])
        (x1, y1), (x2, y2) = (places[end.node] for end in link.ends)
        # A link past other nodes of its row is an arc above them.
        rise = _ARC if y1 == y2 and abs(x2 - x1) > 1.5 * _COLUMN else 0
        parts.append(
            f'<path d="M{x1},{y1} Q{(x1 + x2) / 2:g},{(y1 + y2) / 2 - rise:g} {x2},{y2}" fill="none" '
            f'stroke="{_colour(busier.load)}" stroke-width="{1.5 + 4 * busier.load:.1f}"/>'
        )
        # Not in the middle, where labels of crossing links would meet.
        x, y = x1 + _LABEL * (x2 - x1), y1 + _LABEL * (y2 - y1) - 2 * _LABEL * (1 - _LABEL) * rise
        rate = f"{busier.mbit:.3g} Mbit/s" if link.options.mbit is None else f"{busier.load:.0%}"
        label = rate + (f", {dropped} lost" if dropped else "")
        parts.append(f'<text class="label" x="{x:.0f}" y="{y:.0f}">{label}</text>')
    for name, (x, y) in places.items():
        kind = "node host" if isinstance(net.nodes[name], Host) else "node"
        parts.append(
            f'<rect class="{kind}" x="{x - _WIDTH // 2}" y="{y - _HEIGHT // 2}" width="{_WIDTH}" '
            f'height="{_HEIGHT}" rx="5"/><text x="{x}" y="{y + 4}">{escape(name[:9])}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _place(net: Network) -> dict[str, tuple[int, int]]:
    """Return the places of nodes: hosts in the lowest row, and switches higher the farther hosts are."""
    neighbours: defaultdict[str, list[str]] = defaultdict(list)
    for link in net.links:
        first, second = (end.node for end in link.ends)
        neighbours[first].append(second)
        neighbours[second].append(first)
    rows = [[host.name for host in net.hosts]]
    placed = {*rows[0]}
    while len(placed) < len(net.nodes):
        near = [name for name in net.nodes if name not in placed and placed.intersection(neighbours[name])]
        row = near or [name for name in net.nodes if name not in placed]  # nodes without a way to a host
        rows.append(row)
        placed |= {*row}
    columns = max(map(len, rows))
    places: dict[str, tuple[int, int]] = {}
    for level, row in enumerate(rows):
        if level:  # above the nodes below that each is linked with
            row = sorted(row, key=lambda name: _mean([places[n][0] for n in neighbours[name] if n in places]))
        for k, name in enumerate(row):
            x = _MARGIN + round((k + 0.5) * columns * _COLUMN / max(len(row), 1))
            places[name] = (x, _MARGIN + (len(rows) - 1 - level) * _ROW)
    return places


def _mean(numbers: list[int]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0


def _colour(load: float) -> str:
    mixed = (round(idle + load * (full - idle)) for idle, full in zip(_IDLE, _FULL, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)
