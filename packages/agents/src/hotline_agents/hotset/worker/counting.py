"""Count the RPCs of an operation by packing it, without sending any."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from foundation.protocol.codec import Caller, Keys
from foundation.protocol.header import LANES
from foundation.protocol.rpc import PULL
from hosts.keys import KeySpace
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.hotset.worker.requests import start
from hotline_agents.hotset.worker.state import Calls, drop_call
from hotline_agents.interface import NOTHING
from hotline_agents.worker.client import NO_ITERATION
from nativekit.reference import as_ref


class RpcCounts(NamedTuple):
    rpcs: int  # number of RPCs that the worker sends
    to_servers: int  # number of these that reach servers


def count_rpcs(
    space: KeySpace, servers: int, hot: Keys | None, batches: Iterable[NDArray[np.integer]], max_keys: int,
    lanes: int = LANES, hot_lanes: int | None = None,
) -> Iterator[RpcCounts]:  # fmt: skip
    """Yield the RPC counts of operations, `max_keys` keys at most; if `hot` is None, all go to servers."""
    operations = ((positions, hot) for positions in batches)
    return count_operations(space, servers, operations, max_keys, lanes, hot_lanes)


def count_operations(
    space: KeySpace,
    servers: int,
    operations: Iterable[tuple[NDArray[np.integer], Keys | None]],
    max_keys: int,
    lanes: int = LANES,
    hot_lanes: int | None = None,
) -> Iterator[RpcCounts]:
    client = HotsetClient(Caller(job=0, worker=1, epoch=0), servers, space, lambda: 0, max_keys=max_keys)
    client.limit_lanes(lanes, hot_lanes)
    state, hinted_keys = client.state, None
    for positions, hot in operations:
        if hot is not hinted_keys:
            client.hint(hot)
            hinted_keys = hot
        state.positions[: len(positions)] = positions
        to_servers = _count_operation(state, len(positions))
        yield RpcCounts(client.rpcs_of_operation, to_servers)


@entry_point
def _count_operation(state: Calls, n_keys: int) -> int:
    state = as_ref(state)
    header = state.header
    start(state, PULL, NO_ITERATION, n_keys)
    to_servers = 0
    for window in state.windows:
        c = window.first_unsent
        while c != NOTHING:
            call = state.calls[c]
            # The switch answers a call itself only if all its keys are in their hash lanes.
            to_servers += call.live != call.hashed
            drop_call(state, c)
            c = call.next
        window.first_unsent = NOTHING
    header.n_unsent = header.pending = 0  # idle again, as if all calls were answered
    return to_servers
