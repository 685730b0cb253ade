"""The worker's half of the hot set, as loops call it."""

from __future__ import annotations

from foundation.designs.halves import worker_half
from foundation.designs.interface import WorkerHalf
from hosts.hotset.worker.ahead import fetch, prepare, seek
from hosts.hotset.worker.answers import receive
from hosts.hotset.worker.recovery import next_owed, take_owed
from hosts.hotset.worker.requests import deadline, start, transmit, wake
from hosts.hotset.worker.state import Calls
from hosts.worker.rpcs import peer
from hosts.worker.window import octets

WORKER = worker_half(
    Calls,
    WorkerHalf(
        start, transmit, octets, peer, wake, deadline, receive, next_owed, take_owed, prepare, seek, fetch
    ),
)
