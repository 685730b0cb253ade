"""The worker's half of the hot set, as loops call it."""

from __future__ import annotations

from foundation.designs.interface import WorkerOps, register_worker_ops
from hosts.hotset.worker.answers import receive
from hosts.hotset.worker.prefetch import prefetch_index, prefetch_next, prefetch_values
from hosts.hotset.worker.recovery import next_unreplayed, take_unreplayed
from hosts.hotset.worker.requests import deadline, start, transmit, wake
from hosts.hotset.worker.state import Calls
from hosts.worker.rpcs import peer
from hosts.worker.window import octets

WORKER = register_worker_ops(
    Calls,
    WorkerOps(
        start,
        transmit,
        octets,
        peer,
        wake,
        deadline,
        receive,
        next_unreplayed,
        take_unreplayed,
        prefetch_next,
        prefetch_index,
        prefetch_values,
    ),
)
