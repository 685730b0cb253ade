from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import click
from rich.console import Console

from controller.controller import Controller
from controller.status import LaneCounters, SwitchStatus
from controller.tables import CallerKind, JobRow
from foundation.designs.arms import all_arms
from foundation.protocol.header import LANES
from foundation.text import pluralize
from hotline.cli.common import (
    ON_OFF,
    json_option,
    plain_table,
    print_json,
    print_table,
    run_on_switch,
    switch_options,
)


@click.command()
@switch_options
@click.option(
    "--all", "with_details", is_flag=True, help="Also show servers, callers, and the counters of each lane."
)
@json_option
def status(address: str, device_id: int, with_details: bool, as_json: bool) -> None:
    """Show what the switch holds and counts, job by job.

    Shows arms, entries by state, hit rate, RPCs and drops.
    Counters include all jobs, since the pipeline was committed.
    """
    switch_status = run_on_switch(address, device_id, Controller.status, primary=False)
    if as_json:
        print_json(_as_json(switch_status))
        return
    _print_summary(address, switch_status)
    if with_details:
        _print_details(switch_status)


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


def _print_summary(address: str, status: SwitchStatus) -> None:
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
    console = Console(highlight=False)
    entries = pluralize(len(status.params), "entry", "entries")
    console.print(f"switch {address}: {pluralize(len(jobs), 'job')}, {entries}")
    console.print(plain_table(columns, jobs))
    for line in _counter_lines(status):
        console.print(line, soft_wrap=True)


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
    return next((arm.name for arm in all_arms().values() if arm.job == job.job), None)


def _print_details(status: SwitchStatus) -> None:
    servers = [
        [server.job, server.ps, server.addr, server.udp_port, server.port, server.service_addr]
        for server in status.servers
    ]
    columns = ["job", "PS", "address", "UDP port", "switch port", "service address"]
    print_table("servers", columns, servers)
    callers = [
        [
            caller.job,
            caller.worker,
            caller.epoch,
            caller.row,
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
