"""`python -m packages.agents.tests.harness.plain_probe`: what agents answer, as JSON."""

from __future__ import annotations

import json

import numpy as np

from foundation.protocol.codec import Caller
from hosts.keys import KeySpace
from hotline_agents.hotset import AGENTS
from hotline_agents.ps.rpc_server import RpcServer
from hotline_agents.worker.client import NO_ITERATION

_KEYS = 300


def state_machines() -> dict[str, object]:
    """Push and pull by the agents that numba compiles, or by their plain form; return what was answered."""
    agents, space, positions = AGENTS, KeySpace(_KEYS), np.arange(_KEYS)
    client = agents.client(Caller(job=0, worker=1, epoch=0), 1, space, lambda: 0, 8)
    server = RpcServer(agents.server(0, 1, space, [0]), clock=lambda: 0)

    def exchange() -> None:
        while not client.idle:
            while (sent := client.transmit()) is not None:
                answer = server.handle(bytes(sent[0]), arrival=0, read=0)
                assert answer is not None
                client.receive(answer[1], arrival=0, read=0)

    deltas = (positions * positions).astype(np.uint32)
    client.push(NO_ITERATION, positions, deltas, np.zeros(_KEYS, np.bool_))
    exchange()
    client.pull(NO_ITERATION, positions)
    exchange()
    return {"pulled": client.values.tolist()}


if __name__ == "__main__":
    print(json.dumps(state_machines()))
