from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from analysis.figures.files import draw
from analysis.page.build import fragment
from experiment.config import config_of
from foundation.errors import DataError
from foundation.logs.access.source import LogFiles, paths_of
from hosts.workload.generator import R1, R2
from hotline_policies.figures import figures_of
from hotline_policies.generated import LogSpec
from hotline_policies.page import answer_of, tables_of
from hotline_policies.results import Study
from hotline_policies.settings import GeneratedLog, StudySettings
from hotline_policies.study import StudyProgress, check_names
from hotline_policies.study import study as study_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS = Path("runs/policies")


class Policies(Study):
    """Cache policies for the keys in the switch: hits, moves, and the packets that each saves."""

    def plot(self, number: int = 0) -> Figure:
        """Draw a figure: hits by size (0), by moves (1), over time (2), or of pulls by size (3, if any)."""
        return draw(figures_of(self)[number])

    def _repr_html_(self) -> str:
        return fragment(answer_of(self), tables_of(self))


def study(
    files: LogFiles = (), *, into: Path = RESULTS,
    progress: StudyProgress = lambda activity, done, total: None, **settings: object,
) -> Policies:  # fmt: skip
    """Compare cache policies on a log, as `hotline policies` does: `study("log.csv", sizes=(100, 1_000))`.

    Without files it generates a log: `study(built_in="r1")`. The settings are those of `GeneratedLog` and
    `StudySettings` in `hotline_policies.settings`. Results are cached in the folder `into`. Raises
    `ConfigError` and `DataError`.
    """
    paths = paths_of(files)
    of_log = {name: settings.pop(name) for name in GeneratedLog.model_fields if name in settings}
    generated = config_of(GeneratedLog, of_log)
    if bool(paths) == bool(generated.built_in):
        raise DataError(
            f"expected files or built_in, and not both; got {len(paths)} files, {generated.built_in!r}"
        )
    study_settings = config_of(StudySettings, settings)
    check_names(study_settings.policies, study_settings.sizes[0])
    result = study_of(paths, _log_spec(generated), study_settings, into, progress)
    return Policies.model_construct(**dict(result))


def _log_spec(log: GeneratedLog) -> LogSpec | None:
    if log.built_in is None:
        return None
    shape = {"r1": R1, "r2": R2}[log.built_in]
    return LogSpec(
        shape, log.steps, half_life=log.half_life, shift_at=3 * log.steps // 4 if log.shift else None
    )
