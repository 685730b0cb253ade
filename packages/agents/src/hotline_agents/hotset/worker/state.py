"""The state of a worker's calls for one job, as arrays of records.

One operation runs at a time. Its keys, by index, travel in calls, one RPC each. A call is a record taken from
`spare_calls`, and returned when the RPC is answered. Calls are queued until a slot of the window is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.logs.rpc_row import RpcRow
from foundation.protocol.codec import Caller
from foundation.protocol.hashing import LANE_BITS
from foundation.protocol.header import LANES, MAX_VALUES, PS_BITS, QUAD, WINDOW
from foundation.protocol.rpc import Rpc, lane_of
from hosts.keys import KeyRange, KeySpace, key_ranges
from hotline_agents.interface import NOTHING
from hotline_agents.worker.rpcs import RpcCall, RpcsHeader, set_dims, space_of
from hotline_agents.worker.window import (
    LAST_SEQ,
    MAX_TURN,
    RESERVED_NUMBERS,
    Slot,
    occupy_slot,
    open_calls,
    vacate_slot,
)
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Octets, Records, Words, dtype_of, one_record, records

NOT_REFUSED = 0  # number of refusals of a key that is sent for the first time


class CallsHeader(RpcsHeader):
    uses_registers: int
    """Whether the caller is a PS: all keys go in hash lanes, and no answer updates hints."""
    n_unsent: int  # number of calls that wait for a slot
    next_home: int  # home whose calls are sent first, the one of the last request
    home_bits: int  # upper bits of the field `ps` of all requests; those of an RPC's level are added
    n_spare_calls: int  # number of unused calls in the array `spare_calls`
    n_groups: int  # number of groups in use in the array `groups`
    has_replay_log: int
    """Whether there is a replay log; `unreplayed` is 1 + the position from which to search the log, or 0."""
    servers_own_parameters: int
    """Whether servers own all parameters: pushes are numbered for optimisers, and replays go to servers."""
    n_rows: int  # number of rows in the key space
    is_replay: int  # whether the next operation is a push of unreplayed updates
    max_lane_bits: int  # log2 of the number of lanes for rows of one value, which is at most `LANES`
    max_hot_lane_bits: int  # the same of the first lanes, in which the switch serves keys
    packed_dim: int  # dim of the rows that are packed now
    lane_bits: int  # log2 of the number of lanes of an RPC with rows of `packed_dim` values
    hot_lane_bits: int  # the same of the first lanes, in which the switch serves keys


class HomeWindow:
    """The part of a worker's window for servers whose hot sets are in one switch, their home."""

    level: int
    epoch: int
    first_slot: int
    n_slots: int
    n_free: int  # number of entries in the array `free`, from `first_slot` on
    first_unsent: int  # first call of the queue, or NOTHING
    last_unsent: int  # last call of the queue, undefined while `first_unsent` is NOTHING


class Call(RpcCall):
    """One RPC, or after the loss of a switch a query to the PS about the outcome of a push."""

    level: int  # which home of its PS it passes, if PSs have one at each of two levels; otherwise 0
    count: int  # number of lanes
    live: int  # bitmap of the lanes with a key
    hashed: int  # bitmap of the lanes whose keys are in their hash lanes, for the switch to serve
    refusals: int
    next: int  # the following call in a chain or in the queue
    queried_seq: int  # `seq` of the push whose outcome the call queries, or 0
    queried_epoch: int  # epoch of that push
    key_at: Annotated[NDArray[np.int32], LANES]  # index of the key in each live lane


class Bucket:
    """Keys that wait for a lane, linked by `next_key`: hot keys of a lane, or cold keys of a PS."""

    first: int
    n_keys: int
    n_calls: int  # number of RPCs for the PS
    n_free_lanes: int  # number of lanes that the keys leave free in these RPCs


class Chain:
    head: int  # first call of a linked list of calls for one PS
    last_calls: Annotated[Ints, LANES]  # last call that uses each lane


class RefusalGroup:
    """Keys of a dim with equally many refusals, linked by `next_key`, and when they are sent again (ns)."""

    refusals: int  # 0 for keys that only a PS of another share has refused
    dim: int
    due: int
    first: int
    last: int


CALL = dtype_of(Call)


