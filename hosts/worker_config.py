"""A worker's configuration: the JSON file that its process reads."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from pydantic import Field, model_validator
from typing_extensions import Self

from foundation.protocol.header import DIMS, MAX_HOMES, PS_BITS, PS_CALLER_BASE
from hosts.agent_config import AgentConfig, JobConfig, ServiceConfig
from hosts.model.logistic import LEARNING_RATE, SCALE


class WorkerJobConfig(JobConfig):
    arm: str
    udp_port: int = Field(gt=0, lt=2**16)
    previous_epochs: tuple[int, ...] = ()
    """Epochs with which the killed workers began whose rank this one takes, oldest first."""


class PsServiceConfig(ServiceConfig):
    ps: int = Field(ge=0, lt=1 << PS_BITS)


class WorkerConfig(AgentConfig):
    number: int = Field(ge=1, lt=PS_CALLER_BASE)
    trace: Path  # directory of the trace to replay
    jobs: list[WorkerJobConfig] = Field(min_length=1)
    services: list[PsServiceConfig] = Field(min_length=1)
    dim: int = Field(default=1, ge=1, le=DIMS[-1])
    """Values of each row that the model uses; further ones are padding."""
    seed: int = 1  # of synthetic deltas, for a trace without samples
    scale: float = Field(default=SCALE, gt=0, allow_inf_nan=False)  # fixed-point units in 1.0
    learning_rate: float | None = Field(default=LEARNING_RATE, gt=0, allow_inf_nan=False)
    """Factor of gradients; None if servers have an optimiser, and workers push gradients."""
    homes: tuple[tuple[int, ...], ...] = ()
    """The switches with the hot sets of all PSs (`ServerHomes`); empty if one switch has all of them."""
    home_index: int = Field(default=0, ge=0, lt=MAX_HOMES)
    """Which home of each PS the worker uses, if each has several."""
    has_successors: bool = False
    """Whether other workers may take this one's rank and end its push; not with a replay log."""
    switches: tuple[int, ...] = (0,)
    """How often the switch of each home has restarted."""

    @model_validator(mode="after")
    def _check_switches(self) -> Self:
        homes = max(chain(*self.homes), default=0) + 1
        if len(self.switches) != homes:
            raise ValueError(f"switches: expected {homes}, one for each home, got {len(self.switches)}")
        return self
