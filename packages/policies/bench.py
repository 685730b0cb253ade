"""Updates/s that each policy of `hotline policies` processes on one core, without compilation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from foundation.logs.access.block import ReadOptions
from hosts.workload.generator import R1
from hotline_policies.generated import LogSpec, write_parts
from hotline_policies.log import PolicyLog, prepare
from hotline_policies.policy import PolicySpec
from hotline_policies.replay import replay
from hotline_policies.rules import POLICIES
from hotline_policies.settings import StudySettings
from switch_bench.processes import pinned
from switch_bench.results import Result
from switch_bench.scale import Scale
from switch_bench.stage import Stage
from tools.bench.results import ONE_CORE, ONE_CORE_TARGETS, POLICY_UPDATES_PER_S

_HOT_KEYS = 20_000


def policy_steps(scale: Scale) -> int:
    """Return the steps, of 3,000 keys each, of the log that policies are measured on."""
    return 600 if scale.is_quick else 4_000


def policies(stage: Stage) -> list[Result]:
    """Measure policies on a log of R1's skew: ten sizes if one pass can compute them, else one size."""
    stage.announce("policies: a log of R1's skew")
    with TemporaryDirectory(prefix="hotline-bench-") as folder, pinned({stage.cores.softswitch}):
        log = _log(Path(folder), policy_steps(stage.scale))
        return [_measure_rate(stage, log, spec) for spec in POLICIES]


def _log(folder: Path, steps: int) -> PolicyLog:
    parts = write_parts(LogSpec(R1, steps), folder, lambda done, total: None)
    return prepare(parts, folder, train_share=0.5, options=ReadOptions(), progress=lambda done, total: None)


def _measure_rate(stage: Stage, log: PolicyLog, spec: PolicySpec) -> Result:
    sizes: Sequence[int] = StudySettings().sizes if spec.one_pass else (_HOT_KEYS,)
    stage.announce(f"policies: {spec.title}")
    rates = []
    for _ in range(stage.scale.rounds):
        result = replay(log, spec, sizes, StudySettings().period(log.steps))
        rates.append(result.accesses_replayed / result.cpu_s)
    what = "ten sizes in one pass" if spec.one_pass else f"{_HOT_KEYS:,} keys"
    samples = {ONE_CORE: rates}
    return Result(
        "policies",
        f"policy {spec.title}, {what}",
        "updates/s",
        samples,
        POLICY_UPDATES_PER_S,
        ONE_CORE_TARGETS,
    )
