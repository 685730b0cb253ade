"""Jobs that share a switch and cables: goodput, fairness, and the share of updates that the switch adds.

Each job has its own workers and servers. All jobs begin at once, with equal work.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from controller.hotset.selection import HotSetState, Rates, SwapRule, choose_for_jobs
from foundation.designs.interface import SwitchHosts
from foundation.protocol.header import LANES, WINDOW
from foundation.settings import Strict
from hosts.keys import KeySpace
from hotline_allreduce.atp.design import NAME as ATP
from hotline_allreduce.atp.packet import CELLS
from hotline_allreduce.simulation.measure import IDEAL, all_reduce_once, draw_vectors, largest_window
from hotline_allreduce.simulation.subject import Subject
from hotline_simulator.costs import Network
from hotline_simulator.neighbours.pushes import Load, draw_keys, push_all
from hotline_simulator.simulated_switch import SimulatedSwitch, switch_of
from hotline_simulator.system import SimulatedSystem
from hotline_simulator.world import SimulatedNetwork

HOT_KEYS, KEYS_A_STEP, HOT_SERVERS = 6_000, 100, 2
"""Parameters of a job of `hotset`, parameters that a worker pushes in a step, and servers of the job."""
MAX_SLOTS = CELLS
"""Maximum number of slots that the jobs share, in each design."""
_JOB_STRIDE = 100  # between the numbers of two jobs
_SEED = 1
_PACKET_OUTCOMES = 8  # counter cells of the enum `PacketOutcome` of packages/allreduce/p4src/atp


class SharingResult(Strict):
    in_switch: float
    """Share of the workers' packets, or of their updates, that the switch has added up."""
    goodputs: list[float]
    """Values per second of the slowest worker of each job."""

    @property
    def mean(self) -> float:
        return float(np.mean(self.goodputs))

    @property
    def fairness(self) -> float:
        """Return Jain's index: 1 if all n jobs are equally fast, 1 / n if one job has all the goodput."""
        return float(np.sum(self.goodputs) ** 2 / (len(self.goodputs) * np.sum(np.square(self.goodputs))))


def window_of(subject: Subject, servers: int, jobs: int, workers: int, network: Network, slots: int) -> int:
    """Return the window of each job; 0 if the design cannot run. SwitchML needs two slots a packet."""
    max_window = min(WINDOW, largest_window(subject.load(workers, servers), network, subject.chunk_size))
    return min(max_window, slots // 2 // jobs) if subject.design.has_services else max_window


def share(
    subject: Subject, servers: int, jobs: int, workers: int, values: int, network: Network,
    slots: int = MAX_SLOTS,
) -> SharingResult:  # fmt: skip
    """Let each job all-reduce one vector; raise `SimulationError` if a sum is wrong or missing.

    The jobs have `slots` of the switch's slots, or of ATP's cells. In a network with racks, all workers
    are in the same rack.
    """
    window = window_of(subject, servers, jobs, workers, network, slots)
    arms = [replace(subject.arm, job=subject.arm.job + _JOB_STRIDE * k) for k in range(jobs)]
    switch = switch_of(subject.design, SwitchHosts(workers, servers, network.rack or 1, jobs=jobs), arms)
    if subject.design.name == ATP:
        subject.occupy(switch, 1 - slots / CELLS)
    system = SimulatedSystem(
        design=subject.design, arm=arms[0], space=KeySpace(values), workers=workers, servers=servers,
        network=network, hosts=IDEAL, seed=_SEED, neighbours=arms[1:],
    )  # fmt: skip
    simulated = SimulatedNetwork(system, switch)
    vectors = draw_vectors(jobs * workers, values, _SEED)
    end_ns = all_reduce_once(subject, simulated, workers, vectors, window, subject.chunk_size)
    return _sharing_result(_share_in_switch(subject, switch), values, end_ns.reshape(jobs, workers))


def share_hot_set(
    jobs: int, workers: int, values: int, network: Network, slots: int = MAX_SLOTS
) -> SharingResult:
    """Let each worker of jobs of `hotset` push `values` values, to hot sets chosen without quotas.

    All jobs have updates of the same skew, with different hot keys. All lanes together have `slots` slots.
    """
    steps, rng = values // KEYS_A_STEP, np.random.default_rng(_SEED)
    loads, states = {}, {}
    for job in range(1, jobs + 1):
        weights = rng.permutation(1 / np.arange(1, HOT_KEYS + 1))
        loads[job] = Load(draw_keys(rng, weights, (workers, steps, KEYS_A_STEP)))
        # Hot sets are chosen by the keys' chances, and not by the updates that are counted then.
        rates = Rates(np.arange(HOT_KEYS, dtype=np.uint64), KEYS_A_STEP * workers * weights / weights.sum())
        states[job] = HotSetState(rates, np.empty(0, np.uint64), SwapRule(HOT_KEYS))
    changes, _ = choose_for_jobs(states, {}, {}, np.full(LANES, slots // LANES, np.int64))
    hot_sets = {job: list(change.filling) for job, change in changes.items()}
    job_results = push_all(loads, hot_sets, HOT_KEYS, HOT_SERVERS, network, IDEAL).values()
    in_switch = float(np.mean([each.hit_share for each in job_results]))
    return _sharing_result(in_switch, steps * KEYS_A_STEP, np.array([each.ended_ns for each in job_results]))


def _sharing_result(
    in_switch: float, values: int, ended_ns: np.ndarray[tuple[int, int], np.dtype[np.int64]]
) -> SharingResult:
    """Return the goodput of each job's slowest worker; `ended_ns` is [jobs, workers]."""
    return SharingResult(in_switch=in_switch, goodputs=(1e9 * values / ended_ns.max(axis=1)).tolist())


def _share_in_switch(subject: Subject, switch: SimulatedSwitch) -> float:
    if subject.design.name != ATP:
        # SwitchML's switch adds up everything; that of the other designs only forwards.
        return float(subject.design.has_services)
    cells = switch.pipeline.cells.read_counter("HotlineIngress.next_step.packets", 0, _PACKET_OUTCOMES)
    consumed, completed, _, _, collided, flushed, passed, _ = (cell.packets for cell in cells)
    return (consumed + completed) / (consumed + completed + collided + flushed + passed)
