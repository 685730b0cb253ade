from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from analysis.figures.figure_files import draw
from analysis.page.build import fragment
from experiment.run_config import config_of
from foundation.logs.access.log_files import LogFiles, paths_of
from hotline_policies.figures import figures_of
from hotline_policies.generated import log_spec_of
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
    log_spec = log_spec_of(config_of(GeneratedLog, of_log), len(paths))
    study_settings = config_of(StudySettings, settings)
    check_names(study_settings.policies, study_settings.sizes[0])
    result = study_of(paths, log_spec, study_settings, into, progress)
    return Policies.model_construct(**dict(result))
