"""The bench: the tables of docs/performance.md and of packages/optimisers/README.md."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from foundation.checkout import ROOT
from foundation.optimisers import TableOptimiser, parse
from hotline_agents.ps.optimise import make_rules
from hotline_agents.ps.share import cells_of_row
from hotline_agents.ps.values import CELL, words_of_value
from tools.evidence.result import Column, EvidenceError, Row, Table, make_table
from tools.evidence.stage import Stage, Step, json_output

SECTIONS = (
    "forwarding", "ports", "function", "hits", "parts", "writes", "memory", "load", "agents", "kv",
    "optimisers",
)  # fmt: skip
_PATHS = ":".join(str(ROOT / "packages" / "softswitch" / folder) for folder in ("bench", "tests"))
_TARGETS = {
    "sockets, or agent": ("softswitch", "agent", "hotline.Worker"),
    "kernel": ("softswitch (kernel)",),
    "BMv2": ("BMv2",),
    "least": ("C loop", "echo", "built-in worker"),
}
"""Column -> names of the bench's targets, of which a line has at most one."""


class Line(NamedTuple):
    """A row of the table: a line of the bench."""

    title: str
    section: str
    what: str
    form: str = "{:,.0f}"
    scale: float = 1.0


_HIT, _COLD, _L3 = "our program, 32 lanes hit", "our program, 32 lanes cold", "L3 forwarding, 128 B"
_WRITES = "table writes over gRPC, batches of 1,000"
_PS = "PS, `handle` alone, 32-lane {op}, 900,000 dense keys (0.0072 GB)"
_KEYS = "push_pull of 3,000 keys, 1 value each: CPU time"


def _lines() -> Iterator[Line]:
    for title, what in {
        "Hotline, 32 lanes hit": _HIT,
        "Hotline, 32 lanes cold": _COLD,
        "L3 forwarding": _L3,
    }.items():
        yield Line(f"{title}: packets/s", "forwarding", what)
        for quantile in ("p50", "p99"):
            row = f"{title}: {quantile}, µs"
            yield Line(row, "forwarding", f"{what}: {quantile} at 1,000/s", "{:,.1f}")
    yield Line(
        "L3 forwarding from one port to 63: packets/s", "ports", "L3 forwarding from 1 port to 63, 128 B"
    )
    for title, what in {
        "32 lanes hit, keys one after the other in memory": "our program, 32 lanes hit, same keys",
        "32 lanes cold": _COLD,
        "L3 forwarding": "L3 forwarding",
        "no P4 work": "no P4 work",
    }.items():
        yield Line(f"packet function, {title}, ns", "function", f"packet function, {what}")
    for jobs in ("1 job", "4 jobs"):
        for caches in ("warm", "evicted"):
            what = f"32 lanes, hit, {jobs}, caches {caches}"
            yield Line(
                f"packet function, 32 lanes hit, keys of a run, {jobs}, caches {caches}, ns", "hits", what
            )
    for title, what in {
        "alone, 128 B": "ring to ring, 128 B",
        "with L3 forwarding": "and L3 forwarding, 128 B",
        "alone, 482 B": "ring to ring, 482 B",
        "with Hotline, 32 lanes cold": "and our program, 32 lanes cold",
        "with Hotline, 32 lanes hit": "our program, 32 lanes hit: 98 B go back",
    }.items():
        yield Line(f"from veth to veth {title}, CPU time of a frame, ns", "parts", f"a packet's time: {what}")
    for change in ("insert", "modify", "delete"):
        yield Line(
            f"table writes over gRPC: {change}, thousand/s", "writes", f"{_WRITES}: {change}", scale=1e-3
        )
    yield Line("hot set written over gRPC, thousand/s", "writes", f"{_WRITES}: hot set", scale=1e-3)
    yield Line("memory of 1,000,000 exact entries, MB", "memory", "memory of 1,000,000 exact entries")
    for title, what in {
        "nothing cached": "nothing cached",
        "new program": "a program not seen before",
        "program seen before": "a program seen before",
    }.items():
        yield Line(
            f"start to first packet, {title}, s", "load", f"process start to first packet, {what}", "{:.1f}"
        )
    for op in ("pull", "push"):
        title = f"parameter server (PS), RPC function alone: 32-lane {op}, 900,000 dense keys, µs"
        yield Line(title, "agents", _PS.format(op=op), "{:.2f}")
    for op in ("pull", "push"):
        what = f"PS over veth, 32-lane {op}, 900,000 keys"
        yield Line(f"PS over veth: 32-lane {op}, RPCs/s", "agents", what)
        yield Line(
            f"PS over veth: 32-lane {op}, CPU time, µs", "agents", f"{what}: CPU time an RPC", "{:.2f}"
        )
    for op in ("pull", "push"):
        what = f"worker, {op} of 3,000 keys alone: hash, pack, encode"
        yield Line(f"worker: hash, pack and encode a {op} of 3,000 keys, µs", "agents", what)
    what = "worker over veth, 3,000 keys a step: CPU time an RPC"
    yield Line("worker over veth, 3,000 keys a step: CPU time an RPC, µs", "agents", what, "{:.2f}")
    yield Line("`hotline.Worker`: `push_pull` of 3,000 keys, CPU time, µs", "kv", _KEYS)
    yield Line("`hotline.Worker`: of it in the script's calls, µs", "kv", f"{_KEYS}, calls")


