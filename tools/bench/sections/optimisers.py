"""CPU time of `handle` for a push of all lanes, at servers with an optimiser and one that only adds."""

from __future__ import annotations

import numpy as np

from foundation.protocol.header import LANES, Op
from hosts.keys import KeySpace
from switch_bench.processes import pinned
from switch_bench.results import Result
from switch_bench.stage import Stage
from tools.bench.requests import make_requests
from tools.bench.results import ADDITION, OPTIMISER, OPTIMISER_COST, OPTIMISER_TARGETS
from tools.bench.state_machines import server_of, us_per_rpc

_KEYS, _RPCS, _SEED = 900_000, 40_000, 2
OPTIMISERS = ("sgd(lr=0.1)", "adagrad", "ftrl", "adam")


def optimisers(stage: Stage) -> list[Result]:
    with pinned({stage.cores.softswitch}):
        return [_cost(stage, text) for text in OPTIMISERS]


def _cost(stage: Stage, text: str) -> Result:
    name = text.partition("(")[0]
    stage.announce(f"PS with {name}")
    space = KeySpace(_KEYS)
    positions = np.random.default_rng(_SEED).integers(_KEYS, size=(_RPCS, LANES))
    requests = make_requests(Op.PUSH, space.keys(positions))
    samples: dict[str, list[float]] = {OPTIMISER: [], ADDITION: []}
    servers = {OPTIMISER: server_of(space, text), ADDITION: server_of(space)}
    for target in stage.shuffled(list(servers)):
        samples[target] += us_per_rpc(servers[target], requests)
    what = f"PS, `handle` alone, {LANES}-lane push with {name}, {_KEYS:,} dense keys"
    return Result("optimisers", what, "µs", samples, OPTIMISER_COST.get(name, ()), OPTIMISER_TARGETS)
