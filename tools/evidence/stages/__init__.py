"""The stages of `make evidence`, in the order in which they run."""

from tools.evidence.stage import Stage
from tools.evidence.stages.runs import RUNS

STAGES: tuple[Stage, ...] = (RUNS,)
