"""Filters of a trace's events, NAME=PATTERN[,PATTERN...] (docs/explain.md). Events must pass all filters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from softswitch import ir
from softswitch.errors import SwitchError
from softswitch.explain import events as ev

MAX_LISTED_VALUES = 12


def _extern(event: ev.Event) -> list[str]:
    types_with_name = ev.Register | ev.Counter | ev.Meter | ev.Hash | ev.Digest
    return [event.name] if isinstance(event, types_with_name) else []


def _header(event: ev.Event) -> list[str]:
    if isinstance(event, ev.Extract | ev.Validity):
        return [event.header]
    return [event.field.rpartition(".")[0]] if isinstance(event, ev.Assign | ev.Checksum) else []


def _field(event: ev.Event) -> list[str]:
    if isinstance(event, ev.Extract):
        return [f"{event.header}.{value.name}" for value in event.fields]
    return [event.field] if isinstance(event, ev.Assign | ev.Checksum) else []


def _port(event: ev.Event) -> list[str]:
    return [str(event.port)] if isinstance(event, ev.Begin | ev.Queue | ev.Send) else []


class _Property(NamedTuple):
    """A property of events. `allowed_values` lists the values that a program allows, None for numbers."""

    values_of: Callable[[ev.Event], list[str]]
    allowed_values: Callable[[ir.Program], Iterable[str]] | None


NAMES: dict[str, _Property] = {
    "kind": _Property(lambda event: [event.KIND], lambda _: ev.KINDS),
    "part": _Property(lambda event: [event.context.part], lambda program: _parts(program)),
    "parser": _Property(
        lambda event: [event.context.state], lambda program: (s.name for s in program.parser)
    ),
    "table": _Property(lambda event: [event.context.table], lambda program: program.tables),
    "action": _Property(
        lambda event: [event.context.action], lambda program: (a.name for a in program.actions)
    ),
    "extern": _Property(_extern, lambda program: _externs(program)),
    "header": _Property(_header, lambda program: (h.name for h in program.headers)),
    "field": _Property(
        _field, lambda program: (f"{h.name}.{f.name}" for h in program.headers for f in h.fields)
    ),
    "port": _Property(_port, None),
    "packet": _Property(lambda event: [str(event.context.packet)], None),
}


def _parts(program: ir.Program) -> list[str]:
    return ["switch", "parser", "verify", program.ingress.name, program.egress.name, "update", "deparser"]


def _externs(program: ir.Program) -> list[str]:
    direct = [t.name for t in program.tables.values() if t.has_counter or t.meter is not None]
    others = (program.registers, program.counters, program.meters, program.calculations, program.digests)
    return [each.name for kind in others for each in kind] + direct


class Filter(NamedTuple):
    name: str
    patterns: tuple[str, ...]

    def passes(self, event: ev.Event) -> bool:
        values = NAMES[self.name].values_of(event)
        return any(_matches(text, pattern) for text in values for pattern in self.patterns)

    def check(self, program: ir.Program) -> None:
        allowed_values = NAMES[self.name].allowed_values
        if allowed_values is None:
            return
        names = list(dict.fromkeys(allowed_values(program)))
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
    name, equals, rest = text.partition("=")
    patterns = tuple(rest.split(","))
    if not equals or name not in NAMES or not all(patterns):
        example = "table=ipv4_lpm or field=ipv4.*"
        raise SwitchError(
            f"filter {text!r}: expected NAME=PATTERN with a name of {', '.join(NAMES)}: {example}"
        )
    if NAMES[name].allowed_values is None and not all(pattern.isdecimal() for pattern in patterns):
        raise SwitchError(f"filter {text!r}: expected numbers, such as {name}=1")
    return Filter(name, patterns)


def select(events: Iterable[ev.Event], filters: Sequence[Filter]) -> list[ev.Event]:
    return [event for event in events if all(each.passes(event) for each in filters)]


def _matches(name: str, pattern: str) -> bool:
    parts = name.split(".")
    return any(fnmatchcase(".".join(parts[start:]), pattern) for start in range(len(parts)))