class Calls(NamedTuple):
    """A worker's calls for one job (`WindowState`, `RpcsState`, `OperandState`), of up to B keys each."""

    header: CallsHeader
    slots: Records[Slot]
    sent: Records[Rpc]
    free: Ints
    homes: Ints  # int64[levels * n_ps]: home of each PS, of all PSs at one level after the other
    windows: Records[HomeWindow]  # [homes]
    resends: Ints
    calls: Records[Call]  # [B + 1]
    spare_calls: Ints  # int64[B + 1]: indexes of the unused calls, a stack
    buckets: Records[Bucket]  # [LANES + n_ps]: hot keys by lane, then cold keys by PS
    order: Ints  # int64[LANES]: lanes in descending order of their buckets' sizes
    chains: Records[Chain]  # [levels * n_ps]
    keys: NDArray[np.uint64]  # uint64[B]: keys of the operation
    positions: Ints
    ranges: Records[KeyRange]
    row_starts: Ints
    deltas: Words
    values: Words
    answered: NDArray[np.bool_]
    in_flight: Ints
    served: NDArray[np.bool_]  # bool[B]: whether the switch served each key
    replay_log: Ints
    """The words of the replay log (`hosts.replay`), or [0]."""
    hinted: Octets
    """uint8[rows / 8 + 1]: a bit for each position, set if its key goes to its hash lane."""
    upper: Octets
    """Likewise, set if the key goes to the home at level 1. Empty if there is one level."""
    space: NDArray[np.uint64]
    groups: Records[RefusalGroup]  # [B], of which the first `header.n_groups` are in use, oldest first
    next_key: NDArray[np.int32]  # int32[B]: next key of the same group or bucket
    log: Records[RpcRow]


