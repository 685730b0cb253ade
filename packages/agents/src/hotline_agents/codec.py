"""The codec `fast`: what the testbed needs of the compiled agents, imported when it is used."""

from __future__ import annotations

from foundation.designs.interface import Design
from hosts.compiled_agents import CompiledAgents
from hosts.rpc_cost import RpcCost


def _check(design: Design) -> None:
    from hotline_agents.designs import check_agents

    check_agents(design)


def _warm(design: str) -> None:
    from hotline_agents.warm import warm

    warm(design)


def _measure_rpc_cost(design: Design, window: int, steps: int) -> RpcCost | None:
    from hotline_agents.rpc_cost import measure_rpc_cost

    return measure_rpc_cost(design, window, steps)


COMPILED_AGENTS = CompiledAgents(
    worker="hotline_agents.worker",
    server="hotline_agents.ps",
    fork_server="hotline_agents.fork_server",
    check=_check,
    warm=_warm,
    measure_rpc_cost=_measure_rpc_cost,
)
