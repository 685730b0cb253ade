"""A schedule as a self-contained page: packets, the state of the switch, what each worker believes."""

from __future__ import annotations

from html import escape
from string import Template

from hotline_allreduce.judge.description import Description, Host, letter
from hotline_allreduce.judge.engine import Judge, Schedule, State, Violation

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
<tr><th>step</th><th>comes to the switch</th><th>state of the switch</th>$workers</tr>
$rows
</table>
</html>
""")


def page_of(judge: Judge, violation: Violation, schedule: Schedule) -> str:
    protocol, states = judge.protocol, judge.replay(schedule)
    version = "with its check" if protocol.check else "as published"
    rows = [
        _row(protocol, number, text, state)
        for number, (text, state) in enumerate(zip(["", *map(str, schedule)], states, strict=True))
    ]
    return _PAGE.substitute(
        title=escape(f"{protocol.name}, {version}: {violation.value}"),
        introduction=escape(
            f"{len(schedule)} steps, the fewest that lead there. A1 is worker A's packet of chunk 1. A late "
            "packet is a copy of one whose sum its worker has already."
        ),
        workers="".join(f"<th>worker {letter(worker)} believes</th>" for worker in range(protocol.workers)),
        rows="\n".join(rows),
    )


def _row(protocol: Description, number: int, text: str, state: State) -> str:
    nodes = "<br>".join(map(escape, protocol.node_lines(state.nodes)))
    hosts = "".join(f"<td>{_beliefs(protocol, host)}</td>" for host in state.hosts)
    return f"<tr><td>{number}</td><td>{escape(text)}</td><td>{nodes}</td>{hosts}</tr>"


def _beliefs(protocol: Description, host: Host) -> str:
    lines = [escape(protocol.host_line(host))]
    for chunk, total in sorted(protocol.results(host).items()):
        line = escape(f"sum {chunk} = {protocol.addends_of(total)}")
        is_wrong = total != protocol.expected_sum(chunk)
        lines.append(f'<span class="wrong">{line}: wrong</span>' if is_wrong else line)
    return "<br>".join(lines)