LINES = tuple(_lines())
_DIFFERENCE = re.compile(r" \([+-][\d,]+\)$")
"""End of a line's name in section `parts`: how much a part adds to the part before it."""
_OPTIMISERS = {"sgd(lr=0.1)": "SGD", "adagrad": "Adagrad", "ftrl": "FTRL", "adam": "Adam"}
"""Optimiser of the section, as a setting has it -> name of its row."""

Rounds = Mapping[str, Sequence[float]]
"""Target -> value of each round."""


def _step(section: str) -> Step:
    words = ("env", f"PYTHONPATH={_PATHS}", sys.executable, "-m", "tools.bench", "--json", section)
    return Step(section, words, f'make bench ARGS="--json {section}"')


def tables(folder: Path) -> dict[str, Table]:
    found = {
        (line["section"], _DIFFERENCE.sub("", line["what"])): line["rounds"]
        for section in SECTIONS
        for line in json_output(folder, section)["lines"]
    }
    return {"performance": _performance(found), "optimisers-cost": _optimisers(found)}


def rounds_of(found: Mapping[tuple[str, str], Rounds], section: str, what: str) -> Rounds:
    if (section, what) not in found:
        raise EvidenceError(f"section {section} of the bench: expected a line {what!r}, found none")
    return found[section, what]


def _performance(found: Mapping[tuple[str, str], Any]) -> Table:
    rows = tuple(
        Row(
            names=(line.title,), form=line.form,
            cells=tuple(_values(rounds_of(found, line.section, line.what), line.scale)),
        )
        for line in LINES
    )  # fmt: skip
    return Table(
        quantity="speed of switch, servers and workers", statistic="median of the rounds of the bench",
        headings=("what",), columns=tuple(Column(name=name) for name in _TARGETS), rows=rows,
    )  # fmt: skip


def _values(rounds: Rounds, scale: float) -> Iterator[float | None]:
    for names in _TARGETS.values():
        measured = [rounds[name] for name in names if rounds.get(name)]
        yield scale * median(measured[0]) if measured else None


def _optimisers(found: Mapping[tuple[str, str], Any]) -> Table:
    additions: list[float] = []
    rows: dict[tuple[str, ...], list[float | None]] = {}
    for text, title in _OPTIMISERS.items():
        name = text.partition("(")[0]
        what = f"PS, `handle` alone, 32-lane push with {name}, 900,000 dense keys"
        rounds = rounds_of(found, "optimisers", what)
        costs, of_addition = rounds["optimiser"], rounds["addition"]
        ratio = median(a / b for a, b in zip(costs, of_addition, strict=True))
        rows[title,] = [median(costs), ratio, bytes_of_parameter(text)]
        additions += of_addition
    rows = {("addition",): [median(additions), None, bytes_of_parameter(None)], **rows}
    return make_table(
        "cost of a push of 32 lanes with an optimiser, and memory of a parameter with its state",
        "median of the rounds of the bench",
        ("",),
        {"µs": "{:.2f}", "of addition": "× {:.2f}", "memory of a parameter": "{:.0f} B"},
        rows,
    )


