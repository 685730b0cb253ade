"""`hotline status` and `registers`: what a running switch holds and counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import Field

from controller.address import SwitchAddress
from controller.errors import OtherPipeline, SetupFailed
from foundation.protocol.header import LANES, NO_KEY
from foundation.text import pluralize
from hotline.cli.common import (
    ON_OFF,
    call_switch,
    json_option,
    number_cells,
    one_line_errors,
    print_json,
    print_plain_table,
    print_table,
    run_on_switch,
)
from hotline.cli.fields import fills
from hotline.cli.members import MemberWatch, slow_members
from hotline.cli.options import ADDRESS, JobAtSwitch, switch_options

if TYPE_CHECKING:
    from controller.controller import Controller, Register
    from controller.program import ProgramStatus
    from controller.status import LaneCounters, SwitchStatus
    from controller.tables import JobRow

_RECORD = Path("runs/latest/run.json")


class RegisterSettings(JobAtSwitch):
    scale: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Units of a value per 1.0 of the model's weight; None means that of runs/latest/run.json."""


@click.command()
@switch_options
@click.option(
    "--all", "with_details", is_flag=True, help="Also show servers, callers, and the counters of each lane."
)
@json_option
def status(switch: SwitchAddress, with_details: bool, as_json: bool) -> None:
    """Show what the switch holds and counts, job by job.

    Shows arms, entries by state, hit rate, RPCs and drops. Counters include all jobs, since the pipeline was
    committed. Of another program than `hotset`, it shows the entries of tables, the sums of counters, and the
    cells of registers that are not 0. Of a run or `hotline up` on this machine, it names the workers and
    servers that are slow: those that are stopped or have ended, and workers that have sent less than half of
    a median worker's frames.
    """
    with one_line_errors():
        status, program = _read(switch)
    watched = MemberWatch(None, switch.address)
    members = watched.read()
    if as_json:
        shown = _as_json(status) if status is not None else asdict(program) if program is not None else {}
        named = {"switch": switch.address, "switch_name": watched.switch_name}
        print_json(named | shown | {"members": [asdict(member) for member in members]})
        return
    if program is not None:
        _show_program(watched.switch, program)
    if status is not None:
        _print_summary(watched.switch, status)
    if members:
        slow = ", ".join(slow_members(members)) or "none"
        click.echo(f"{pluralize(len(members), 'worker or server', 'workers and servers')}, slow: {slow}")
    if with_details and members:
        print_plain_table(["worker or server", "frames"], [[each.name, each.frames] for each in members])
    if with_details and status is not None:
        _print_details(status)


def _read(switch: SwitchAddress) -> tuple[SwitchStatus | None, ProgramStatus | None]:
    """Return the status of design `hotset`, or else what the switch has of another program."""

    async def action(controller: Controller) -> SwitchStatus:
        return await controller.status()

    try:
        return call_switch(switch, action, primary=False), None
    except (OtherPipeline, SetupFailed):
        from controller.program import read_program

        return None, read_program(switch)


def _show_program(switch: str, program: ProgramStatus) -> None:
    """Print tables, counters and registers; numbers that could not be read are dashes."""
    version = f" {program.version}" if program.version else ""
    click.echo(f"switch {switch}: program {program.name or 'without a name'}{version}")
    for title, columns, rows in (
        ("table", ["entries", "size"], [(each.name, each.entries, each.size) for each in program.tables]),
        (
            "counter",
            ["cells", "packets", "bytes"],
            [(each.name, each.cells, each.packets, each.bytes) for each in program.counters],
        ),
        (
            "register",
            ["not 0", "size"],
            [(each.name, each.nonzero, each.size) for each in program.registers],
        ),
    ):
        if rows:
            cells = [[name, *number_cells(*map(_format_count, numbers))] for name, *numbers in rows]
            print_plain_table([title, *columns], cells)
    for name, reason in program.unread.items():
        click.echo(f"{name} was not read: {reason}")


def _format_count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _as_json(status: SwitchStatus) -> dict[str, object]:
    return {
        "jobs": [
            {"arm": _arm_name(job)}
            | asdict(job)
            | {"entries": status.count_states(job.job)}
            | {"servers": [asdict(server) for server in status.servers if server.job == job.job]}
            for job in status.jobs
        ],
        "workers": [asdict(worker) for worker in status.workers],
        "rpcs": status.counters.rpcs,
        "drops": status.counters.drops,
        "lanes": [
            {"lane": lane, "entries": entries} | asdict(counters)
            for lane, entries, counters in _lane_counters(status)
        ],
        "totals": asdict(status.counters.all_lanes())
        | {"entries": len(status.params), "hit_rate": status.counters.all_lanes().hit_rate},
    }


def _print_summary(switch: str, status: SwitchStatus) -> None:
    jobs = [
        [
            _arm_name(job) or "",
            job.job,
            ON_OFF[job.offload],
            ON_OFF[job.proxy],
            len(status.callers(job.job)),
            job.quota,
            *status.count_states(job.job).values(),
        ]
        for job in status.jobs
    ]
    columns = ["arm", "job", "offload", "proxy", "workers", "quota", "hot", "reserved", "draining", "parked"]
    entries = pluralize(len(status.params), "entry", "entries")
    click.echo(f"switch {switch}: {pluralize(len(jobs), 'job')}, {entries}")
    print_plain_table(columns, jobs)
    for line in _counter_lines(status):
        click.echo(line)


