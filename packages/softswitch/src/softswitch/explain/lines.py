from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import click

from softswitch.explain import events as ev
from softswitch.explain.folding import fold_names
from softswitch.explain.notation import written
from softswitch.messages import pluralize

MAX_NAMED_TABLES = 3
"""Maximum number of tables without a match whose names are shown; if there are more, only their number is."""
HEX_DIGITS_PER_BYTE = 2
_MAX_DATA_DIGITS = 24  # of hashed data; longer data is shown by its ends


@dataclass(frozen=True)
class Text:
    text: str
    bold: bool = False
    dim: bool = False
    colour: str | None = None

    def __str__(self) -> str:
        return self.text

    def render(self, line: str | None = None) -> str:
        # `line` is one line of the text if it was wrapped.
        return click.style(
            self.text if line is None else line, bold=self.bold or None, dim=self.dim or None, fg=self.colour
        )


def part_line(name: str) -> Text:
    return Text(name, bold=True, colour="cyan")


def byte_count(hex_data: str) -> str:
    return pluralize(len(hex_data) // HEX_DIGITS_PER_BYTE, "byte")


def idle_line(events: Sequence[ev.Event]) -> Text:
    # Without a key, a table counts as a statement, for which p4c generates such tables.
    tables = [e.context.table for e in events if isinstance(e, ev.TableEvent) and e.key]
    parts = []
    if tables:
        folded = fold_names(tables)
        names = f": {', '.join(folded)}" if len(folded) <= MAX_NAMED_TABLES else ""
        parts.append(f"{pluralize(len(tables), 'table')} without a match{names}")
    if statement_count := len(events) - len(tables):
        parts.append(f"{pluralize(statement_count, 'statement')} without effect")
    return Text("… " + ", ".join(parts), dim=True)


def event_line(event: ev.Event) -> Text:
    match event:
        case ev.BeginEvent(_, origin, _, port, data):
            return Text(f"{origin}: {byte_count(data)} from port {port}", dim=True)
        case ev.QueueEvent(_, port):
            return Text(f"to egress, for port {port}")
        case ev.DropEvent(_, reason):
            return Text(f"dropped: {reason}", bold=True, colour="red")
        case ev.DeparseEvent(_, headers, payload_bytes, data):
            payload_text = f" and {pluralize(payload_bytes, 'byte')} of payload" if payload_bytes else ""
            return Text(f"{', '.join(headers) or 'no header'}{payload_text}: {byte_count(data)}")
        case ev.SendEvent(_, port, data):
            text = f"sent to port {port}, {byte_count(data)}"
            return Text(text, bold=True, colour="green")
        case ev.RequestEvent(_, request, value):
            return Text(f"asks for {request}{'' if value is None else f' {value}'}", colour="magenta")
        case ev.DigestEvent(_, name, values):
            return Text(f"digest {name}({', '.join(values)})", colour="magenta")
        case ev.LogEvent(_, text, failed):
            return Text(f"log: {text}", colour="red" if failed else "magenta")
    return _parser_line(event) or _control_line(event) or _extern_line(event) or Text(event.KIND)


def _parser_line(event: ev.Event) -> Text | None:
    match event:
        case ev.StateEvent(context):
            return Text(f"state {context.state}", bold=True)
        case ev.ExtractEvent(_, header, start, length, fields):
            values = _value_list(fields)
            return Text(f"{header}  bytes {start} to {start + length - 1}: {values}")
        case ev.AdvanceEvent(_, start, length):
            return Text(f"skips {pluralize(length, 'byte')} from {start} on")
        case ev.SelectEvent(_, key, next_state):
            return Text(f"→ {'' if key is None else f'by {key} '}{next_state or 'accept'}")
        case ev.ParsedEvent(_, error, parsed_bytes):
            colour = None if error == "NoError" else "red"
            return Text(
                f"{error}: {pluralize(parsed_bytes, 'byte')} parsed", dim=colour is None, colour=colour
            )
    return None


def _control_line(event: ev.Event) -> Text | None:
    match event:
        case ev.EnterEvent(context):
            return Text(f"{context.part} begins", dim=True)
        case ev.ConditionEvent(_, text, holds):
            return Text(f"if {text or '…'}: {'true' if holds else 'false'}", dim=True)
        case ev.TableEvent(context):
            return Text(_table_text(context, event), bold=True, colour="yellow" if event.hit else None)
        case ev.AssignEvent(_, name, width, before, after, is_valid):
            value, old_value = written(name, width, after), written(name, width, before)
            text = f"{name.removeprefix('scalars.')} = {value}  (was {old_value})"
            if is_valid:
                return Text(text)
            return Text(f"{text}, but {name.rpartition('.')[0]} is invalid", colour="red")
        case ev.ValidityEvent(_, header, valid):
            return Text(f"{header} {'valid' if valid else 'invalid'}")
        case ev.CursorEvent(_, stack, before, after):
            return Text(f"{stack}.next = {after}  (was {before})")
    return None


def _table_text(context: ev.Context, table: ev.TableEvent) -> str:
    key = ", ".join(
        f"{part.name} {_key_text(part, part.value)}"
        + ("" if part.entry in (None, part.value) else f" ({part.match} {_key_text(part, part.entry or '')})")
        for part in table.key
    )
    details = [f"member {table.member}"] if table.member is not None else []
    details += [f"group {table.group}"] if table.group is not None else []
    details += [f"priority {table.priority}"] if table.priority is not None else []
    outcome = ("hit" if table.hit else "miss") if table.key else ""
    effect = f"{context.action}({_value_list(table.data)})" if context.action else "nothing"
    words = [f"table {context.table}", f"[{key}]" if key else "", outcome, *details, "→", effect]
    return " ".join(word for word in words if word)


def _key_text(part: ev.KeyPart, text: str) -> str:
    # The field's name says more than the key's, which the control plane sees.
    return written(part.field or part.name, part.width, text)


def _value_list(values: Sequence[ev.Value]) -> str:
    return ", ".join(f"{name} {written(name, width, value)}" for name, value, width in values)


def _shortened(digits: str) -> str:
    if len(digits) <= _MAX_DATA_DIGITS:
        return digits
    half = _MAX_DATA_DIGITS // 2
    return f"{digits[:half]}…{digits[-half:]}, {byte_count(digits)}"


def _extern_line(event: ev.Event) -> Text | None:
    match event:
        case ev.RegisterEvent(_, op, name, index, before, after):
            if before is None:
                return Text(f"register {name}[{index}] {op}: there is no such cell", colour="red")
            value = f"reads {before}" if op == "read" else f"= {after}  (was {before})"
            return Text(f"register {name}[{index}] {value}", colour="blue")
        case ev.CounterEvent(_, name, index, packets, octets):
            if packets is None:
                return Text(f"counter {name}[{index}]: there is no such cell", colour="red")
            cell = name if index is None else f"{name}[{index}]"
            return Text(
                f"counter {cell} counts: {pluralize(packets, 'packet')}, "
                f"{pluralize(octets or 0, 'byte')} now",
                colour="blue",
            )
        case ev.MeterEvent(_, name, index, colour):
            cell = name if index is None else f"{name}[{index}]"
            return Text(f"meter {cell}: {colour or 'there is no such cell'}", colour="blue")
        case ev.HashEvent(_, name, algorithm, data, value):
            return Text(
                f"hash {name or 'of a call'}: {algorithm}({_shortened(data)}) = {value}", colour="blue"
            )
        case ev.ChecksumEvent(_, op, name, value, expected, is_right):
            if is_right:
                return Text(f"checksum {name} {value}: {'right' if op == 'verify' else 'stored'}")
            return Text(f"checksum {name} {value}: wrong, expected {expected}", colour="red")
        case ev.RandomEvent(_, low, high, value):
            return Text(f"random from {low} to {high}: {'none' if value is None else value}", colour="blue")
    return None
