"""Filters of a trace's events, NAME=PATTERN[,PATTERN...] (docs/explain.md). Events must pass all filters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from softswitch import ir
from softswitch.errors import SwitchError
from softswitch.explain import events as ev
from softswitch.ir.names import source_field_name, source_name

MAX_LISTED_VALUES = 12


def _extern_names(event: ev.Event) -> list[str]:
    types_with_name = ev.RegisterEvent | ev.CounterEvent | ev.MeterEvent | ev.HashEvent | ev.DigestEvent
    return [event.name] if isinstance(event, types_with_name) else []


def _header_names(event: ev.Event) -> list[str]:
    if isinstance(event, ev.ExtractEvent | ev.ValidityEvent):
        return [event.header]
    return [event.field.rpartition(".")[0]] if isinstance(event, ev.AssignEvent | ev.ChecksumEvent) else []


def _field_names(event: ev.Event) -> list[str]:
    if isinstance(event, ev.ExtractEvent):
        return [f"{event.header}.{value.name}" for value in event.fields]
    return [event.field] if isinstance(event, ev.AssignEvent | ev.ChecksumEvent) else []


def _port_numbers(event: ev.Event) -> list[str]:
    return [str(event.port)] if isinstance(event, ev.BeginEvent | ev.QueueEvent | ev.SendEvent) else []


class _Property(NamedTuple):
    """A property of events. `allowed_values` lists the values that a program allows, None for numbers."""

    values_of: Callable[[ev.Event], list[str]]
    allowed_values: Callable[[ir.Program], Iterable[str]] | None


# The lambdas refer to functions that are defined below.
PROPERTIES: dict[str, _Property] = {
    "kind": _Property(lambda event: [event.KIND], lambda _: ev.KINDS),
    "part": _Property(lambda event: [event.context.part], lambda program: _part_names(program)),
    "parser": _Property(
        lambda event: [event.context.state], lambda program: (s.name for s in program.parser)
    ),
    "table": _Property(lambda event: [event.context.table], lambda program: program.tables),
    "action": _Property(
        lambda event: [event.context.action], lambda program: (a.name for a in program.actions)
    ),
    "extern": _Property(_extern_names, lambda program: _declared_externs(program)),
    "header": _Property(_header_names, lambda program: (h.name for h in program.headers)),
    "field": _Property(
        _field_names,
        lambda program: (source_field_name(h.name, f.name) for h in program.headers for f in h.fields),
    ),
    "port": _Property(_port_numbers, None),
    "packet": _Property(lambda event: [str(event.context.packet)], None),
}


def _part_names(program: ir.Program) -> list[str]:
    return ["switch", "parser", "verify", program.ingress.name, program.egress.name, "update", "deparser"]


def _declared_externs(program: ir.Program) -> list[str]:
    direct_externs = [t.name for t in program.tables.values() if t.has_counter or t.meter is not None]
    extern_kinds = (
        program.registers,
        program.counters,
        program.meters,
        program.calculations,
        program.digests,
    )
    return [extern.name for kind in extern_kinds for extern in kind] + direct_externs


class Filter(NamedTuple):
    name: str
    patterns: tuple[str, ...]

    def passes(self, event: ev.Event) -> bool:
        values = PROPERTIES[self.name].values_of(event)
        return any(_matches(text, pattern) for text in values for pattern in self.patterns)

    def check(self, program: ir.Program) -> None:
        allowed_values = PROPERTIES[self.name].allowed_values
        if allowed_values is None:
            return
        names = list(dict.fromkeys(filter(None, map(source_name, allowed_values(program)))))
        for pattern in self.patterns:
            if not any(_matches(name, pattern) for name in names):
                suffix = f", … ({len(names)} in all)" if len(names) > MAX_LISTED_VALUES else ""
                choices = (
                    f"there are {', '.join(names[:MAX_LISTED_VALUES])}{suffix}" if names else "it has none"
                )
                raise SwitchError(f"filter {self}: the program has no {self.name} {pattern!r}: {choices}")

    def __str__(self) -> str:
        return f"{self.name}={','.join(self.patterns)}"


def parse_filter(text: str) -> Filter:
    name, equals, pattern_list = text.partition("=")
    patterns = tuple(pattern_list.split(","))
    if not equals or name not in PROPERTIES or not all(patterns):
        example = "table=ipv4_lpm or field=ipv4.*"
        raise SwitchError(
            f"filter {text!r}: expected NAME=PATTERN with a name of {', '.join(PROPERTIES)}: {example}"
        )
    if PROPERTIES[name].allowed_values is None and not all(pattern.isdecimal() for pattern in patterns):
        raise SwitchError(f"filter {text!r}: expected numbers, such as {name}=1")
    return Filter(name, patterns)


def select(events: Iterable[ev.Event], filters: Sequence[Filter]) -> list[ev.Event]:
    return [event for event in events if all(event_filter.passes(event) for event_filter in filters)]


def _matches(name: str, pattern: str) -> bool:
    parts = name.split(".")
    return any(fnmatchcase(".".join(parts[start:]), pattern) for start in range(len(parts)))
