"""A run on this machine, as read from its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from analysis.record import AnalysisError, RunRecord, read_record
from analysis.statistics import Comparison
from analysis.summary import LoadSummary, Summary, read_summary
from experiment.config import Config
from foundation.designs.hotset import OFFLOAD
from foundation.settings import first_error


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    folder: Path
    record: RunRecord
    summary: Summary
    config: Config

    @property
    def load(self) -> LoadSummary:
        # Short runs have one load; of others, the first is shown.
        return next(iter(self.summary.loads.values()))

    def difference(self, metric: str) -> Comparison:
        comparison = self.load.differences.get(OFFLOAD.name, {}).get(metric)
        if comparison is None or comparison.ratio is None:
            raise AnalysisError(f"{self.folder}: {metric} of arm {OFFLOAD.name} was not measured")
        return comparison


def read_measured(folder: Path) -> MeasuredRun:
    record = read_record(folder)
    try:
        config = Config.model_validate(record.config)
    except ValidationError as error:
        raise AnalysisError(f"{folder}: {first_error(error)}") from error
    return MeasuredRun(folder, record, read_summary(folder), config)
