"""A worker's configuration: the JSON file that `python -m hosts.worker --config` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from foundation.protocol.header import WINDOW
from foundation.settings import Strict
from hosts.config import AgentConfig
from hosts.model.logistic import LEARNING_RATE, SCALE


class JobConfig(Strict):
    """A job of this worker: one arm of the experiment."""

    job: int = Field(ge=0, lt=2**16)
    arm: str
    """Its name, as logs have it."""
    epoch: int = Field(ge=0, lt=2**32)
    udp_port: int = Field(gt=0, lt=2**16)


class ServiceConfig(Strict):
    """Where a PS is reached: its service address, which the switch owns."""

    ps: int = Field(ge=0, lt=2**15)
    address: str
    port: int = Field(gt=0, lt=2**16)


class WorkerConfig(AgentConfig):
    """A worker process."""

    worker: int = Field(ge=1, lt=2**15)
    address: str
    log_dir: Path
    n_ps: int = Field(ge=1)
    trace: Path
    jobs: list[JobConfig] = Field(min_length=1)
    services: list[ServiceConfig] = Field(min_length=1)
    workers: tuple[str, ...] = ()
    """Addresses of all workers, in order, for designs in which they send to each other."""
    codec: Literal["fast", "scapy"] = "fast"
    cpu: int | None = None
    seed: int = 1
    scale: float = Field(default=SCALE, gt=0, allow_inf_nan=False)
    """Value units of 1.0."""
    learning_rate: float = Field(default=LEARNING_RATE, gt=0, allow_inf_nan=False)
    replay_log: bool = False
    """Keep what the switch acknowledges, to push it again when that is gone."""
    switch: int = 0
    """Number of the switch, another one after each of its restarts."""
    window: int = Field(default=WINDOW, ge=1, le=WINDOW)
    compute_ns: int = Field(default=0, ge=0, le=60_000_000_000)
    """What the computing between pull and push takes at least, as a busy wait; 0: what it takes here."""
