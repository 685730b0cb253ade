"""`report.html`: the run's tables and figures in one self-contained page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from analysis.facts import facts, without_intervals
from analysis.figures import figures
from analysis.record import RunRecord
from analysis.summary import LoadSummary, Summary
from analysis.table import DIFFERENCE_ROWS, DifferenceRow
from common.words import counted
from logs.columns import ARMS, BASELINE
from logs.parts import write_text
from protocol.arms import MEASURED


def write_report(run: Path, record: RunRecord, summary: Summary) -> Path:
    """Write `summary.json` and `report.html` into the run folder and return the path of the report."""
    sections = [
        *(_section(f"Load {name}", _differences(load)) for name, load in summary.loads.items()),
        *(_section(title, figure) for title, figure in figures(run, summary).items()),
        _section("Where offload loses", _losses(summary)),
    ]
    template = Template(files("analysis").joinpath("report.html").read_text())
    page = template.substitute(
        title=escape(f"Run {run.name} on {_switch(record)}"),
        facts=_items(facts(summary)),
        sections="\n".join(sections),
        record=escape(record.model_dump_json(indent=2, exclude={"blocks"})),
    )
    write_text(run / "summary.json", summary.model_dump_json(indent=2) + "\n")
    report = run / "report.html"
    write_text(report, page)
    return report


def _switch(record: RunRecord) -> str:
    """The target, with its datapath; with the kernel's, what it took of its senders' CPU."""
    if record.datapath is None:
        return record.target
    ports = (record.switch or {}).get("ports", {}).values()
    frames = sum(port["rx"] - port["rx_dropped"] for port in ports)
    ns = sum(port.get("program_ns", 0) for port in ports)
    took = f", {ns / frames / 1000:.1f} µs of senders' CPU a frame" if ns and frames else ""
    return f"{record.target} (datapath {record.datapath}{took})"


def losses(summary: Summary) -> Iterator[str]:
    """Metrics for which an arm with offload is worse than the baseline, interval and all."""
    for name, load in summary.loads.items():
        for arm in (arm.name for arm in MEASURED if arm.offloaded):
            for row in DIFFERENCE_ROWS:
                found = load.differences.get(arm, {}).get(row.metric)
                if found is not None and found.low is not None and found.low > 0:
                    yield (
                        f"Load {name}, {arm}: {row.title} is {found.difference:{row.format}} "
                        f"above {BASELINE}'s {found.baseline:{row.format}}."
                    )


def _differences(load: LoadSummary) -> str:
    arms = [arm for arm in ARMS if arm in load.differences]
    if not arms:
        return "<p>No round is complete.</p>"
    head = "".join(f"<th>{arm}</th>" for arm in ("", BASELINE, *arms))
    body = "".join(
        _row(row, load, arms) for row in DIFFERENCE_ROWS if row.metric in load.differences[arms[0]]
    )
    rounds = counted(load.rounds, "round")
    return (
        f"<p>{load.offered_rate:,.1f} steps/s offered, {rounds}; differences to {BASELINE}.</p>"
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        + "".join(f"<p>{escape(line)}</p>" for line in without_intervals(load))
    )


def _row(row: DifferenceRow, load: LoadSummary, arms: list[str]) -> str:
    baseline = load.differences[arms[0]][row.metric].baseline
    cells = [f"<td>{row.title}</td>", f"<td>{baseline:{row.format}}</td>"]
    for arm in arms:
        found = load.differences[arm][row.metric]
        interval, clear = "", ""
        if found.low is not None and found.high is not None:
            bounds = f"[{found.low:+{row.format}}, {found.high:+{row.format}}]"
            interval = f' <span class="interval">{bounds}</span>'
            clear = "" if found.low <= 0 <= found.high else ' class="clear"'
        cells.append(f"<td><span{clear}>{found.difference:+{row.format}}</span>{interval}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _section(title: str, content: str) -> str:
    return f"<h2>{escape(title)}</h2>\n{content}"


def _losses(summary: Summary) -> str:
    items = _items(losses(summary))
    if items:
        return f"<ul>\n{items}\n</ul>"
    unknown = [line for load in summary.loads.values() for line in without_intervals(load)]
    if len(unknown) == len(summary.loads):
        return f"<p>These rounds cannot tell. {escape(unknown[0])}</p>"
    return "<p>Nowhere that these rounds can tell.</p>"


def _items(lines: Iterator[str]) -> str:
    return "\n".join(f"<li>{escape(line)}</li>" for line in lines)
