"""Play a schedule of all-reduces with the real agents and P4 program, and compare their sums with NumPy's."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import cast

import numpy as np

from foundation.designs.interface import NEVER
from hotline_allreduce.dense.client import Vector, VectorClient
from hotline_allreduce.simulation.schedule import AllReduceSchedule
from hotline_allreduce.simulation.subject import Subject
from hotline_allreduce.simulation.testbed import TESTBED_HOSTS, AllReduceTestbed, all_reduce_testbed
from simulator.drive import run_network
from simulator.loop import resume, wake_agent

_NS_PER_US = 1_000
_MAX_REPORT_DELAY_NS = 1_000_000_000  # after the stall timeout, for a report to be in time


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
        vectors_of(schedule, subject.range.integer_bits),
        [[] for _ in range(schedule.workers)],
    )
    for w in range(schedule.workers):
        wake_agent(testbed.network.pinned_ref, w)
    if schedule.killed_us is not None:
        _run_until(played_schedule, schedule.killed_us * _NS_PER_US)
        testbed.world.agents[schedule.target].dead = 1
    if schedule.restarted_us is not None:
        _run_until(played_schedule, schedule.restarted_us * _NS_PER_US)
        testbed.restart_switch()
    if schedule.server_restarted_us is not None:
        _run_until(played_schedule, schedule.server_restarted_us * _NS_PER_US)
        testbed.restart_servers()
    _run_until(played_schedule, NEVER)
    return played_schedule


def vectors_of(schedule: AllReduceSchedule, integer_bits: int = 32) -> list[list[Vector]]:
    rng = np.random.default_rng(schedule.seed)
    shape = (schedule.all_reduces, schedule.workers, schedule.values)
    if schedule.is_float:
        magnitudes = np.exp2(rng.integers(-20, 20, shape[:1]))[:, None, None]
        vectors = (rng.standard_normal(shape) * magnitudes).astype(np.float32)
    else:
        limit = 2 ** (integer_bits - 1)
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
