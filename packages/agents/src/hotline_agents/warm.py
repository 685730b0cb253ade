"""Compile the agents of a design before their first start: `python -m hotline_agents.warm`, at set-up."""

from __future__ import annotations

from typing import Any

import numpy as np

from foundation.compiled import pinned
from foundation.designs.registry import DEFAULT, design
from foundation.protocol.codec import Caller
from foundation.protocol.rpc import rpcs
from hosts.keys import KeySpace
from hosts.ledger import Ledger
from hosts.model import LogisticRegression
from hosts.replay import ReplayLog
from hosts.replay_words import UNDO_WORDS
from hosts.workload.trace import MiniBatch
from hotline_agents.designs import agents_of
from hotline_agents.ps.compiled_loop import make_sources, serve
from hotline_agents.ps.ops import COMPILED
from hotline_agents.ps.ops import pinned as pinned_server
from hotline_agents.ps.rpc_server import RpcServer
from hotline_agents.ps.service_time import make_service
from hotline_agents.ps.share import make_share, places_of
from hotline_agents.udp import make_udp
from hotline_agents.worker.client import NO_ITERATION
from hotline_agents.worker.compiled_loop import make_wire, operate

_NO_FILE = -1
_N_PS = 2
_PAST_NS = 0  # a deadline with which the loops return after one pass


def warm_worker(name: str = DEFAULT) -> None:
    run_design = design(name)
    positions, deltas = np.zeros(1, np.int64), np.zeros(1, np.uint32)
    ledger = Ledger(job=0, epoch=0, space=KeySpace(1), capacity=1)
    caller, space = Caller(job=0, worker=1, epoch=0), KeySpace(1)
    make_client = agents_of(run_design).client
    client = make_client(caller, n_ps=1, space=space, clock=lambda: 0)
    client.set_worker_count(workers=2)
    client.start_empty_rpc(ps=0)
    client.transmit()
    client.receive(b"", arrival=0, read=0)
    due = client.deadline()
    assert due is not None
    client.wake(due)
    words = np.zeros(1 + UNDO_WORDS, np.int64)
    log = ReplayLog.in_memory(words, space, capacity=1) if run_design.is_durable else None
    client = make_client(caller, n_ps=1, space=space, clock=lambda: 0, log=log)
    if log is not None:
        log.acknowledged[:] = 1
    client.renew(epoch=1)
    client.replay()
    client.push(NO_ITERATION, positions, deltas, ledger.open(positions, deltas))
    ledger.close()
    wire = make_wire(_NO_FILE, [("127.0.0.1", 1)], commands=_NO_FILE, signals=_NO_FILE)
    operate(client.reference, pinned(make_udp()), pinned(wire), _PAST_NS)


def warm_ps(name: str = DEFAULT) -> None:
    key = np.zeros(1, np.uint64)
    run_design = design(name)
    ps, job = 0, 0
    for space in (KeySpace(1), KeySpace(1, key)):  # dense and sparse
        places_of(make_share(space, ps, _N_PS), key)
        state = agents_of(run_design).server(ps, _N_PS, space, [job])
        agents_of(run_design).warm_server(state)
    if run_design.is_durable:
        RpcServer(state, clock=lambda: 0).replay_journal(np.zeros(0, np.uint8), offset=0)
    service, udp, sources = make_service(), make_udp(), make_sources(_NO_FILE)
    serve(pinned_server(state), pinned(service), pinned(udp), pinned(sources), _PAST_NS)


def warm_driven_ps(name: str = DEFAULT) -> None:
    """Warm up what Python calls of a PS whose loop it is, as in tests."""
    state = agents_of(design(name)).server(0, _N_PS, KeySpace(1), [0])
    server = RpcServer(state, clock=lambda: 0)
    server.handle(b"", arrival=0, read=0)
    answer: Any = rpcs(1)  # operations take the first datagram of an array
    COMPILED.stamp(server.reference, answer, 0, 0)
    COMPILED.wake(server.reference, 0)
    COMPILED.transmit(server.reference, 0)
    if len(getattr(state, "requests", ())):  # of a PS that calls the switch
        COMPILED.octets(server.reference, 0)


def warm_model() -> None:
    """Train on a mini-batch of one sample with one feature."""
    at, column = np.zeros(1, np.int64), np.zeros(1, np.uint32)
    batch = MiniBatch(positions=at, label=np.zeros(1, np.uint8), sample=at, column=column)
    LogisticRegression().step(batch, np.zeros(1, np.uint32))


def warm(name: str = DEFAULT) -> None:
    """Warm up worker and PS: half a minute for a design that was never run, otherwise a second."""
    warm_worker(name)
    warm_ps(name)


if __name__ == "__main__":
    warm()
