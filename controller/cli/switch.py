"""Commands on a switch: move hot sets, switch offload and proxy, read tables, counters and registers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from controller import hotset as hotsets
from controller.cli.common import (
    dry_run_option,
    job_option,
    json_option,
    on_switch,
    one_line_errors,
    print_json,
    print_table,
    progress_bar,
    switch_options,
)
from controller.controller import Controller
from controller.migrate import Plan
from controller.status import Status
from controller.tables import Job
from protocol.header import LANES

_ON_OFF = {True: "on", False: "off"}


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@switch_options
@job_option
@dry_run_option
@json_option
def load(file: Path, address: str, device_id: int, job: int, dry_run: bool, as_json: bool) -> None:
    """Make FILE the hot set of a job, moving only the difference, while training goes on.

    A load that was interrupted is finished by loading again.
    """
    with one_line_errors():
        keys = hotsets.read(file)["key"].to_list()
    _move("load", address, device_id, job, keys, dry_run, as_json)


@click.command()
@switch_options
@job_option
@dry_run_option
@json_option
def unload(address: str, device_id: int, job: int, dry_run: bool, as_json: bool) -> None:
    """Take all keys of a job home to their parameter servers."""
    _move("unload", address, device_id, job, [], dry_run, as_json)


def _move(
    label: str, address: str, device_id: int, job: int, keys: list[int], dry_run: bool, as_json: bool
) -> None:
    async def action(controller: Controller) -> Plan:
        if dry_run:
            return await controller.plan(job, keys)
        with progress_bar(label) as progress:
            return await controller.load(job, keys, progress=progress)

    plan = on_switch(address, device_id, action, primary=not dry_run)
    _print_changes(dict(plan.summary()), dry_run, as_json)


@click.command()
@click.argument("state", type=click.Choice(["on", "off"]))
@switch_options
@job_option
@dry_run_option
@json_option
def offload(state: str, address: str, device_id: int, job: int, dry_run: bool, as_json: bool) -> None:
    """Serve a job's hot set in the switch, or have the parameter servers serve it.

    Off, the entries stay where they are; the values move home.
    """
    on = state == "on"

    async def action(controller: Controller) -> tuple[Job, Plan]:
        before = await controller.job(job)
        if dry_run:
            return before, await controller.plan_offload(job, on)
        with progress_bar(f"offload {state}") as progress:
            return before, await controller.set_offload(job, on, progress=progress)

    before, plan = on_switch(address, device_id, action, primary=not dry_run)
    _print_changes(_flag("offload", before.offload, on) | plan.summary(), dry_run, as_json)


@click.command()
@click.argument("state", type=click.Choice(["on", "off"]))
@switch_options
@job_option
@dry_run_option
@json_option
def proxy(state: str, address: str, device_id: int, job: int, dry_run: bool, as_json: bool) -> None:
    """Let a job's parameter servers see its workers as one connection, or each as its own."""
    on = state == "on"

    async def action(controller: Controller) -> Job:
        before = await controller.job(job)
        if not dry_run:
            await controller.set_proxy(job, on)
        return before

    before = on_switch(address, device_id, action, primary=not dry_run)
    _print_changes(_flag("proxy", before.proxy, on), dry_run, as_json)


@click.command()
@switch_options
@json_option
def status(address: str, device_id: int, as_json: bool) -> None:
    """Jobs, entries by state, hits, misses and overflows of each lane, workers, drops by reason."""
    found = on_switch(address, device_id, lambda controller: controller.status(), primary=False)
    if as_json:
        print_json(_as_json(found))
    else:
        _print_status(found)


@click.command()
@click.argument("keys", nargs=-1, type=click.IntRange(0, 2**64 - 2), metavar="[KEY]...")
@switch_options
@job_option
@json_option
def registers(keys: tuple[int, ...], address: str, device_id: int, job: int, as_json: bool) -> None:
    """Values of keys, or of all keys of a job, that the switch holds, read through the data plane.

    A value is 32-bit fixed point, as it is on the wire; a parked key has none, its PS holds it.
    """
    found = on_switch(address, device_id, lambda controller: controller.registers(job, keys or None))
    columns = ["key", "lane", "slot", "state", "value"]
    rows: list[list[object]] = [
        [entry.param.key, entry.param.lane, entry.param.slot, entry.param.state.value, entry.value]
        for entry in found
    ]
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(f"job {job}", columns, rows)


def _flag(name: str, before: bool, after: bool) -> dict[str, object]:
    """A setting of a job as a change, null where it stays as it is."""
    return {name: None if before == after else _ON_OFF[after]}


def _print_changes(changes: dict[str, object], dry_run: bool, as_json: bool) -> None:
    """Tell what was or would be changed: counts of what, and settings with what they become."""
    if as_json:
        print_json({"dry_run": dry_run, **changes})
        return
    told = [
        f"{what} {change}" if isinstance(change, str) else f"{change} {what}"
        for what, change in changes.items()
        if change
    ]
    did = "would do" if dry_run else "done"
    click.echo(f"{did}: {', '.join(told)}" if told else "nothing to do")


def _as_json(status: Status) -> dict[str, object]:
    return {
        "jobs": [
            asdict(job)
            | {"entries": status.states(job.job)}
            | {"servers": [asdict(server) for server in status.servers if server.job == job.job]}
            for job in status.jobs
        ],
        "workers": [asdict(worker) for worker in status.workers],
        "rpcs": status.counters.rpcs,
        "drops": status.counters.drops,
        "lanes": [
            {"lane": lane, "entries": entries} | asdict(counters)
            for lane, entries, counters in zip(
                range(LANES), status.lane_entries(), status.counters.lanes, strict=True
            )
        ],
    }


def _print_status(status: Status) -> None:
    jobs: list[list[object]] = [
        [
            job.job,
            _ON_OFF[job.offload],
            _ON_OFF[job.proxy],
            "\n".join(server.addr for server in status.servers if server.job == job.job),
            *status.states(job.job).values(),
        ]
        for job in status.jobs
    ]
    print_table("jobs", ["job", "offload", "proxy", "servers", "hot", "reserved", "draining", "parked"], jobs)
    workers: list[list[object]] = [
        [row.job, row.worker, row.epoch, row.row, row.addr, row.udp_port, row.port, "yes" if row.kind else ""]
        for row in status.workers
    ]
    columns = ["job", "worker", "epoch", "row", "address", "UDP port", "switch port", "privileged"]
    print_table("callers", columns, workers)
    lanes: list[list[object]] = [
        [lane, entries, counters.hits, counters.misses, counters.overflows]
        for lane, entries, counters in zip(
            range(LANES), status.lane_entries(), status.counters.lanes, strict=True
        )
    ]
    print_table("lanes", ["lane", "entries", "hits", "misses", "overflows"], lanes)
    print_table("RPCs", ["outcome", "packets"], [[*item] for item in status.counters.rpcs.items()])
    print_table("drops", ["reason", "packets"], [[*item] for item in status.counters.drops.items()])
