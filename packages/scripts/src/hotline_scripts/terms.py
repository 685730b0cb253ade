"""Tables and terms with which a session of scripts begins."""

from __future__ import annotations

from pathlib import Path

from experiment.run_config import EPOCH, Config
from foundation.designs.interface import Arm
from foundation.designs.registry import design, no_optimiser_message
from foundation.protocol import addressing
from hotline_scripts.embedding_tables import EmbeddingTables, TableError
from hotline_scripts.script_session import Terms
from topologies.fleet import service_endpoints, worker_addresses


def tables_of_design(config: Config, tables: EmbeddingTables) -> EmbeddingTables:
    """Return tables as the run's design has them; raise `TableError` if it cannot."""
    if not design(config.design).optimises:
        for table in tables.values():
            if table.optimiser is not None:
                raise TableError(
                    f"table {table.name}: {no_optimiser_message(config.design, str(table.optimiser))}"
                )
    return tables.in_design(design(config.design).has_rows)


def session_terms(config: Config, arm: Arm, parts: Path | None = None) -> Terms:
    """Return the terms of a session of scripts; `parts` is the folder of their logs in a run."""
    return Terms(
        job=arm.job,
        epoch=EPOCH,
        design=config.design,
        window=config.window,
        servers=[(each.address, design(config.design).udp_port) for each in service_endpoints(config)],
        workers=[(address, addressing.worker_udp_port(arm.job)) for address in worker_addresses(config)],
        arm=arm.name,
        seed=config.seed,
        parts=None if parts is None else str(parts),
    )
