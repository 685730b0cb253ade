"""The points of a comparison: an all-reduce, a training job, or several jobs at one switch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Literal

from foundation.designs import hotset
from foundation.designs.interface import Design
from foundation.designs.registry import design as find_design
from foundation.designs.registry import modules_of
from foundation.protocol.header import WINDOW
from hotline_allreduce.simulation.measure import IDEAL, AllReduceResult, measure
from hotline_allreduce.study.schemes import scheme_of
from hotline_allreduce.study.sharing import MAX_SLOTS, SharingResult, share, share_hot_set
from hotline_allreduce.study.training import ARMS, AllReduceTraining, AllReduceTrainingResult, train
from hotline_simulator.costs import HostCosts, Network
from hotline_simulator.study import StudyPoint

DELAY_US, SWITCH_US, SWITCH_MPPS, QUEUE_KB = 1.0, 1.0, 1_000.0, 1_024.0
"""One-way delay of a cable, delay and rate of the dedicated switch, size of the queue before a cable."""
_PACKETS_PER_STEP, _VALUES_PER_PACKET = 300, 64  # for estimates of cost


class NetworkPoint(StudyPoint):
    """A point that simulates a network."""

    hosts: Literal["ideal", "measured"] = "ideal"

    @property
    @abstractmethod
    def network(self) -> Network: ...

    @property
    @abstractmethod
    def cost(self) -> float:
        """Estimated duration of the simulation, in arbitrary units."""

    def inputs(self) -> Iterator[bytes]:
        yield from (each.model_dump_json().encode() for each in (self.network, host_costs(self.hosts)))


class AllReducePoint(NetworkPoint):
    result_class = AllReduceResult
    scheme: str
    gbit: float
    workers: int
    values: int
    chunk_size: int
    loss: float = 0.0  # share of the frames
    window: int = WINDOW  # maximum packets of a worker in flight
    occupied: float = 0.0
    """Share of the switch's memory that another job has."""
    has_latency: bool = True
    """Whether cables and the switch have a delay besides the transmission of bytes."""
    seed: int = 1

    @property
    def name(self) -> str:
        parts = (
            file_name(self.scheme),
            f"{self.gbit:g}g-{self.workers}w-{self.values}v-{self.chunk_size}",
            *([f"window-{self.window}"] if self.window != WINDOW else []),
            *([f"loss-{self.loss:g}"] if self.loss else []),
            *([f"occupied-{self.occupied:g}"] if self.occupied else []),
            *([] if self.has_latency else ["no-latency"]),
            *([] if self.hosts == "ideal" else [self.hosts]),
            *([f"seed-{self.seed}"] if self.seed != 1 else []),
        )
        return "-".join(parts)

    @property
    def cost(self) -> float:
        return self.workers * self.values / self.chunk_size

    @property
    def modules(self) -> tuple[str, ...]:
        # The result depends on their code, and on that of all modules that they import.
        return (
            "hotline_allreduce.study.schemes",
            "hotline_allreduce.simulation.measure",
            *modules_of(self.design),
        )

    @property
    def design(self) -> Design:
        return scheme_of(self.scheme).subject.design

    @property
    def network(self) -> Network:
        return make_network(self.gbit, self.loss, self.has_latency)

    def run(self) -> AllReduceResult:
        scheme = scheme_of(self.scheme)
        return measure(
            scheme.subject, self.workers, scheme.server_count(self.workers), self.values, self.network,
            hosts=host_costs(self.hosts), chunk_size=self.chunk_size, window=self.window,
            occupied=self.occupied, seed=self.seed,
        )  # fmt: skip


class AllReduceTrainingPoint(AllReduceTraining, NetworkPoint):
    result_class = AllReduceTrainingResult

    @property
    def name(self) -> str:
        compute_suffix = f"-{self.compute_us:g}us-{self.straggler:g}" if self.compute_us else ""
        return f"train-{self.arm}-{self.gbit:g}g-{self.workers}w-{self.steps}-{self.hosts}{compute_suffix}"

    @property
    def cost(self) -> float:
        return self.workers * self.steps * _PACKETS_PER_STEP

    @property
    def modules(self) -> tuple[str, ...]:
        return "hotline_allreduce.study.training", *modules_of(self.design)

    @property
    def design(self) -> Design:
        return find_design(ARMS[self.arm].design)

    @property
    def network(self) -> Network:
        return make_network(self.gbit)

    def run(self) -> AllReduceTrainingResult:
        return train(self, self.network, host_costs(self.hosts))


class SharingPoint(NetworkPoint):
    """Jobs that share a switch; each adds up a vector, or pushes to a hot set."""

    result_class = SharingResult
    scheme: str
    """Name of a scheme, or `hotset.NAME`."""
    gbit: float
    jobs: int
    workers: int
    values: int
    """Values of a job's vector, or values that each worker pushes to the hot set."""
    slots: int = MAX_SLOTS
    """Slots or cells of the switch that the jobs have."""
    has_one_uplink: bool = False
    """Whether all workers share an uplink with the bandwidth of a cable."""

    @property
    def name(self) -> str:
        uplink = "-one-uplink" if self.has_one_uplink else ""
        size = f"{self.gbit:g}g-{self.jobs}x{self.workers}w-{self.values}v-{self.slots}s"
        return f"share-{file_name(self.scheme)}-{size}{uplink}"

    @property
    def cost(self) -> float:
        return self.jobs * self.workers * self.values / _VALUES_PER_PACKET

    @property
    def modules(self) -> tuple[str, ...]:
        return "hotline_allreduce.study.schemes", "hotline_allreduce.study.sharing", *modules_of(self.design)

    @property
    def design(self) -> Design:
        return hotset.DESIGN if self.scheme == hotset.NAME else scheme_of(self.scheme).subject.design

    @property
    def network(self) -> Network:
        network = make_network(self.gbit)
        if not self.has_one_uplink:
            return network
        return network.model_copy(update={"rack": self.jobs * self.workers, "uplink_mbit": network.rate_mbit})

    def run(self) -> SharingResult:
        arguments = (self.jobs, self.workers, self.values, self.network, self.slots)
        if self.scheme == hotset.NAME:
            return share_hot_set(*arguments)
        scheme = scheme_of(self.scheme)
        return share(scheme.subject, scheme.server_count(self.workers), *arguments)


def make_network(gbit: float, loss: float = 0.0, has_latency: bool = True) -> Network:
    return Network(
        rate_mbit=1_000 * gbit, delay_us=DELAY_US if has_latency else 0.0, queue_kb=QUEUE_KB, loss=loss,
        switch_us=SWITCH_US if has_latency else 0.0, switch_mpps=SWITCH_MPPS,
    )  # fmt: skip


def host_costs(name: str) -> HostCosts:
    return IDEAL if name == "ideal" else HostCosts()  # its defaults are measured


def file_name(scheme: str) -> str:
    return scheme.replace(", ", "-").replace(" ", "-")
