"""Counts of disturbed blocks, and whether what rests on these blocks can be claimed.

A block is any period of measuring: of a round, of a closed loop, or a second of `hotline probe`.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field

MAX_DISTURBED_SHARE = 0.2
"""Share of disturbed blocks above which the metrics that the disturbance affects are invalid, and above which
costs that were measured in these blocks claim nothing."""
MACHINE_DISTURBANCES = frozenset({"steal", "others' CPU", "pressure", "run queue"})
"""Disturbances by other programs of the machine, or by other machines on the same hardware."""
ROUND, CLOSED_LOOP, SECOND = "block", "closed loop", "second"
"""Kinds of blocks: of a measured round, of a closed loop, and a second of `hotline probe`."""


class DisturbedBlocks(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    blocks: int = Field(ge=0)
    disturbed: int = Field(ge=0)  # number of disturbed blocks among these
    reasons: dict[str, int]  # reason -> number of blocks
    kind: str = ROUND
    taken: float = Field(default=0.0, ge=0, le=1)
    """Share of the CPUs' time that the hypervisor and other programs took in all of these blocks; or of one
    CPU's, by waits, if that is larger (`unexplained_waits`)."""

    @property
    def are_too_many(self) -> bool:
        return self.disturbed > MAX_DISTURBED_SHARE * self.blocks

    @property
    def is_of_machine(self) -> bool:
        return not MACHINE_DISTURBANCES.isdisjoint(self.reasons)


CostSources = tuple[DisturbedBlocks, ...]
"""The blocks that costs of hosts were measured in, by kind and load; () if costs were not measured, or before
such blocks were counted."""


def withheld_by(sources: Iterable[DisturbedBlocks]) -> DisturbedBlocks | None:
    """Return the first source of costs with too many disturbed blocks, which claim nothing; or None."""
    return next((blocks for blocks in sources if blocks.are_too_many), None)


def are_disturbed(sources: Iterable[DisturbedBlocks]) -> bool:
    """Return whether any source of costs was disturbed, which makes what rests on the costs less certain."""
    return any(blocks.disturbed for blocks in sources)
