"""What a load's differences say of offload and proxy on this machine, or why they say nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from analysis.disturbance import too_many
from analysis.precision import GOALS
from analysis.record import Block
from analysis.statistics import MIN_ROUNDS, Comparison
from common.words import counted
from logs.columns import ARMS, BASELINE, TRANSFERS
from protocol.arms import AGAIN

NOISE = 3.0
"""Times the goal of a mean that the null arm's interval may have and still bear a verdict."""


class Verdict(BaseModel):
    """Of one load."""

    model_config = ConfigDict(frozen=True)

    bears: bool
    """Whether the machine was quiet enough, and rounds were enough."""
    text: str
    reason: str = ""
    """Why it bears none."""


def verdict(
    load: str, differences: Mapping[str, Mapping[str, Comparison]], blocks: Sequence[Block], cpus: int | None
) -> Verdict:
    """Completion of pulls and pushes in each arm, against the baseline; or what is in the way."""
    where = f"Load {load}" if cpus is None else f"Load {load}, on {counted(cpus, 'CPU')}"
    arms = [arm for arm in ARMS if arm in differences and arm != AGAIN.name]
    noise = _noise(differences, blocks)
    if noise is not None:
        return Verdict(bears=False, text=f"{where}: not on this machine: {noise}.", reason=noise)
    if not arms or any(differences[arm]["pull_mean"].half_width is None for arm in arms):
        reason = f"a verdict takes {MIN_ROUNDS} complete rounds"
        return Verdict(bears=False, text=f"{where}: no verdict: {reason}.", reason=reason)
    told = "; ".join(f"{arm}: {_of_arm(differences[arm])}" for arm in arms)
    return Verdict(bears=True, text=f"{where}, against {BASELINE}: {told}.")


def by_reason(blocks: Iterable[Block]) -> str:
    """By what blocks were disturbed, most frequent first."""
    found = Counter(reason for block in blocks for reason in block.disturbed)
    return ", ".join(f"{reason} {number}" for reason, number in found.most_common())


def _noise(differences: Mapping[str, Mapping[str, Comparison]], blocks: Sequence[Block]) -> str | None:
    """Why the machine is too noisy, if it is."""
    if too_many(blocks):
        disturbed = [block for block in blocks if block.disturbed]
        return (
            f"{len(disturbed)} of {counted(len(blocks), 'block')} stayed disturbed ({by_reason(disturbed)})"
        )
    for op in TRANSFERS:
        metric = f"{op}_mean"
        found = differences.get(AGAIN.name, {}).get(metric)
        limit = NOISE * GOALS[metric]
        if found is not None and found.half_width is not None and found.half_width > limit:
            return (
                f"noise alone, {BASELINE} {AGAIN.name}, makes {op} means differ by {_interval(found)}, "
                f"wider than ±{limit:.0%}"
            )
    return None


def _of_arm(metrics: Mapping[str, Comparison]) -> str:
    return ", ".join(_of_operation(op, metrics[f"{op}_mean"]) for op in TRANSFERS)


def _of_operation(op: str, found: Comparison) -> str:
    ops = {"pull": "pulls", "push": "pushes"}[op]
    assert found.ratio is not None and found.ratio_low is not None and found.ratio_high is not None
    if found.ratio_low <= 0 <= found.ratio_high:
        return f"{ops} no difference {_interval(found)}"
    return f"{ops} {abs(found.ratio):.1%} {'sooner' if found.ratio < 0 else 'later'} {_interval(found)}"


def _interval(found: Comparison) -> str:
    assert found.ratio_low is not None and found.ratio_high is not None
    return f"[{found.ratio_low:+.1%}, {found.ratio_high:+.1%}]"
