"""Settings that runs and agents share, and the common configuration of agents."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from foundation.designs.registry import DEFAULT
from foundation.errors import HotlineError
from foundation.protocol.header import VERSION, WINDOW
from foundation.settings import Strict

NS_PER_S = 1_000_000_000
Fsync = Literal["always", "checkpoint", "never"]
_DEFAULT_VERSION = 1  # of a configuration that names none


class AgentConfigError(HotlineError):
    """An agent's configuration or command is invalid; the text names the value and its place."""


class ServerCost(Strict):
    ns_per_rpc: int = Field(default=0, ge=0, le=NS_PER_S)
    ns_per_lane: int = Field(default=0, ge=0, le=NS_PER_S)
    cores: int = Field(default=1, ge=1, le=1024)


class WorkerCost(Strict):
    compute_ns: int = Field(default=0, ge=0, le=60 * NS_PER_S)


class Recovery(Strict):
    journal_sync: Fsync | None = None
    replay_log: bool = False


class CollectionSettings(Strict):
    staleness_ms: float = Field(default=50.0, gt=0, le=60_000)
    share_of_server: float = Field(default=0.2, gt=0, le=1)


class RunSettings(Strict):
    """Settings of run.toml, described there, that agents need too (`experiment.run_config.Config`)."""

    design: str = DEFAULT
    codec: Literal["fast", "scapy", "mixed"] = "fast"
    window: int = Field(default=WINDOW, ge=1, le=WINDOW)
    server: ServerCost = ServerCost()
    worker: WorkerCost = WorkerCost()
    recovery: Recovery = Recovery()
    collection: CollectionSettings = CollectionSettings()

    def agent_settings(self) -> dict[str, object]:
        return self.model_dump(mode="json", include=set(RunSettings.model_fields))


class JobConfig(Strict):
    job: int = Field(ge=0, lt=2**16)
    epoch: int = Field(ge=0, lt=2**32)
    """Epoch of the agent's row in the switch."""


class ServiceConfig(Strict):
    address: str
    port: int = Field(gt=0, lt=2**16)


class AgentConfig(RunSettings):
    wire: int = Field(default=_DEFAULT_VERSION, validate_default=True)
    """Protocol version of the run; an agent refuses to start in a run of another version."""
    address: str
    log_dir: Path
    n_ps: int = Field(ge=1)
    workers: tuple[str, ...] = ()
    """Addresses of all workers, in order. Servers refuse other worker numbers, unless the list is empty."""
    cpu: int | None = None  # that the agent runs on; None for any

    @field_validator("wire")
    @classmethod
    def _check_wire(cls, wire: int) -> int:
        if wire != VERSION:
            raise ValueError(
                f"the run speaks version {wire} of the wire and this agent version {VERSION}; "
                "start both from the same version of Hotline"
            )
        return wire