def bytes_of_parameter(optimiser: str | None) -> int:
    """Return the memory of a row of one value at a server, with the optimiser's state."""
    tables = [] if optimiser is None else [TableOptimiser(first=0, scale=1.0, optimiser=parse(optimiser))]
    cells = cells_of_row(dim=1, words_of_value=words_of_value(make_rules(tables)))
    return int(CELL.itemsize) * cells


BENCH = Stage(
    name="bench",
    minutes=29,
    results=("performance", "optimisers-cost"),
    steps=tuple(map(_step, SECTIONS)),
    tables=tables,
    modules=("tools.bench",),
    files=(
        "p4src/**/*.json", "tools/bench/**/*.py", "packages/softswitch/bench/**/*.py",
        "packages/softswitch/src/softswitch/**/*.py",
    ),
    seeds=(1,),
    needs="two quiet cores, root, and simple_switch_grpc (HOTLINE_BMV2)",
)  # fmt: skip


_MANY = "many"
_FORMS = {"memory": ("memory", "{:.1f} MB"), "start": ("CPU time until it is ready", "{:.2f} s")}


def many_switches(folder: Path) -> dict[str, Table]:
    """Return what each of many switches takes, alone and as a fork of a shared process."""
    lines = json_output(folder, _MANY)["lines"]
    rows = []
    for line in lines:
        quantity, of_what = line["what"].split(" of ", 1)
        title, form = _FORMS[quantity]
        rounds = line["rounds"]
        cells = tuple(median(rounds[name]) for name in ("sharing a process", "alone"))
        rows.append(Row(names=(f"{title}, {of_what}",), form=form, cells=cells))
    columns = tuple(Column(name=name) for name in ("sharing a process", "alone"))
    return {
        "many-switches": Table(
            quantity="what many switches take",
            statistic="median of the rounds of the bench",
            headings=("what",),
            columns=columns,
            rows=tuple(rows),
        )
    }


_NETWORKS = "networks"
_NETWORK_FORMS = {
    "fat tree of 20 switches": ("passes through a fat tree of 20 switches, a CPU second", "{:,.0f}"),
    "compiled hosts": ("frames between two compiled hosts, a CPU second", "{:,.0f}"),
    "start of 100 switches": ("CPU time until 100 switches of one program can run", "{:.2f} s"),
    "memory of 1000 switches": ("memory that 1,000 switches of one program take", "{:.0f} MB"),
}


def networks(folder: Path) -> dict[str, Table]:
    """Return the speed, the start and the memory of networks in virtual time."""
    rows = []
    for line in json_output(folder, _NETWORKS)["lines"]:
        title, form = _NETWORK_FORMS[line["what"]]
        rows.append(Row(names=(title,), form=form, cells=(median(line["rounds"]["simulated"]),)))
    return {
        "networks": Table(
            quantity="networks in virtual time",
            statistic="median of the rounds of the bench",
            headings=("what",),
            columns=(Column(name="simulated"),),
            rows=tuple(rows),
        )
    }


NETWORKS = Stage(
    name="networks",
    minutes=1,
    results=("networks",),
    steps=(_step(_NETWORKS),),
    tables=networks,
    modules=("switch_bench.sections.networks", "softswitch.network.network", "softswitch.network.loop"),
    needs="a quiet core",
)


MANY_SWITCHES = Stage(
    name="many-switches",
    minutes=3,
    results=("many-switches",),
    steps=(_step(_MANY),),
    tables=many_switches,
    modules=("switch_bench.sections.many", "softswitch.shared_server"),
    needs="root",
)
