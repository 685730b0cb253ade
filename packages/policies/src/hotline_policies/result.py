from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from analysis.figures.files import draw
from analysis.page.build import fragment
from experiment.config import config_of
from foundation.errors import DataError
from foundation.logs.access.source import LogFiles, paths_of
from hosts.workload.generator import R1, R2
from hotline_policies.figures import figures_of
from hotline_policies.generated import LogSpec
from hotline_policies.page import answer_of, tables_of
from hotline_policies.results import Study, StudySettings
from hotline_policies.study import StudyProgress, check_names
from hotline_policies.study import study as study_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BuiltIn = Literal["r1", "r2"]
RESULTS = Path("runs/policies")


class Policies(Study):
    """Cache policies for the keys in the switch: hits, moves, and the packets that each saves."""

    def plot(self, number: int = 0) -> Figure:
        """Draw a figure: hits by size (0), by moves (1), over time (2), or of pulls by size (3, if any)."""
        return draw(figures_of(self)[number])

    def _repr_html_(self) -> str:
        return fragment(answer_of(self), tables_of(self))


def study(
    files: LogFiles = (), *, built_in: BuiltIn | None = None, steps: int = 4000,
    half_life: float | None = None, shift: bool = False, into: Path = RESULTS,
    progress: StudyProgress = lambda activity, done, total: None, **settings: object,
) -> Policies:  # fmt: skip
    """Compare cache policies on a log, as `hotline policies` does: `study("log.csv", sizes=(100, 1_000))`.

    Without files it generates the log `built_in`. The settings are those of
    `hotline_policies.results.StudySettings`. Results are cached in the folder `into`. Raises `ConfigError`
    and `DataError`.
    """
    paths = paths_of(files)
    if bool(paths) == bool(built_in):
        raise DataError(f"expected files or built_in, and not both; got {len(paths)} files, {built_in!r}")
    study_settings = config_of(StudySettings, settings)
    check_names(study_settings.policies, study_settings.sizes[0])
    log_spec = None if built_in is None else _log_spec(built_in, steps, half_life, shift)
    result = study_of(paths, log_spec, study_settings, into, progress)
    return Policies.model_construct(**dict(result))


def _log_spec(built_in: BuiltIn, steps: int, half_life: float | None, shift: bool) -> LogSpec:
    shape = {"r1": R1, "r2": R2}[built_in]
    return LogSpec(shape, steps, half_life=half_life, shift_at=3 * steps // 4 if shift else None)
