"""Traces as trees, one for each packet; what has no effect is summarized, and what is alike is folded."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import click

from softswitch.explain import events as ev
from softswitch.explain.filters import Filter, select
from softswitch.explain.folding import merge, repetitions, shape_of
from softswitch.explain.lines import HEX_DIGITS_PER_BYTE, Text, byte_count, event_line, idle_line, part_line
from softswitch.explain.record import SWITCH

BYTES_PER_LINE = 32
_DIGITS_PER_LINE = HEX_DIGITS_PER_BYTE * BYTES_PER_LINE
LINE_WIDTH = 80
"""Width in columns of what is printed, except to a terminal, which has its own."""
_MIN_WIDTH = 60  # of the terminal, in columns
_MAX_SOURCE_WIDTH = 20  # in columns; of a longer path the file's name is shown
MIN_TEXT_WIDTH = 20  # of an event's text, in columns
_MIN_GAP = 2  # between an event's text and its source, in columns
# A variable that p4c generates.
TEMPORARY = re.compile(r"scalars\.tmp(_\d+)?")


@dataclass
class TraceNode:
    text: Text
    children: list[TraceNode] = field(default_factory=list)
    source: str = ""
    is_dump: bool = False
    """Whether the children are the bytes of a frame."""

    def add(self, text: Text, source: str = "") -> TraceNode:
        self.children.append(TraceNode(text, [], source))
        return self.children[-1]


def show(events: Sequence[ev.Event], filters: Sequence[Filter], as_json: bool, show_all: bool) -> None:
    selected = select(events, filters)
    if as_json:
        for event in selected:
            click.echo(ev.to_json(event))
        return
    width = max(_MIN_WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else LINE_WIDTH
    for line in draw(make_tree(selected, show_all or bool(filters)), width):
        click.echo(line)


def make_tree(events: Sequence[ev.Event], show_all: bool = False) -> list[TraceNode]:
    """Return a tree for each packet; with `show_all` nothing is summarized, folded or omitted."""
    roots = [
        _packet_tree(list(packet_events), show_all)
        for _, packet_events in groupby(events, lambda e: e.context.packet)
    ]
    if not show_all:
        for root in roots:
            root.children = _fold(root.children)
    return roots


def draw(roots: Iterable[TraceNode], width: int = LINE_WIDTH) -> Iterator[str]:
    """Yield the lines of trees; sources end at column `width`."""
    for root in roots:
        yield root.text.render()
        yield from _draw_nodes(root.children, "", width)


def _draw_nodes(nodes: Sequence[TraceNode], indent: str, width: int) -> Iterator[str]:
    for node in nodes:
        is_last = node is nodes[-1]
        branch = indent + ("└─ " if is_last else "├─ ")
        child_indent = indent + ("   " if is_last else "│  ")
        hanging_indent = child_indent + ("│  " if node.children else "   ") + "  "
        place = node.source if len(node.source) <= _MAX_SOURCE_WIDTH else node.source.rpartition("/")[2]
        source_width = len(place) + _MIN_GAP if place else 0
        first_line, *other_lines = _wrap(
            str(node.text), width - len(branch) - source_width, width - len(hanging_indent)
        )
        gap = max(_MIN_GAP, width - len(branch) - len(first_line) - len(place))
        source = " " * gap + click.style(place, dim=True) if place else ""
        yield click.style(branch, dim=True) + node.text.render(first_line) + source
        yield from (click.style(hanging_indent, dim=True) + node.text.render(line) for line in other_lines)
        yield from _draw_nodes(node.children, child_indent, width)


def _wrap(text: str, width: int, other_width: int) -> list[str]:
    first_line = textwrap.wrap(
        text, max(width, MIN_TEXT_WIDTH), break_long_words=False, break_on_hyphens=False
    )[0]
    remaining_text = text[len(first_line) :].lstrip()
    return [
        first_line,
        *textwrap.wrap(
            remaining_text, max(other_width, MIN_TEXT_WIDTH), break_long_words=False, break_on_hyphens=False
        ),
    ]


def _fold(nodes: list[TraceNode]) -> list[TraceNode]:
    """Return nodes with those in a row, or blocks of them, that differ only in numbers as one."""
    for node in nodes:
        if not node.is_dump:
            node.children = _fold(node.children)
    folded: list[TraceNode] = []
    for blocks in repetitions(nodes, _shape):
        if len(blocks) == 1:
            folded += blocks[0]
            continue
        merged, times = [_merge(column) for column in zip(*blocks, strict=True)], f"{len(blocks)} times"
        if len(merged) == 1:
            merged[0].text = replace(merged[0].text, text=f"{merged[0].text}  ({times})")
            folded += merged
        else:
            folded.append(TraceNode(Text(f"{times}:", dim=True), merged))
    return folded


def _shape(node: TraceNode) -> object:
    return shape_of(node.text.text), shape_of(node.source), tuple(map(_shape, node.children))


def _merge(nodes: Sequence[TraceNode]) -> TraceNode:
    text = replace(nodes[0].text, text=merge([node.text.text for node in nodes]))
    children = [_merge(column) for column in zip(*(node.children for node in nodes), strict=True)]
    return TraceNode(text, children, nodes[0].source)


def _packet_tree(events: list[ev.Event], show_all: bool) -> TraceNode:
    arrival = next((e for e in events if isinstance(e, ev.BeginEvent) and e.parent is None), None)
    text = f"packet {events[0].context.packet}"
    if arrival is not None:
        text += f": {byte_count(arrival.data)} from port {arrival.port}"
    root = TraceNode(Text(text, bold=True))
    if not show_all:
        events = [e for e in events if not (isinstance(e, ev.AssignEvent) and TEMPORARY.fullmatch(e.field))]
    for copy in sorted({event.context.copy for event in events}):
        copy_events = [event for event in events if event.context.copy == copy]
        parent = root
        if copy:  # number 0 is the frame itself
            begin = copy_events[0] if isinstance(copy_events[0], ev.BeginEvent) else None
            parent = root.add(part_line(f"copy {copy}" + ("" if begin is None else _origin_text(begin))))
        for part, step in groupby(copy_events, lambda e: e.context.part):
            _add_part(parent, part, list(step), show_all)
    return root


def _origin_text(begin: ev.BeginEvent) -> str:
    return f": {begin.origin} of {'the frame' if begin.parent == 0 else f'copy {begin.parent}'}"


def _add_part(parent: TraceNode, part: str, events: list[ev.Event], show_all: bool) -> None:
    events = [e for e in events if not isinstance(e, ev.BeginEvent | ev.EnterEvent)]
    if part == SWITCH:
        for kind, same_kind in groupby(events, type):
            _add_switch_events(parent, kind, list(same_kind))
        return
    if not events:
        return
    node = parent.add(part_line(part))
    idle: list[list[ev.Event]] = []
    for step in _split_into_steps(events):
        if not show_all and _is_idle(step):
            idle.append(step)
            continue
        _add_idle_line(node, idle)
        _add_step(node, step, show_all)
    _add_idle_line(node, idle)


def _add_switch_events(parent: TraceNode, kind: type[ev.Event], events: list[ev.Event]) -> None:
    if kind is ev.AssignEvent:
        values = [f"{e.field.rpartition('.')[2]} {e.after}" for e in events if isinstance(e, ev.AssignEvent)]
        parent.add(Text(f"metadata  {', '.join(values)}", dim=True))
        return
    for event in events:
        node = parent.add(event_line(event), event.context.source)
        if isinstance(event, ev.SendEvent):
            node.is_dump = True
            for line in _dump(event.data):
                node.add(Text(line, dim=True))


def _dump(data: str) -> Iterator[str]:
    """Yield the lines of a frame's bytes; equal lines after the first one are summarized."""
    starts = range(0, len(data), _DIGITS_PER_LINE)
    for digits, group in groupby(starts, lambda start: data[start : start + _DIGITS_PER_LINE]):
        first, *others = (start // HEX_DIGITS_PER_BYTE for start in group)
        yield f"{first:4}  {digits}"
        if others:
            yield f"{others[0]:4}  … the same up to byte {others[-1] + BYTES_PER_LINE - 1}"


def _split_into_steps(events: Iterable[ev.Event]) -> Iterator[list[ev.Event]]:
    step: list[ev.Event] = []
    for event in events:
        if step and (
            isinstance(event, ev.StateEvent | ev.TableEvent) or _step_key(event) != _step_key(step[0])
        ):
            yield step
            step = []
        step.append(event)
    if step:
        yield step


def _step_key(event: ev.Event) -> object:
    # An event outside states and tables is a step by itself.
    context = event.context
    return (context.state, context.table) if context.state or context.table else id(event)


def _is_idle(step: list[ev.Event]) -> bool:
    """Return whether a step is a table with neither a match nor an effect."""
    first = step[0]
    return len(step) == 1 and isinstance(first, ev.TableEvent) and not first.hit


def _add_idle_line(node: TraceNode, idle: list[list[ev.Event]]) -> None:
    if idle:
        node.add(idle_line([step[0] for step in idle]))
    idle.clear()


def _add_step(parent: TraceNode, step: list[ev.Event], show_all: bool) -> None:
    first, node = step[0], parent
    context = first.context
    if context.state:
        node = parent.add(_state_line(step))
        step = [e for e in step if not isinstance(e, ev.StateEvent | ev.SelectEvent)]
    elif isinstance(first, ev.TableEvent):
        if "." in context.table or first.key or show_all:  # else a table that p4c generated for statements
            node = parent.add(event_line(first), context.source)
        step = step[1:]
    elif context.table:  # a filter has removed the table's own event
        node = parent.add(Text(f"table {context.table}", bold=True), "")
    invalidated = {e.header for e in step if isinstance(e, ev.ValidityEvent) and not e.valid}
    for kind, group in groupby(step, type):
        events = list(group)
        if kind is ev.ValidityEvent and not show_all:
            _add_validity_changes(node, [e for e in events if isinstance(e, ev.ValidityEvent)])
            continue
        for event in events:
            # The fields of a header that this step made invalid are not emitted.
            is_hidden = isinstance(event, ev.AssignEvent) and event.field.rpartition(".")[0] in invalidated
            if not is_hidden or show_all:
                node.add(event_line(event), event.context.source)


def _add_validity_changes(node: TraceNode, events: list[ev.ValidityEvent]) -> None:
    for valid, group in groupby(events, lambda e: e.valid):
        changes = list(group)
        names = ", ".join(change.header for change in changes)
        node.add(Text(f"{names} {'valid' if valid else 'invalid'}"), changes[0].context.source)


def _state_line(step: list[ev.Event]) -> Text:
    selection = next((e for e in step if isinstance(e, ev.SelectEvent)), None)
    text = f"state {step[0].context.state}"
    if selection is not None:
        key_text = "" if selection.key is None else f"by {selection.key} "
        text += f" → {key_text}{selection.next or 'accept'}"
    return Text(text, bold=True)
