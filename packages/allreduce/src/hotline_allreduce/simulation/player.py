"""Play schedules of all-reduces with the real agents and P4 program, and count the results of many.

Sums are compared with NumPy's. `python -m hotline_allreduce.simulation.player` prints the counts of psdense
and ring.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import cast

import click
import numpy as np
from rich.console import Console
from rich.progress import track

from controller.controller_ops import control_of
from foundation.designs.interface import SwitchHosts
from hosts.keys import KeySpace
from hotline_agents.interface import NEVER
from hotline_allreduce.dense.client import Vector, VectorClient
from hotline_allreduce.simulation.schedule import (
    FAULTS,
    AllReduceSchedule,
    ScheduleRange,
    draw_all_reduces,
)
from hotline_allreduce.simulation.subject import PSDENSE, RING, Subject
from hotline_simulator.costs import HostCosts, LinkOutage, Network, set_frame_faults
from hotline_simulator.drive import run_network
from hotline_simulator.leaf_spine_switches import build_switches
from hotline_simulator.loop import resume, wake_agent
from hotline_simulator.snapshot import WorldSnapshot
from hotline_simulator.state import OUTAGE_BEGINS
from hotline_simulator.system import SimulatedSystem
from hotline_simulator.world import SimulatedNetwork, push_event
from softswitch.network.state import ABSENT

TESTBED_HOSTS = HostCosts(
    wake_ns=500, idle_ns=1_000, encode_ns=100, send_ns=300, take_ns=200, receive_ns=100, begin_ns=2_000,
)  # fmt: skip
TESTBED_SERVERS = 2
_NS_PER_US = 1_000
_CANCELLED_SHARE = 0.3  # of the values of which the last addend cancels the first
_MAX_REPORT_DELAY_NS = 1_000_000_000  # after the stall timeout, for a report to be in time


class AllReduceTestbed:
    def __init__(self, subject: Subject, workers: int) -> None:
        self._subject = subject
        design, arm = subject.design, subject.arm
        topology = subject.network_of(workers, TESTBED_SERVERS)
        switches = build_switches(design, topology)
        switches.install(control_of(design).rows(SwitchHosts(workers, TESTBED_SERVERS), [arm], 0))
        self._pipelines = switches.pipelines
        self._provisioned_images = [pipeline.memory_image() for pipeline in self._pipelines]
        # Each schedule sets the faults of links; this outage only makes the world allocate an outage record.
        network = Network(outages=(LinkOutage(host="w1", from_ms=0, duration_ms=1),))
        space = KeySpace(subject.range.max_values)
        system = SimulatedSystem(
            design=design,
            arm=arm,
            space=space,
            workers=workers,
            servers=TESTBED_SERVERS,
            network=network,
            hosts=TESTBED_HOSTS,
            topology=topology,
        )
        self.network = SimulatedNetwork(system, switches)
        self.world = self.network.world
        self.world.header.events = 0  # without the event that begins this outage
        self._snapshot = WorldSnapshot(self.world)

    def reset(self, schedule: AllReduceSchedule) -> None:
        world = self.world
        self._snapshot.restore()
        for links in (world.up, world.down, world.racks_up, world.racks_down):
            links.delay = schedule.delay_us * _NS_PER_US
            links.max_extra_delay = schedule.extra_delay_us * _NS_PER_US
            set_frame_faults(links, schedule.loss, schedule.duplication, schedule.reordering)
        world.header.random = np.uint64(schedule.seed)
        for client in self.network.clients:
            client.state.header.stall_timeout = self._subject.stall_timeout_ns
            self._subject.set_up(client, schedule.window, schedule.chunk_size)
        if schedule.cable_us is not None:
            outage = world.outages[0]
            outage.host, outage.duration_ns = schedule.target, schedule.duration_us * _NS_PER_US
            push_event(world, schedule.cable_us * _NS_PER_US, OUTAGE_BEGINS, 0, ABSENT)
        for number in range(len(self._pipelines)):
            self.restart_switch(number)

    def restart_servers(self) -> None:
        for p in range(TESTBED_SERVERS):
            self._snapshot.restore_server(p)

    def restart_switch(self, number: int) -> None:
        """Restart a switch, one of several if the number is reduced modulo theirs."""
        index = number % len(self._pipelines)
        self._pipelines[index].load_image(self._provisioned_images[index])


all_reduce_testbed = cache(AllReduceTestbed)


class AllReduceVerdict(Enum):
    EQUAL = "equal"
    """Every worker has every sum, and all are equal bit for bit."""
    STALLED = "stalled and reported"
    """No sum is wrong; sums are missing, and the live workers that lack them reported the stall in time."""
    WRONG = "wrong"
    SILENT = "stalled in silence"


@dataclass
class PlayedSchedule:
    subject: Subject
    schedule: AllReduceSchedule
    testbed: AllReduceTestbed
    vectors: list[list[Vector]]
    results: list[list[Vector]] = field(default_factory=list)
    """Sums by worker, then by all-reduce, as far as they are complete."""

    @property
    def verdict(self) -> AllReduceVerdict:
        for number, vectors in enumerate(self.vectors):
            results = [
                worker_results[number] for worker_results in self.results if number < len(worker_results)
            ]
            are_identical = all(each.tobytes() == results[0].tobytes() for each in results)
            # If all are identical, the first stands for all.
            if not (are_identical and all(self.subject.is_sum(each, vectors) for each in results[:1])):
                return AllReduceVerdict.WRONG
        incomplete_workers = [
            w for w, worker_results in enumerate(self.results) if len(worker_results) < len(self.vectors)
        ]
        live_incomplete_workers = [w for w in incomplete_workers if not self.testbed.world.agents[w].dead]
        if all(self._has_reported(w) for w in live_incomplete_workers):
            return AllReduceVerdict.STALLED if incomplete_workers else AllReduceVerdict.EQUAL
        return AllReduceVerdict.SILENT

    def _has_reported(self, w: int) -> bool:
        header = self.testbed.network.clients[w].state.header
        return (
            bool(header.stalled)
            and header.stalled_at - header.last_arrival <= header.stall_timeout + _MAX_REPORT_DELAY_NS
        )


def play(subject: Subject, schedule: AllReduceSchedule) -> PlayedSchedule:
    testbed = all_reduce_testbed(subject, schedule.workers)
    testbed.reset(schedule)
    played_schedule = PlayedSchedule(
        subject,
        schedule,
        testbed,
        vectors_of(schedule, subject.range),
        [[] for _ in range(schedule.workers)],
    )
    for w in range(schedule.workers):
        wake_agent(testbed.network.pinned_ref, w)
    if schedule.killed_us is not None:
        _run_until(played_schedule, schedule.killed_us * _NS_PER_US)
        testbed.world.agents[schedule.target].dead = 1
    if schedule.restarted_us is not None:
        _run_until(played_schedule, schedule.restarted_us * _NS_PER_US)
        testbed.restart_switch(schedule.seed)
    if schedule.server_restarted_us is not None:
        _run_until(played_schedule, schedule.server_restarted_us * _NS_PER_US)
        testbed.restart_servers()
    _run_until(played_schedule, NEVER)
    return played_schedule


def vectors_of(schedule: AllReduceSchedule, limits: ScheduleRange) -> list[list[Vector]]:
    rng = np.random.default_rng(schedule.seed)
    shape = (schedule.all_reduces, schedule.workers, schedule.values)
    if schedule.is_float:
        magnitudes = np.exp2(rng.integers(-20, 20, shape[:1]))[:, None, None]
        floats = rng.standard_normal(shape) * magnitudes
        if limits.octaves:
            floats *= np.exp2(-rng.integers(0, limits.octaves, shape))
            floats[:, -1] = np.where(
                rng.random(floats[:, 0].shape) < _CANCELLED_SHARE, -floats[:, 0], floats[:, -1]
            )
        vectors = floats.astype(np.float32)
    else:
        limit = 2 ** (limits.integer_bits - 1)
        vectors = rng.integers(-limit, limit, shape, np.int32)
    return [list(each) for each in vectors]


def _run_until(played_schedule: PlayedSchedule, until: int) -> None:
    network = played_schedule.testbed.network
    run_network(network, lambda w: _start_next(played_schedule, w), network.drain_log, until)


def _start_next(played_schedule: PlayedSchedule, w: int) -> None:
    network, results = played_schedule.testbed.network, played_schedule.results[w]
    client = cast(VectorClient, network.clients[w])
    client.take_records()
    # Before the first all-reduce there are no RPCs.
    if client.rpcs_of_operation and len(results) < len(played_schedule.vectors):
        results.append(client.result.copy())
    resume_ns = network.now
    if len(results) < len(played_schedule.vectors):
        client.all_reduce(played_schedule.vectors[len(results)][w], played_schedule.schedule.workers)
        resume_ns += TESTBED_HOSTS.begin_ns
    resume(network.pinned_ref, w, resume_ns, NEVER)


TABLE_VERDICTS = (AllReduceVerdict.EQUAL, AllReduceVerdict.STALLED, AllReduceVerdict.WRONG)


@dataclass
class VerdictCounts:
    fault: str
    subject: Subject
    counts: dict[AllReduceVerdict, int] = field(default_factory=lambda: dict.fromkeys(AllReduceVerdict, 0))
    first_seeds: dict[AllReduceVerdict, int] = field(default_factory=dict)

    @property
    def arm(self) -> str:
        return self.subject.arm.name

    def play(self, seed: int) -> None:
        verdict = play(self.subject, draw_all_reduces(self.subject.range, self.fault, seed)).verdict
        self.counts[verdict] += 1
        self.first_seeds.setdefault(verdict, seed)

    def to_dict(self) -> dict[str, object]:
        counts = {verdict.value: count for verdict, count in self.counts.items()}
        first_seeds = {verdict.value: seed for verdict, seed in self.first_seeds.items()}
        return {"fault": self.fault, "arm": self.arm, "schedules": counts, "first_seed": first_seeds}


def table_lines(rows: list[VerdictCounts]) -> list[str]:
    arms = list(dict.fromkeys(row.arm for row in rows))
    headings = [f"{arm}: {verdict.value}" for arm in arms for verdict in TABLE_VERDICTS]
    lines = [f"| fault | {' | '.join(headings)} |", f"|---|{'---:|' * len(headings)}"]
    for fault in dict.fromkeys(row.fault for row in rows):
        row_by_arm = {row.arm: row for row in rows if row.fault == fault}
        numbers = [f"{row_by_arm[arm].counts[verdict]:,}" for arm in arms for verdict in TABLE_VERDICTS]
        lines.append(f"| {FAULTS[fault]} | {' | '.join(numbers)} |")
    return lines


def table_command(subjects: Sequence[Subject]) -> click.Command:
    @click.command()
    @click.option(
        "--schedules", type=click.IntRange(min=1), default=100, show_default=True,
        help="Schedules of each fault in each arm.",
    )  # fmt: skip
    @click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="First seed.")
    @click.option("--json", "as_json", is_flag=True, help="Print rows as JSON instead of a table.")
    def main(schedules: int, seed: int, as_json: bool) -> None:
        """Play schedules of all faults in all arms; exit with 1 if a worker stalls without reporting it.

        With --json each row has the first seed of every verdict, for `draw_all_reduces` and `play`.
        """
        faults = subjects[0].range.faults
        rows = [VerdictCounts(fault, subject) for fault in faults for subject in subjects]
        plays = [(row, seed + k) for k in range(schedules) for row in rows]
        for row, schedule_seed in track(plays, "schedules", console=Console(stderr=True), transient=True):
            row.play(schedule_seed)
        click.echo(json.dumps([row.to_dict() for row in rows]) if as_json else "\n".join(table_lines(rows)))
        raise SystemExit(any(row.counts[AllReduceVerdict.SILENT] for row in rows))

    return main


main = table_command([PSDENSE, RING])

if __name__ == "__main__":
    main()