def make_calls(
    caller: Caller,
    n_ps: int,
    space: KeySpace,
    max_keys: int,
    window: int = WINDOW,
    *,
    uses_registers: bool = False,
    replay_log: Ints | None = None,
    servers_own_parameters: bool = False,
    levels: int = 1,
) -> Calls:
    header = one_record(CallsHeader)
    header.n_ps, header.uses_registers, header.has_replay_log = n_ps, uses_registers, replay_log is not None
    header.servers_own_parameters = servers_own_parameters
    header.max_lane_bits = header.max_hot_lane_bits = LANE_BITS
    header.n_rows = space.size
    set_dims(header, space)
    header.n_spare_calls = max_keys + 1
    arrays = open_calls(header, caller, max_keys, window, dim=max(space.dims))
    return Calls(
        header=header,
        homes=np.zeros(levels * n_ps, np.int64),
        windows=split_window(header, arrays["free"], [0]),
        calls=records(max_keys + 1, Call),
        spare_calls=np.arange(max_keys + 1)[::-1].copy(),
        buckets=records(LANES + n_ps, Bucket),
        order=np.zeros(LANES, np.int64),
        chains=records(levels * n_ps, Chain),
        upper=np.zeros(0 if levels == 1 else space.size // 8 + 1, np.uint8),
        keys=np.zeros(max_keys, np.uint64),
        in_flight=np.zeros(WINDOW + 1, np.int64),
        served=np.zeros(max_keys, np.bool_),
        replay_log=np.zeros(0, np.int64) if replay_log is None else replay_log,
        hinted=np.zeros(1 if uses_registers else space.size // 8 + 1, np.uint8),
        space=space_of(space.sparse),
        groups=records(max_keys, RefusalGroup),
        next_key=np.zeros(max_keys, np.int32),
        ranges=key_ranges(space),
        row_starts=np.zeros(max_keys + 1, np.int64),
        **arrays,
    )


def split_window(header: CallsHeader, free: Ints, levels: Sequence[int]) -> Records[HomeWindow]:
    """Share out the slots of an idle worker's window among homes, given the level of each."""
    homes = len(levels)
    if header.window < homes:
        raise ValueError(f"window: expected at least {homes} slots, one for each home, got {header.window}")
    windows = records(homes, HomeWindow)
    windows.level = levels
    windows.epoch, windows.first_unsent = header.epoch, NOTHING
    firsts = np.arange(homes + 1) * header.window // homes
    windows.first_slot, windows.n_slots = firsts[:-1], np.diff(firsts)
    windows.n_free = windows.n_slots
    for window in windows:
        slots = np.arange(window.first_slot, window.first_slot + window.n_slots)
        free[slots] = WINDOW + slots[::-1]
    # Of the worker's numbers, those of the smallest part may be used up first.
    header.issue_limit = int(windows.n_slots.min()) * MAX_TURN - RESERVED_NUMBERS
    return windows


@compiled
def refill_window(free: Ints, window: HomeWindow) -> None:
    """Make all slots of a part free, in turn 1 of an epoch, with its first slot on top of the stack."""
    for k in range(window.n_slots):
        free[window.first_slot + k] = WINDOW + window.first_slot + window.n_slots - 1 - k
    window.n_free = window.n_slots


@compiled
def pack_dim(state: Calls, dim: int) -> None:
    """Pack rows of this dim from now on."""
    header, lanes, bits = state.header, MAX_VALUES // max(dim, QUAD), 0
    while 2 << bits <= lanes:
        bits += 1
    # Fewer lanes than the program has are fewer for rows of every dim.
    header.packed_dim = dim
    header.lane_bits = max(bits - (LANE_BITS - header.max_lane_bits), 0)
    header.hot_lane_bits = max(bits - (LANE_BITS - header.max_hot_lane_bits), 0)


@compiled
def hash_lane(state: Calls, i: int) -> int:
    """Return the lane in which the switch serves key `i`, whose row has the dim that is packed now."""
    return lane_of(state.keys[i]) >> LANE_BITS - state.header.hot_lane_bits


@compiled
def is_hinted(state: Calls, position: int) -> bool:
    return bool(int64(state.hinted[position >> 3]) >> (position & 7) & 1)


@compiled
def hint(state: Calls, position: int, is_hot: bool) -> None:
    bit = 1 << (position & 7)
    state.hinted[position >> 3] = int64(state.hinted[position >> 3]) & ~bit | (bit if is_hot else 0)


@compiled
def level_of(state: Calls, position: int) -> int:
    """Return the level of the home that a hinted key goes to."""
    if len(state.upper) == 0:
        return 0
    return int64(state.upper[position >> 3]) >> (position & 7) & 1


@compiled
def set_level(state: Calls, position: int, level: int) -> None:
    if len(state.upper):
        bit = 1 << (position & 7)
        state.upper[position >> 3] = int64(state.upper[position >> 3]) & ~bit | (bit if level else 0)


@compiled
def new_call(state: Calls, ps: int, level: int, refusals: int) -> int:
    header = state.header
    header.n_spare_calls -= 1
    c = int64(state.spare_calls[header.n_spare_calls])
    call = state.calls[c]
    call.ps, call.count, call.live, call.hashed, call.refusals, call.next = ps, 0, 0, 0, refusals, NOTHING
    call.dim, call.queried_seq = header.packed_dim, 0
    call.level, call.home_bits = level, header.home_bits | level << PS_BITS
    return c


@compiled
def drop_call(state: Calls, c: int) -> None:
    state.spare_calls[state.header.n_spare_calls] = c
    state.header.n_spare_calls += 1


@compiled
def place_key(state: Calls, i: int, c: int, lane: int) -> None:
    call = state.calls[c]
    call.key_at[lane] = i
    call.live |= 1 << lane
    call.count = max(call.count, lane + 1)


@compiled
def queue_call(state: Calls, c: int) -> None:
    window = state.windows[home_of(state, c)]
    state.calls[c].next = NOTHING
    if window.first_unsent == NOTHING:
        window.first_unsent = c
    else:
        state.calls[window.last_unsent].next = c
    window.last_unsent = c
    state.header.n_unsent += 1
    state.header.n_calls += 1


@compiled
def home_of(state: Calls, c: int) -> int:
    """Return the home of the PS to which a call is addressed, at its level."""
    call = state.calls[c]
    return int64(state.homes[call.level * state.header.n_ps + call.ps])


@compiled
def home_to_send(state: Calls) -> int:
    """Return the next home with a call that waits and a slot that is free, or NOTHING.

    Calls of one home are sent one after another: a server that gets them in bursts wakes up less often.
    """
    n_homes = len(state.windows)
    for turn in range(n_homes):
        home = (state.header.next_home + turn) % n_homes
        window = state.windows[home]
        if window.first_unsent != NOTHING and window.n_free:
            return home
    return NOTHING


@compiled
def take_slot(state: Calls, home: int, now: int) -> int:
    """Take a free slot for the call of a home that has waited longest; return its index. Both must exist."""
    header, window = state.header, state.windows[home]
    c = window.first_unsent
    window.first_unsent = state.calls[c].next
    window.n_free -= 1
    header.n_free -= 1
    header.n_unsent -= 1
    header.next_home = home
    return occupy_slot(state, int64(state.free[window.first_slot + window.n_free]), c, now)


@compiled
def free_slot(state: Calls, slot: Slot) -> None:
    """Free a slot, whose answer has been noted, for its next turn, if the wire has a number for that."""
    vacate_slot(state, slot)
    if slot.seq <= LAST_SEQ:
        window = state.windows[home_of(state, slot.call)]
        state.free[window.first_slot + window.n_free] = slot.seq + WINDOW
        window.n_free += 1
        state.header.n_free += 1
