"""A PS's configuration: the JSON file that `python -m hosts.ps --config` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from foundation.settings import Strict
from hosts.config import AgentConfig

NS_PER_S = 1_000_000_000


class JobConfig(Strict):
    """A job at this PS."""

    job: int = Field(ge=0, lt=2**16)
    epoch: int = Field(ge=0, lt=2**32)
    """Of the PS's own row in the switch."""
    connected: bool
    """One connected socket for each worker, as without the proxy."""


class ServiceConfig(Strict):
    """This PS's service address, which the switch owns."""

    address: str
    port: int = Field(gt=0, lt=2**16)


class ServiceTime(Strict):
    """What an RPC is to cost at least, as on somebody's own server; 0 adds nothing."""

    ns_per_rpc: int = Field(default=0, ge=0, le=NS_PER_S)
    ns_per_lane: int = Field(default=0, ge=0, le=NS_PER_S)
    cores: int = Field(default=1, ge=1, le=1024)
    """That share the PS's RPCs."""


class DurableConfig(Strict):
    """What a PS keeps on disk (`hosts.ps.durable`)."""

    file: Path
    fsync: Literal["always", "checkpoint", "never"] = "never"
    checkpoint_mb: float = Field(default=64.0, gt=0, allow_inf_nan=False)
    """Of notes, after which a checkpoint is made instead."""


class PsConfig(AgentConfig):
    """A PS process; the key space is 0..parameters-1, or the sorted keys in a file."""

    ps: int = Field(ge=0, lt=2**15)
    address: str
    log_dir: Path
    collector: Path | None = None
    """Socket of the log collector."""
    n_ps: int = Field(ge=1)
    jobs: list[JobConfig] = Field(min_length=1)
    service: ServiceConfig
    servers: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    """Addresses of all hosts, in order, for designs whose servers send of themselves."""
    codec: Literal["fast", "scapy"] = "fast"
    cpu: int | None = None
    service_time: ServiceTime = ServiceTime()
    durable: DurableConfig | None = None
    replayed: bool = False
    """Workers keep replay logs."""
    parameters: int | None = Field(default=None, ge=1)
    keys: Path | None = None

    def identity(self) -> dict[str, object]:
        """What must be the same for what a PS has kept to be of use."""
        return {
            "design": self.design,
            "ps": self.ps,
            "n_ps": self.n_ps,
            "replayed": self.replayed,
            "jobs": {str(job.job): job.epoch for job in self.jobs},
            "parameters": self.parameters,
            "keys": str(self.keys) if self.keys else None,
        }

    @model_validator(mode="after")
    def _one_key_space(self) -> PsConfig:
        if (self.parameters is None) == (self.keys is None):
            raise ValueError("one of parameters and keys must be given")
        return self
