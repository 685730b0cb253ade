"""A PS's configuration: the JSON file that its process reads."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, model_validator

from foundation.optimisers import TableOptimiser
from foundation.protocol.addressing import worker_udp_port
from foundation.protocol.header import MAX_HOMES, PS_BITS
from foundation.protocol.rows import ONE_VALUE, RowRange
from foundation.settings import Strict
from hosts.agent_config import AgentConfig, Fsync, JobConfig, ServiceConfig
from hosts.keys import KeySpace

_JOURNAL_FORMAT = 4  # a server that replays a journal must accept the commands that were accepted before


class PsJobConfig(JobConfig):
    connected: bool
    """Whether each of `AgentConfig.workers` gets a connected socket, as in runs without the proxy."""


class DurableConfig(Strict):
    file: Path
    checkpoint_mb: float = Field(default=64.0, gt=0, allow_inf_nan=False)
    """Size of the journal, in MiB, after which a checkpoint replaces it."""


class PsConfig(AgentConfig):
    """The configuration of one PS; the keys are 0..parameters-1, or the sorted keys in a file."""

    ps: int = Field(ge=0, lt=1 << PS_BITS)
    homes: int = Field(default=1, ge=1, le=MAX_HOMES)
    """Number of switches with hot sets of this server."""
    collector: Path | None = None  # Unix socket of the log collector
    jobs: list[PsJobConfig] = Field(min_length=1)
    service: ServiceConfig
    servers: tuple[str, ...] = ()  # addresses of all servers, in order
    tables: tuple[TableOptimiser, ...] = ()
    """Optimisers of the tables, in the order of their keys; empty if servers only add."""
    durable: DurableConfig | None = None
    parameters: int | None = Field(default=None, ge=1)
    """Number of rows, whose keys are 0, 1, ..."""
    keys: Path | None = None
    keys_checksum: int | None = None  # `crc32_of` that file
    row_ranges: tuple[RowRange, ...] = ONE_VALUE
    """The ranges of positions with rows of the same dim."""

    def key_space(self) -> KeySpace:
        """Return the key space; raise `AgentConfigError` if the file of keys cannot be read."""
        if self.keys is not None and self.keys_checksum is not None:
            return KeySpace.load(self.keys, self.keys_checksum, self.row_ranges)
        assert self.parameters is not None, "expected either parameters or keys, as validated"
        return KeySpace(self.parameters, None, self.row_ranges)

    def worker_addresses(self, job: PsJobConfig) -> list[tuple[str, int]]:
        return [(worker, worker_udp_port(job.job)) for worker in self.workers]

    @property
    def connected_workers(self) -> list[tuple[str, int]]:
        return [address for job in self.jobs if job.connected for address in self.worker_addresses(job)]

    @property
    def fsync(self) -> Fsync:
        return self.recovery.journal_sync or "never"

    def identity(self) -> dict[str, object]:
        """Return the settings that must be unchanged for the persisted state to be valid."""
        return {
            "journal": _JOURNAL_FORMAT,
            "design": self.design,
            "ps": self.ps,
            "homes": self.homes,
            "n_ps": self.n_ps,
            "replayed": self.recovery.replay_log,
            "jobs": {str(job.job): job.epoch for job in self.jobs},
            "parameters": self.parameters,
            "keys": self.keys_checksum,
            "rows": [list(each) for each in self.row_ranges],
            **({"tables": [str(table) for table in self.tables]} if self.tables else {}),
        }

    @model_validator(mode="after")
    def _check_key_space(self) -> PsConfig:
        if (self.parameters is None) == (self.keys is None):
            raise ValueError(
                "expected either parameters or keys, got " + ("both" if self.keys else "neither")
            )
        if (self.keys is None) != (self.keys_checksum is None):
            raise ValueError(
                f"expected keys and keys_checksum together, got {self.keys} and {self.keys_checksum}"
            )
        return self
