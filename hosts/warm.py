"""Compile what agents run ahead of their first start, which then takes no time; numba keeps it on disk.

`python -m hosts.warm`, as set-up does. Arrays have the types of a run, whatever its sizes.
"""

from __future__ import annotations

import numpy as np

from hosts.keys import KeySpace
from hosts.ps.serve import make_sources, serve
from hosts.ps.server import RpcServer
from hosts.ps.service import make_service
from hosts.ps.share import make_share, places_of
from hosts.ps.state import make_server
from hosts.udp import make_udp
from hosts.worker.client import Client
from hosts.worker.ledger import Ledger
from hosts.worker.operate import make_wire, operate
from hosts.worker.replay import ReplayLog
from hosts.worker.state import HELD
from protocol.codec import Caller

_NO_FILE = -1


def warm_worker() -> None:
    """Call whatever a worker calls, for nothing."""
    positions, deltas = np.zeros(1, np.int64), np.zeros(1, np.uint32)
    ledger = Ledger(0, 0, size=1, capacity=1)
    client = Client(Caller(0, 1, 0), 1, KeySpace(1), lambda: 0)
    client.empty(0)
    client.transmit()
    client.receive(b"", 0, 0)
    due = client.deadline()
    assert due is not None
    client.wake(due)
    log = ReplayLog.in_memory(np.zeros((2, 1), np.uint32), capacity=1)
    client = Client(Caller(0, 1, 0), 1, KeySpace(1), lambda: 0, log=log)
    log.kept[HELD] = 1
    client.renew(1)
    client.replay()
    client.push(0, positions, deltas, ledger.open(positions, deltas))
    ledger.close()
    wire = make_wire(_NO_FILE, [("127.0.0.1", 1)], _NO_FILE, _NO_FILE)
    operate(client.state, make_udp(0), wire, 0)


def warm_ps() -> None:
    """Call whatever a PS calls, for nothing."""
    key = np.zeros(1, np.uint64)
    for space in (KeySpace(1), KeySpace(1, key)):
        share = make_share(space, 0, 2)
        places_of(share, key)
    server = RpcServer(make_server(0, [0], share), lambda: 0)
    server.take_in(np.zeros(0, np.uint8), 0)
    serve(server.state, make_service(), make_udp(0), make_sources(_NO_FILE), 0)


if __name__ == "__main__":
    warm_worker()
    warm_ps()
