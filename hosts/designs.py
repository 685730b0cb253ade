"""The compiled agents of a design: its workers and its servers."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from foundation.designs.interface import Agents, Design
from foundation.designs.registry import load_part
from hosts.ps.core import Core
from hosts.ps.rpcs import JobsState
from hosts.ps.store import Store
from hosts.worker.client import BaseClient

# Core's parameter is the type of an address, which differs between sockets and simulation.
AnyAgents: TypeAlias = Agents[BaseClient, JobsState, Store, Core[Any]]


def agents_of(design: Design) -> AnyAgents:
    return cast(AnyAgents, load_part(design, design.agents))