def _counter_lines(status: SwitchStatus) -> Iterator[str]:
    lanes, rpcs = status.counters.all_lanes(), status.counters.rpcs
    hit_rate = "" if lanes.hit_rate is None else f" ({lanes.hit_rate:.1%} hit)"
    hits, misses = pluralize(lanes.hits, "hit"), pluralize(lanes.misses, "miss", "misses")
    yield f"lanes: {hits}, {misses}{hit_rate}, {pluralize(lanes.overflows, 'overflow')}"
    yield f"RPCs: {', '.join(f'{packets:,} {outcome}' for outcome, packets in rpcs.items())}"
    drops = [f"{packets:,} {reason}" for reason, packets in status.counters.drops.items() if packets]
    yield f"drops: {', '.join(drops) or 'none'}"


def _lane_counters(status: SwitchStatus) -> Iterator[tuple[int, int, LaneCounters]]:
    """Return the number, the entries and the counters of each lane."""
    return zip(range(LANES), status.count_entries_by_lane(), status.counters.lanes, strict=True)


def _arm_name(job: JobRow) -> str | None:
    from foundation.designs.arms import all_arms

    return next((arm.name for arm in all_arms().values() if arm.job == job.job), None)


def _print_details(status: SwitchStatus) -> None:
    from controller.tables import CallerKind

    servers = [
        [server.job, server.server_id, server.addr, server.udp_port, server.port, server.service_addr]
        for server in status.servers
    ]
    columns = ["job", "PS", "address", "UDP port", "switch port", "service address"]
    print_table("servers", columns, servers)
    callers = [
        [
            caller.job,
            caller.worker,
            caller.epoch,
            caller.caller,
            caller.addr,
            caller.udp_port,
            caller.port,
            "yes" if caller.kind == CallerKind.PRIVILEGED else "",
        ]
        for caller in status.workers
    ]
    columns = ["job", "worker", "epoch", "row", "address", "UDP port", "switch port", "privileged"]
    print_table("callers", columns, callers)
    lanes = [
        [lane, entries, counters.hits, counters.misses, counters.overflows]
        for lane, entries, counters in _lane_counters(status)
    ]
    print_table("lanes", ["lane", "entries", "hits", "misses", "overflows"], lanes)
    print_table("RPCs", ["outcome", "packets"], [[*item] for item in status.counters.rpcs.items()])
    print_table("drops", ["reason", "packets"], [[*item] for item in status.counters.drops.items()])


@click.command()
@click.argument("keys", nargs=-1, type=click.IntRange(0, NO_KEY - 1), metavar="[KEY]...")
@fills(RegisterSettings, "settings", address=ADDRESS)
@json_option
def registers(keys: tuple[int, ...], settings: RegisterSettings, as_json: bool) -> None:
    """Read values that the switch holds for a job.

    KEYs are read through the data plane; without KEY, all keys of the job are read. The values of a key's
    row are printed as 32-bit fixed point, as on the wire, and as the model's weights, which are value /
    scale. The switch has no values for a parked key; its PS has them.
    """
    scale = settings.scale
    entries = run_on_switch(settings, lambda controller: controller.registers(settings.job, keys or None))
    unit_scale = _scale_of_latest_run() if scale is None else scale
    # A run under way is not the latest yet, and may have another scale.
    scale_note = (
        f", the scale of {_RECORD.parent.resolve().name}; --scale for another run" if scale is None else ""
    )

    def weights_of(entry: Register) -> tuple[float, ...] | None:
        if entry.values is None or unit_scale is None:
            return None
        return tuple(value / unit_scale for value in entry.values)

    columns = ["key", "lane", "slot", "state", "values", "weights"]
    rows = [
        [
            entry.param.key,
            entry.param.lane,
            entry.param.slot,
            entry.param.state.value,
            entry.values,
            weights_of(entry),
        ]
        for entry in entries
    ]
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    cells = [
        [*row[:-2], _format_row(entry.values), _format_row(weights_of(entry))]
        for row, entry in zip(rows, entries, strict=True)
    ]
    print_table(f"job {settings.job}", columns, cells)
    click.echo(
        f"weight = value / {unit_scale:.7g}{scale_note}"
        if unit_scale
        else f"no weights: give --scale, as {_RECORD} has none"
    )


def _scale_of_latest_run() -> float | None:
    try:
        scale = json.loads(_RECORD.read_text())["workload"]["scale"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return float(scale)


_SHOWN_VALUES = 4


def _format_row(values: Sequence[float] | None) -> str:
    """Return the values of a row, or its first ones and their number."""
    if values is None:
        return "–"
    shown = " ".join(str(_format_number(value)) for value in values[:_SHOWN_VALUES])
    return shown if len(values) <= _SHOWN_VALUES else f"{shown} … ({len(values)})"


def _format_number(value: object) -> object:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else value
