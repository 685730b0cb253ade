"""Trainings and runs as points of the study, whose results are cached by settings, data and code."""

from __future__ import annotations

from collections.abc import Iterator

from foundation.designs import collect
from foundation.designs.interface import Design
from hotline_allreduce.study.point import host_costs, make_network
from hotline_optimisers.offload import Offload, OffloadChanges, simulate_changes
from hotline_optimisers.training import PLACEMENTS, OptimiserTraining, OptimiserTrainingResult, train
from hotline_simulator.costs import HostCosts, Network
from hotline_simulator.study import StudyPoint

_LINK_GBIT = 10.0


class OptimiserTrainingPoint(StudyPoint):
    result_class = OptimiserTrainingResult
    job: OptimiserTraining

    @property
    def name(self) -> str:
        job, part = self.job, "tuning" if self.job.is_tuning else "reported"
        budget_suffix = "" if job.budget is None else f"-{job.budget.staleness_ms:g}ms"
        return f"{job.data.name}-{job.way}{budget_suffix}-{job.learning_rate:g}-{part}"

    @property
    def design(self) -> Design:
        return PLACEMENTS[self.job.way].design

    def inputs(self) -> Iterator[bytes]:
        yield from _defaults()
        if self.job.data.file is not None:
            yield self.job.data.file.read_bytes()

    def run(self) -> OptimiserTrainingResult:
        return train(self.job, make_network(_LINK_GBIT), host_costs("measured"))


class OffloadPoint(StudyPoint):
    result_class = OffloadChanges
    job: Offload

    @property
    def name(self) -> str:
        return f"offload-{self.job.hit_share:g}-{self.job.budget.staleness_ms:g}ms"

    @property
    def design(self) -> Design:
        return collect.DESIGN

    def inputs(self) -> Iterator[bytes]:
        return _defaults()

    def run(self) -> OffloadChanges:
        return simulate_changes(self.job)


def _defaults() -> Iterator[bytes]:
    yield from (settings().model_dump_json().encode() for settings in (Network, HostCosts))
