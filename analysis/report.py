"""Reports: of a run, `summary.json` and `report.html` in its folder; of a cluster's logs a page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from analysis.answer import Answer
from analysis.elsewhere import answers
from analysis.facts import facts, without_intervals
from analysis.figures.all import Progress, figures, no_progress
from analysis.figures.model import Figure
from analysis.figures.source import Source, of_run
from analysis.page import words
from analysis.page.build import Page, build
from analysis.page.drawing import drawings
from analysis.page.plots import plot
from analysis.page.tables import Row, Table, differences, durability, losses
from analysis.paper import columns, findings
from analysis.record import ANY, RunRecord
from analysis.summary import Summary
from analysis.wording import plain
from foundation.logs.parts import write_text
from foundation.words import counted


def write_report(run: Path, record: RunRecord, summary: Summary, progress: Progress = no_progress) -> Path:
    """Write `summary.json` and `report.html` into the run folder and return the path of the report."""
    told, source = answers(summary), of_run(run)
    drawn = list(figures([source], progress))
    is_virtual = record.simulation is not None
    page = Page(
        title=f"Run {run.name}{', in virtual time' if is_virtual else f' on {_switch(record)}'}",
        answers=told,
        ran=list(what_was_run(record, summary)),
        drawings=drawings(summary, record),
        paper=[paper_table(source, drawn, summary)],
        tables=[("What durability costs", [durability(summary)])] if summary.durable else (),
        baseline=summary.baseline.name,
        differences=[table for name in summary.loads for table in differences(summary, name)],
        losses=[line for name in summary.loads for line in losses(summary, name)],
        no_losses=_no_losses(summary),
        facts=[*facts(summary), *(words.CAVEATS_OF_VIRTUAL_TIME if is_virtual else words.CAVEATS)],
        reading=words.reading(summary, is_virtual),
        glossary=list(words.glossary(summary.run_arms)),
        plots=[plot(figure) for figure in drawn],
        record=record.model_dump_json(indent=2, exclude={"blocks", "repeated_blocks"}),
    )
    results = summary.model_dump(mode="json") | {"answers": list(map(_as_json, told))}
    write_text(run / "summary.json", json.dumps(results, indent=2) + "\n")
    report = run / "report.html"
    write_text(report, build(page))
    return report


def _as_json(told: Answer) -> dict[str, object]:
    return told.model_dump(exclude={"sentences"}) | {"sentences": told.texts()}


def write_cluster_report(source: Source, report: Path, progress: Progress = no_progress) -> Table:
    """Write the page of a cluster's logs; its findings beside the paper's."""
    drawn = list(figures([source], progress))
    paper = paper_table(source, drawn, None)
    page = Page(
        title=f"RPCs of {source.name}",
        ran=list(_logged(source)),
        paper=[paper],
        plots=[plot(figure) for figure in drawn],
        reading=words.READING_LOGS,
    )
    write_text(report, build(page))
    return paper


def paper_table(source: Source, drawn: Sequence[Figure], summary: Summary | None) -> Table:
    """The paper's findings beside those of a run, or with `summary` None of a cluster's logs."""
    found = findings(source.arms, drawn, summary)
    head = ("", "paper", *columns(source.arms).values())
    rows: list[Row] = [(each.what, plain(each.paper), *map(plain, each.here)) for each in found]
    return Table(f"What [DDL] found, and what the logs of {source.name} say", head, rows)


def what_was_run(record: RunRecord, summary: Summary) -> Iterator[tuple[str, str]]:
    """Name and value of what a reader has to know of a run."""
    config, machine, workload = record.config, record.machine, record.workload
    if "parameters" in workload:
        size = counted(workload["parameters"], "parameter")
        yield "workload", f"{workload['name']}: {size}, {workload['lanes_per_step']:,.0f} of them a step"
    if config.get("script"):
        yield "script", f"{config['script']}: a process for each worker in each arm"
    if record.simulation is not None:
        yield "simulated", "the same P4 program and agents, with given costs and cables, in virtual time"
    if "servers" in config:
        hosts = f"{counted(config['workers'], 'worker')}, {counted(config['servers'], 'parameter server')}"
        yield "network", f"{hosts}, one switch: {_switch(record)}"
    if summary.vector is not None:
        yield "vector", f"the {counted(summary.vector, 'parameter')} that most mini-batches have, each step"
    elif "top_k" in config:
        part = "" if summary.hot_part is None else f", {summary.hot_part:.1%} of all"
        yield "hot set", f"the {counted(config['top_k'], 'most updated parameter')} of a profile run{part}"
    rates = [
        name if load.offered_rate is None else f"{name}: {load.offered_rate:,.1f} steps/s of all workers"
        for name, load in summary.loads.items()
    ]
    yield "load", ", ".join(rates)
    rpcs = sum(arm.rpcs_per_step * arm.steps for arm in summary.arms.values())
    steps = sum(arm.steps for arm in summary.arms.values())
    yield "measured", f"{counted(steps, 'step')}, some {rpcs:,.0f} RPCs"
    told = [str(machine[name]) for name in ("system", "kernel", "cpu") if name in machine]
    if told and record.simulation is None:
        cpus = f"{counted(machine['cpus'], 'CPU')}: " if "cpus" in machine else ""
        yield "machine", f"{cpus}{', '.join(told)}"
    placed = ", ".join(f"{name} on {where}" for name, where in _placed(record).items())
    if placed:
        yield "placement", placed
    empty = summary.empty_rpc_latency_us
    if empty.p50 is not None and empty.p99 is not None:
        yield "emulator alone", f"an empty RPC takes {empty.p50:,.0f} µs (p50), {empty.p99:,.0f} µs (p99)"


def _logged(source: Source) -> Iterator[tuple[str, str]]:
    row = (
        source.rpc.select(
            rows=pl.len(),
            workers=pl.col("worker").n_unique(),
            servers=pl.col("ps").n_unique(),
            seconds=(pl.col("t_send_us").max() - pl.col("t_send_us").min()) / 1e6,
        )
        .collect(engine="streaming")
        .row(0, named=True)
    )
    yield "RPCs", f"{row['rows']:,} in {row['seconds']:,.1f} s"
    yield (
        "network",
        f"{counted(row['workers'], 'worker')}, {counted(row['servers'], 'parameter server')}",
    )


def _placed(record: RunRecord) -> dict[str, Any]:
    """The CPUs of each; the kernel's program that has none of its own is where its frames come from."""
    is_its_senders = record.datapath == "kernel" and record.placement.get("switch") == ANY
    return {**record.placement, **({"switch": "its senders' CPUs"} if is_its_senders else {})}


def _switch(record: RunRecord) -> str:
    """The target, with its datapath; with the kernel's, what it took of a CPU: its senders', or one apart."""
    if record.datapath is None:
        return "the P4 program" if record.simulation else record.target
    ports = (record.switch or {}).get("ports", {}).values()
    frames = sum(port["rx"] - port["rx_dropped"] for port in ports)
    ns = sum(port.get("program_ns", 0) for port in ports)
    whose = "senders' CPU" if record.placement.get("switch", ANY) == ANY else "its CPU"
    took = f", {ns / frames / 1000:.1f} µs of {whose} a frame" if ns and frames else ""
    return f"{record.target} (datapath {record.datapath}{took})"


def _no_losses(summary: Summary) -> str:
    unknown = [line for load in summary.loads.values() for line in without_intervals(load)]
    if len(unknown) == len(summary.loads):
        return f"These rounds cannot tell. {unknown[0]}"
    return "Nowhere that these rounds can tell."
