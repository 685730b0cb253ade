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
_UNSTATED_VERSION = 1


class AgentConfigError(HotlineError):
    """An agent's configuration or command is invalid; the text names the value and its place."""


class ServerCost(Strict):
    """Minimum service time of an RPC at a parameter server, to model another machine; 0 adds nothing."""

    ns_per_rpc: int = Field(default=0, ge=0, le=NS_PER_S)
    ns_per_lane: int = Field(default=0, ge=0, le=NS_PER_S)
    cores: int = Field(default=1, ge=1, le=1024)


class WorkerCost(Strict):
    """Minimum time that a worker computes between pull and push, as a busy wait; 0 adds nothing."""

    compute_ns: int = Field(default=0, ge=0, le=60 * NS_PER_S)


class Recovery(Strict):
    """Persistence that lets a killed agent or switch restart without losing updates."""

    journal_sync: Fsync | None = None
    """When servers sync their journal to the disk; None keeps no journal."""
    replay_log: bool = False
    """Workers log what the switch acknowledges, to push it again after the switch has restarted."""


class Collection(Strict):
    """How often servers of design `collect` collect gradients from the switch and publish values."""

    staleness_ms: float = Field(default=50.0, gt=0, le=60_000)
    """Age that no published value is to have; where the share does not suffice, runs report how many had."""
    share_of_server: float = Field(default=0.2, gt=0, le=1)
    """Share of a server's time that collections take at most."""


class RunSettings(Strict):
    """Settings of run.toml that agents need too; `experiment.config.Config` inherits them."""

    design: str = DEFAULT
    """DESIGN of aggregation: hotset, none, or the name of a module outside of this repository."""
    codec: Literal["fast", "scapy"] = "fast"
    """CODEC of the agents; it also decides the default sizes (`experiment.sizes`)."""
    window: int = Field(default=WINDOW, ge=1, le=WINDOW)
    """Maximum number of outstanding RPCs of a worker, in each arm."""
    server: ServerCost = ServerCost()
    worker: WorkerCost = WorkerCost()
    recovery: Recovery = Recovery()
    collection: Collection = Collection()

    def agent_settings(self) -> dict[str, object]:
        return self.model_dump(mode="json", include=set(RunSettings.model_fields))


class JobConfig(Strict):
    """A job of an agent: one arm of the experiment."""

    job: int = Field(ge=0, lt=2**16)
    epoch: int = Field(ge=0, lt=2**32)
    """Epoch of the agent's row in the switch."""


class ServiceConfig(Strict):
    """The service address of a parameter server, which the switch owns."""

    address: str
    port: int = Field(gt=0, lt=2**16)


class AgentConfig(RunSettings):
    wire: int = Field(default=_UNSTATED_VERSION, validate_default=True)
    """Protocol version of the run; an agent refuses to start in a run of another version."""
    address: str
    log_dir: Path
    n_ps: int = Field(ge=1)
    workers: tuple[str, ...] = ()
    """Addresses of all workers, in order, for designs in which agents send to workers on their own."""
    cpu: int | None = None

    @field_validator("wire")
    @classmethod
    def _check_wire(cls, wire: int) -> int:
        if wire != VERSION:
            raise ValueError(
                f"the run speaks version {wire} of the wire and this agent version {VERSION}; "
                "start both from one Hotline"
            )
        return wire
