"""The compiled agents of a design: its workers and its servers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

from foundation.designs.interface import Design
from foundation.designs.registry import DesignError, load_part, part_of
from foundation.protocol.codec import Caller
from foundation.protocol.header import WINDOW
from hosts.agent_config import RunSettings
from hosts.keys import KeySpace
from hotline_agents.interface import SERVER_OPS, WORKER_OPS, Agents
from hotline_agents.ps.rpcs import JobsState
from hotline_agents.ps.server_core import ServerCore
from hotline_agents.ps.store import Store
from hotline_agents.worker.client import BaseClient
from nativekit.generic import Generic

# Core's parameter is the type of an address, which differs between sockets and simulation.
AnyAgents: TypeAlias = Agents[BaseClient, JobsState, Store, ServerCore[Any]]


def agents_of(design: Design) -> AnyAgents:
    """Return the agents of a design; raise `DesignError` if neither it nor a package has them."""
    reference = part_of(design, "agents")
    if reference is None:
        raise DesignError(f"design {design.name} has no compiled agents: expected part agents, got None")
    return cast(AnyAgents, load_part(design, reference))


def configure_server(design: Design, state: JobsState, settings: RunSettings) -> None:
    """Set what a new state of a server has of its design and of a run's settings."""
    state.header.combination = design.combination.code
    agents_of(design).configure(state, settings)


def check_agents(run_design: Design) -> None:
    """Make a client and a server, without compiling anything; raise `DesignError` for what they lack."""
    agents, caller, space = agents_of(run_design), Caller(job=0, worker=1, epoch=0), KeySpace(1)
    where = f"part agents ({part_of(run_design, 'agents')})"
    client = partial(agents.client, caller, 1, space, lambda: 0, WINDOW, max_keys=1, log=None)
    state = _make_state(lambda: client().state, f"{where}: client")
    _check_registered(state, WORKER_OPS, f"{where}: client", "register_worker_ops")
    state = _make_state(lambda: agents.server(0, 1, space, [0], 0), f"{where}: server")
    _check_registered(state, SERVER_OPS, f"{where}: server", "register_server_ops")


def _make_state(make: Callable[[], object], where: str) -> object:
    try:
        return make()
    except Exception as error:  # the code of a design in the making raises anything
        reason = f"{type(error).__name__}: {error}"
        raise DesignError(f"{where} cannot be made with the arguments of its interface: {reason}") from error


def _check_registered(state: object, interface: NamedTuple, where: str, register: str) -> None:
    try:
        for generic in cast(tuple[Generic, ...], interface):
            generic.dispatch(type(state))
    except LookupError as error:
        raise DesignError(
            f"{where}: expected a state of a class that has its functions by {register}, got "
            f"{type(state).__name__}: {error}"
        ) from error
