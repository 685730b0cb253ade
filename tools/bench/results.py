"""Targets and goals of the sections; a goal with a target bounds the ratio to that target's value."""

from __future__ import annotations

from switch_bench.baseline import C_LOOP
from switch_bench.results import Targets, at_least, at_most
from switch_bench.switches import BMV2

AGENT = "agent"
ECHO = "echo"
LIBRARY = "hotline.Worker"
BUILT_IN = "built-in worker"
ONE_CORE = "one core"
OPTIMISER = "optimiser"
ADDITION = "addition"

AGENTS = Targets(AGENT, (ECHO,))
SCRIPTS = Targets(LIBRARY, (BUILT_IN,))
ONE_CORE_TARGETS = Targets(ONE_CORE, ())
OPTIMISER_TARGETS = Targets(OPTIMISER, (ADDITION,))

PACKETS_HIT = (at_least(15, BMV2), at_least(0.55, C_LOOP))
PACKETS_COLD = (at_least(6, BMV2),)
PACKET_FUNCTION_NS = (at_most(1_000),)
HANDLE_US = {
    (900_000, False): (at_most(0.75),),
    (150_000_000, False): (at_most(1),),
    (150_000_000, True): (at_most(3),),
}
"""Goals by number of keys and whether they are hashed."""
SERVER_NS = {16: (at_most(3),), 64: (at_most(1.5),)}
WORKER_NS = {16: (at_most(3),), 64: (at_most(1.5),)}
"""Goals in ns a value, by the dim of rows."""
OPTIMISER_COST = {"adagrad": (at_most(1.6, ADDITION),), "adam": (at_most(2.2, ADDITION),)}
SERVER_RATE = (at_least(0.8, ECHO),)
WORKER_US = (at_most(1.7, ECHO),)
BEGIN_OPERATION_US = (at_most(60),)
LIBRARY_COST = (at_most(1.15, BUILT_IN),)
POLICY_UPDATES_PER_S = (at_least(1_000_000),)
WHAT_IF_MAP_S = (at_most(1),)
ALL_SCHEDULERS_S = (at_most(5),)
