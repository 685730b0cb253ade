"""Agents prefetch the memory that they read next; prefetching changes no state."""

from __future__ import annotations

from random import Random
from typing import Any, cast

import numba
import numpy as np
import pytest

from foundation.optimisers import TableOptimiser, parse
from foundation.protocol.codec import Caller
from foundation.protocol.header import LANES, Op
from foundation.protocol.rpc import BUFFER_BYTES, rpcs
from hosts.keys import KeySpace
from hotline_agents.hotset.ps.state import make_server
from hotline_agents.hotset.worker import prefetch as of_worker
from hotline_agents.hotset.worker.requests import start, transmit
from hotline_agents.hotset.worker.state import make_calls
from hotline_agents.ps import prefetch as of_server
from hotline_agents.ps.compiled_loop import prefetch_next_datagrams
from hotline_agents.ps.rpcs import find_caller
from hotline_agents.ps.share import places_of
from hotline_agents.worker.window import SLOT
from hotline_simulator.state import EVENT
from nativekit.plain import plain
from nativekit.prefetch import prefetch
from nativekit.records import CACHE_LINE_BYTES
from nativekit.reference import as_ref
from tools.bench.requests import EPOCH, FIRST_WORKER, JOB, make_requests

SIZE = 5_000
DENSE = KeySpace(SIZE)
SPARSE = KeySpace(SIZE, np.sort(np.random.default_rng(1).integers(0, 2**64 - 1, SIZE, dtype=np.uint64)))
_numba: Any = numba


def _look_at_all(server: Any, inbox: Any) -> None:
    server = as_ref(server)
    for k in range(len(inbox)):
        prefetch_next_datagrams(server, inbox, k, len(inbox))


_look_ahead: Any = _numba.njit(error_model="numpy")(_look_at_all)


def contents(state: Any) -> list[Any]:
    return [contents(each) if hasattr(each, "_fields") else np.asarray(each).tobytes() for each in state]


def touched(function: Any, *args: Any) -> list[int]:
    seen: list[int] = []
    cast(Any, plain(function, {prefetch: seen.append}))(*args)
    return seen


def lines(addresses: Any) -> set[int]:
    return {int(address) // CACHE_LINE_BYTES for address in addresses}


@pytest.mark.parametrize("optimiser", [None, "adam"])
@pytest.mark.parametrize("n_ps", [1, 3])
@pytest.mark.parametrize("space", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_a_server_has_its_cells_and_its_caller_fetched(
    space: KeySpace, n_ps: int, optimiser: str | None
) -> None:
    tables = [] if optimiser is None else [TableOptimiser(first=0, scale=1.0, optimiser=parse(optimiser))]
    server = make_server(0, n_ps, space, [7, JOB], tables=tables)
    assert server.share.ranges.stride.tolist() == [2 if optimiser is None else 8]
    keys = space.all()[np.random.default_rng(2).choice(SIZE, LANES)]
    rpc = make_requests(Op.PUSH, keys[np.newaxis]).rpcs[0]
    places = places_of(server.share, keys)
    cells = server.cells[1].ctypes.data + places * int(server.share.ranges.stride[0]) * server.cells.itemsize
    own = cells[places < server.share.header.places]
    before = contents(server)
    first = touched(of_server.prefetch_index, server, rpc)
    then = touched(of_server.prefetch_values, server, rpc)
    if space is DENSE:
        assert lines(own) <= lines(first + then)
        assert bool(then) == (n_ps > 1)
    else:  # some keys are not at home in the table
        assert len(lines(own) & lines(first)) > 0.6 * len(lines(own)) and not then
    plain(find_caller)(server, JOB, FIRST_WORKER, EPOCH)
    [caller] = np.flatnonzero(server.callers.in_use)
    assert server.callers[caller : caller + 1].ctypes.data in first
    server.callers[caller].in_use = server.header.n_callers = 0
    server.callers[caller].job = server.callers[caller].caller = server.callers[caller].epoch = 0
    assert contents(server) == before


@pytest.mark.parametrize("n_ps", [1, 3])
@pytest.mark.parametrize("space", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_prefetching_of_any_datagram_changes_nothing(space: KeySpace, n_ps: int) -> None:
    server, inbox, random = make_server(0, n_ps, space, [JOB]), rpcs(40), Random(3)
    before = contents(server)
    inbox.view(np.uint8)[:] = np.frombuffer(random.randbytes(inbox.nbytes), np.uint8)
    inbox[:20].job = JOB << 8  # in network order
    _look_ahead(server, inbox)
    plain(prefetch_next_datagrams)(server, inbox, 0, len(inbox))
    assert contents(server) == before


def test_a_worker_has_the_next_calls_and_its_answers_fetched() -> None:
    calls = make_calls(Caller(JOB, 1, EPOCH), 2, KeySpace(SIZE), SIZE)
    calls.positions[:300] = np.random.default_rng(4).choice(SIZE, 300, replace=False)
    cast(Any, plain(start))(calls, int(Op.PUSH), 1, 300)
    following = calls.calls[calls.windows[0].first_unsent]
    keys = following.key_at[: following.count].astype(np.int64)
    seen = touched(of_worker.prefetch_next, calls)
    assert lines(calls.keys.ctypes.data + 8 * keys) <= lines(seen)
    assert lines(calls.deltas.ctypes.data + 4 * keys) <= lines(seen)
    behind = calls.calls.ctypes.data + int(following.next) * calls.calls.itemsize
    assert lines(range(behind, behind + calls.calls.itemsize)) <= lines(seen)
    s = cast(Any, plain(transmit))(calls, 5)
    written = calls.sent.ctypes.data + s * BUFFER_BYTES
    assert lines(range(written, written + int(calls.slots[s].length))) <= lines(seen)
    answer = calls.sent[s]
    first = touched(of_worker.prefetch_index, calls, answer)
    then = touched(of_worker.prefetch_values, calls, answer)
    assert lines([calls.slots.ctypes.data + s * SLOT.itemsize]) <= lines(first)
    assert lines([calls.sent.ctypes.data + s * BUFFER_BYTES]) <= lines(first)
    record = calls.calls.ctypes.data + int(calls.slots[s].call) * calls.calls.itemsize
    assert lines(range(record, record + calls.calls.itemsize)) <= lines(then)


def test_records_that_are_read_as_a_whole_share_no_line_for_nothing() -> None:
    assert SLOT.itemsize == CACHE_LINE_BYTES and CACHE_LINE_BYTES % EVENT.itemsize == 0
