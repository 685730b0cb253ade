"""A schedule as a self-contained page: packets, the state of the switch, what each worker believes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from string import Template
from typing import Any

from hotline_allreduce.judge.description import Description, JudgedSystem, Violation, letter
from hotline_allreduce.judge.engine import Judge

_PAGE = Template("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em }
.table { overflow-x: auto }
table { border-collapse: collapse; min-width: 44em; width: 100% }
td, th { border: 1px solid #ccc; padding: .4em .6em; text-align: left; vertical-align: top }
th { background: #f3f3f3 }
.wrong { color: #b00020; font-weight: bold }
</style>
<h1>$title</h1>
<p>$introduction</p>
<div class="table"><table>
<tr><th>step</th><th>what happens</th>$columns</tr>
$rows
</table></div>
</html>
""")


_RESENT = "resent "


def page_of(judge: Judge, violation: Violation, steps: Sequence[str]) -> str:
    protocol, systems = judge.protocol, [state.system for state in judge.replay(steps)]
    rows = [
        _row(protocol, systems[0], number, step, system)
        for number, (step, system) in enumerate(zip(["", *steps], systems, strict=True))
    ]
    nodes = "the switch" if systems[0].server is None else "the switch and the server"
    columns = [
        f"what has changed in {nodes} since the beginning",
        *(f"worker {letter(worker)} believes" for worker in range(protocol.workers)),
    ]
    return _PAGE.substitute(
        title=escape(f"{protocol.name}: {violation.value}"),
        introduction=escape(
            f"{len(steps)} steps, the fewest that lead there. A1 is worker A's packet of chunk 1. A late "
            "packet is a copy of one whose answer its worker has already."
        ),
        columns="".join(f"<th>{column}</th>" for column in columns),
        rows="\n".join(rows),
    )


def _row(protocol: Description, first: JudgedSystem, number: int, step: str, system: JudgedSystem) -> str:
    lines = list(_changed_lines(protocol, "switch", "block", first.switch, system.switch))
    lines += _changed_lines(protocol, "server", "block", first.server, system.server)
    cells = [str(number), escape(step), "<br>".join(map(escape, lines)) or "nothing"]
    cells += [_beliefs(protocol, worker, system) for worker in range(protocol.workers)]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _changed_lines(protocol: Description, name: str, field: str, before: Any, now: Any) -> Iterator[str]:
    """Yield a line for each part of a state in which something has changed; `field` is the part's name."""
    pairs: list[tuple[str, str, Any, Any]]  # text, field, value before and now
    if is_dataclass(now):
        values = (
            (each.name, getattr(before, each.name, None), getattr(now, each.name)) for each in fields(now)
        )
        pairs = [(key.replace("_", " "), key, old, value) for key, old, value in values]
    elif isinstance(now, dict):
        pairs = [
            (key if isinstance(key, str) else f"{field} {key}", field, (before or {}).get(key), value)
            for key, value in now.items()
        ]
    elif isinstance(now, (list, tuple)):
        old_values = before or [None] * len(now)
        pairs = [(f"{field} {i}", field, old_values[i], value) for i, value in enumerate(now)]
    else:
        return
    changed = [
        f"{text} = {_text(protocol, key, value)}"
        for text, key, old, value in pairs
        if old != value and not _has_parts(value)
    ]
    if changed:
        yield f"{name}: {'; '.join(changed)}"
    for text, key, old, value in pairs:
        if _has_parts(value):
            # Elements of a field are named after it, so the field itself is not in the name.
            is_field_with_elements = is_dataclass(now) and not is_dataclass(value)
            part = key.removesuffix("s") if is_field_with_elements else "entry"
            yield from _changed_lines(
                protocol, name if is_field_with_elements else f"{name}, {text}", part, old, value
            )


def _has_parts(value: Any) -> bool:
    if isinstance(value, dict):
        return True
    return is_dataclass(value) or (isinstance(value, (list, tuple)) and any(map(_has_parts, value)))


def _text(protocol: Description, field: str, value: Any) -> str:
    if field == "bitmap":
        return (
            ", ".join(letter(worker) for worker in range(protocol.workers) if value >> worker & 1) or "none"
        )
    if field in ("value", "values", "total"):
        return addends_of(protocol, value if isinstance(value, int) else value[0] if value else 0)
    return str(value)


def addends_of(protocol: Description, total: int) -> str:
    """Return the addends of a sum by the names of their packets."""
    names = [
        f"{letter(worker)}{chunk}"
        for worker in range(protocol.workers)
        for chunk in protocol.chunks
        for _ in range(total // protocol.addend(worker, chunk) & 3)
    ]
    return " + ".join(names) or "nothing"


def _beliefs(protocol: Description, worker: int, system: JudgedSystem) -> str:
    host = system.hosts[worker]
    names = [
        packet.name
        for packet in protocol.sendable(worker, host)
        if not (packet.is_late or packet.name.startswith(_RESENT))
    ]
    waits = not protocol.is_done(host)
    lines = [escape(f"waits for the answer to {', '.join(names)}" if waits else "waits for nothing")]
    for chunk, total in sorted(protocol.results(host).items()):
        line = escape(f"sum {chunk} = {addends_of(protocol, total)}")
        is_wrong = total != protocol.expected_sum(chunk)
        lines.append(f'<span class="wrong">{line}: wrong</span>' if is_wrong else line)
    return "<br>".join(lines)
