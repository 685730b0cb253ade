"""Compile what agents run ahead of their first start, which then takes no time; numba keeps it on disk.

`python -m hosts.warm`, as set-up does. Arrays have the types of a run, whatever its sizes.
"""

from __future__ import annotations

import numpy as np

from hosts.keys import KeySpace
from hosts.udp import make_udp
from hosts.worker.client import Client
from hosts.worker.ledger import Ledger
from hosts.worker.operate import make_wire, operate
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
    client = Client(Caller(0, 1, 0), 1, KeySpace(1), lambda: 0)
    client.push(0, positions, deltas, ledger.open(positions, deltas))
    ledger.close()
    wire = make_wire(_NO_FILE, [("127.0.0.1", 1)], _NO_FILE, _NO_FILE)
    operate(client.state, make_udp(0), wire, 0)


if __name__ == "__main__":
    warm_worker()
