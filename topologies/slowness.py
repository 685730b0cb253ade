"""How many times slower a run's agents are than the compiled ones: both are measured before it, alike."""

from __future__ import annotations

import logging

from analysis.record import FAST, AgentCost
from experiment.config import Config
from foundation.designs.registry import design
from hosts.pace import rpc_cost
from hosts.warm import warm

log = logging.getLogger(__name__)

_STEPS, _COMPILED_STEPS = 2, 20
"""Of 128 RPCs each: half a second and more of slow agents, 20 ms and more of compiled ones."""


def slowness(config: Config) -> dict[str, AgentCost]:
    """Codec -> what an RPC takes, of the run's agents and of compiled ones; empty where it cannot be told."""
    chosen = design(config.design)
    warm(config.design)
    found: dict[str, AgentCost] = {}
    for codec, steps in ((FAST, _COMPILED_STEPS), (config.codec, _STEPS)):
        cost = rpc_cost(codec, chosen, config.window, steps)
        if cost is None:
            log.warning(
                "servers of design %s do not answer without a switch: not measured alone", chosen.name
            )
            return {}
        found[codec] = AgentCost(**cost._asdict())
    return found
