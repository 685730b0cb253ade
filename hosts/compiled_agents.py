"""The compiled agents, which a package has: all that the testbed needs of them.

An entry point of the group `hotline.codecs` names them by their codec, `fast`. The group `hotline.agents` has
the `Agents` of each design, by the design's name. Without such a package, the agents are those of Scapy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import NamedTuple, cast

from foundation.designs.interface import Design
from foundation.errors import HotlineError
from foundation.packages import install_hint
from hosts.rpc_cost import RpcCost

_GROUP, _CODEC = "hotline.codecs", "fast"


class CompiledAgents(NamedTuple):
    worker: str
    """Module of a worker's process: `python -m MODULE --config FILE`, with a `hosts.worker_config`."""
    server: str
    """Module of a server's process: `python -m MODULE --config FILE`, with a `hosts.ps_config`."""
    fork_server: str
    """Module of the process that forks both: `python -m MODULE FD DESIGN PADDING`. FD is a SOCK_SEQPACKET
    socket, which gets a `hosts.start_request` in JSON for each agent."""
    check: Callable[[Design], None]
    """(design): make a client and a server, without compiling; raise `DesignError` for what they lack."""
    warm: Callable[[str], None]
    """(name of a design): compile its agents, or load their machine code."""
    measure_rpc_cost: Callable[[Design, int, int], RpcCost | None]
    """(design, window, steps): return the mean CPU time of a full RPC; None if no answer comes."""


@cache
def compiled_agents() -> CompiledAgents | None:
    """Return the compiled agents; None if no installed package has them."""
    found = [each for each in entry_points(group="hotline.codecs") if each.name == _CODEC]
    return cast(CompiledAgents, found[0].load()) if found else None


def absence_message(what: str) -> str:
    """Return how to install the package for `what`, the subject of the sentence, where it is missing."""
    return (
        f"{what} needs the package of compiled agents, which is not installed{install_hint(_GROUP, _CODEC)}"
    )


def require_compiled_agents(what: str) -> CompiledAgents:
    """Return the compiled agents; raise `HotlineError` if no installed package has them."""
    agents = compiled_agents()
    if agents is None:
        raise HotlineError(absence_message(what))
    return agents
