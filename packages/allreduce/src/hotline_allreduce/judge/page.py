"""A schedule as a self-contained page: packets, the state of the switch, what each worker believes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from string import Template
from typing import Any

from hotline_allreduce.judge.description import Description, System, Violation, letter
from hotline_allreduce.judge.engine import Judge

_PAGE = Template("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>$title</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em }
table { border-collapse: collapse; width: 100% }
td, th { border: 1px solid #ccc; padding: .4em .6em; text-align: left; vertical-align: top }
th { background: #f3f3f3 }
.wrong { color: #b00020; font-weight: bold }
</style>
<h1>$title</h1>
<p>$introduction</p>
<table>
<tr><th>step</th><th>comes to the switch</th><th>what has changed in the switch$and_server since the beginning</th>$workers</tr>
$rows
</table>
</html>
""")


_RESENT = "resent "


def page_of(judge: Judge, violation: Violation, steps: Sequence[str]) -> str:
    protocol, systems = judge.protocol, [state.system for state in judge.replay(steps)]
    rows = [
        _row(protocol, systems[0], number, step, system)
        for number, (step, system) in enumerate(zip(["", *steps], systems, strict=True))
    ]
    hosts = [f"worker {letter(worker)} believes" for worker in range(protocol.workers)]
    return _PAGE.substitute(
        title=escape(f"{protocol.name}: {violation.value}"),
        introduction=escape(
            f"{len(steps)} steps, the fewest that lead there. A1 is worker A's packet of chunk 1. A late packet "
            "is a copy of one whose answer its worker has already."
        ),
        and_server="" if systems[0].server is None else " and the server",
        workers="".join(f"<th>{host}</th>" for host in hosts),
        rows="\n".join(rows),
    )


def _row(protocol: Description, first: System, number: int, step: str, system: System) -> str:
    lines = list(_changed_lines(protocol, "switch", first.switch, system.switch))
    lines += _changed_lines(protocol, "server", first.server, system.server)
    cells = [str(number), escape(step), "<br>".join(map(escape, lines)) or "nothing"]
    cells += [_beliefs(protocol, worker, system) for worker in range(protocol.workers)]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _changed_lines(protocol: Description, name: str, before: Any, now: Any) -> Iterator[str]:
    """Yield a line for each part of a state in which a field has changed."""
    if is_dataclass(now):
        pairs = [(each.name, getattr(before, each.name, None), getattr(now, each.name)) for each in fields(now)]
    elif isinstance(now, dict):
        pairs = [(str(key), (before or {}).get(key), value) for key, value in now.items()]
    elif isinstance(now, (list, tuple)):
        before = before or [None] * len(now)
        pairs = [(str(index), *each) for index, each in enumerate(zip(before, now, strict=False))]
    else:
        return
    changed = [
        f"{field.replace('_', ' ')} {_text(protocol, field, value)}"
        for field, old, value in pairs
        if old != value and not _has_parts(value)
    ]
    if changed:
        yield f"{name}: {'; '.join(changed)}"
    for field, old, value in pairs:
        if _has_parts(value):
            yield from _changed_lines(protocol, f"{name}, {field.replace('_', ' ')}", old, value)


def _has_parts(value: Any) -> bool:
    if isinstance(value, dict):
        return True
    return is_dataclass(value) or (isinstance(value, (list, tuple)) and any(map(_has_parts, value)))


def _text(protocol: Description, field: str, value: Any) -> str:
    if field == "bitmap":
        return ", ".join(letter(worker) for worker in range(protocol.workers) if value >> worker & 1) or "none"
    return addends_of(protocol, value[0]) if field == "values" and value else str(value)


def addends_of(protocol: Description, total: int) -> str:
    """Return the addends of a sum by the names of their packets."""
    names = [
        f"{letter(worker)}{chunk}"
        for worker in range(protocol.workers)
        for chunk in protocol.chunks
        for _ in range(total // protocol.addend(worker, chunk) & 3)
    ]
    return " + ".join(names) or "nothing"


def _beliefs(protocol: Description, worker: int, system: System) -> str:
    host = system.hosts[worker]
    waits = [packet.name for packet in protocol.sendable(worker, host) if not packet.is_late]
    names = [name for name in waits if not name.startswith(_RESENT)]
    lines = [escape(f"waits for the answer to {', '.join(names)}" if names else "has all answers")]
    for chunk, total in sorted(protocol.results(host).items()):
        line = escape(f"sum {chunk} = {addends_of(protocol, total)}")
        is_wrong = total != protocol.expected_sum(chunk)
        lines.append(f'<span class="wrong">{line}: wrong</span>' if is_wrong else line)
    return "<br>".join(lines)
