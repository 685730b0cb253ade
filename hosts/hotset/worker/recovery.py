"""What a worker does when the switch is gone: it keeps what the switch acknowledges, and pushes it again.

A switch that restarts has neither values nor turns. Its callers come back with another epoch, so that no late
copy of an earlier RPC is taken for a new one. An RPC that was not answered may have been lost with the
switch, or have reached its PS: of a push the PS is asked which lanes it has added (`hosts.hotset.ps.rpc`),
and the others are pushed again.

The log is a sum for each key, as all that was acknowledged is pushed again: a PS gives up, at the same time,
all that it ever got back from the switch (`hosts.hotset.ps.store.Store.restore`). So it is bounded by the
parameters, a collect has nothing to tell the workers, and what was acknowledged in one generation of a hot
set need not be told from the next.
"""

from __future__ import annotations

from foundation.protocol.header import WINDOW, Header
from foundation.protocol.rpc import ALL, PUSH
from hosts.hotset.worker.calls import queue_call
from hosts.hotset.worker.refusals import refuse
from hosts.hotset.worker.state import Call, Calls
from hosts.worker.replay import HELD, UNREPLAYED
from nativekit.bits import popcount
from nativekit.compile import compiled, int64


@compiled
def keep(state: Calls, i: int) -> None:
    """The switch has acknowledged the delta of key `i`."""
    at = int64(state.positions[i])
    state.replay_log[HELD, at] = int64(state.replay_log[HELD, at]) + int64(state.deltas[i]) & ALL


@compiled
def renew(state: Calls, epoch: int) -> None:
    """Come back with another epoch, as the switch has: what is not answered is asked about, or called
    again."""
    header = state.header
    before, header.epoch = int64(header.epoch), epoch
    if header.has_replay_log:
        for at in range(state.replay_log.shape[1]):
            state.replay_log[UNREPLAYED, at] = (
                int64(state.replay_log[UNREPLAYED, at]) + int64(state.replay_log[HELD, at]) & ALL
            )
            state.replay_log[HELD, at] = 0
        header.unreplayed = 1
    header.resends = header.queued_resends = header.free = 0
    for s in range(int64(header.window)):
        slot = state.slots[s]
        if slot.busy:
            call = state.calls[slot.call]
            if header.op == PUSH and not call.asked:
                call.asked, call.asked_epoch = slot.seq, before
            queue_call(state, int64(slot.call))
            slot.busy = 0
        slot.queued = 0
        state.free[header.free] = WINDOW + header.window - 1 - s
        header.free += 1


@compiled
def take_back(state: Calls, call: Call, h: Header, now: int) -> None:
    """Its PS has told which lanes of a push it has added; the others are free to be pushed again."""
    added = int64(call.live) & ~h.refused
    for lane in range(int64(call.count)):
        if int64(call.live) >> lane & 1:
            i = int64(call.key_at[lane])
            if added >> lane & 1:
                state.answered[i] = True
                state.served[i] = False
            else:
                refuse(state, i, int64(call.refusals), now)
    state.header.pending -= popcount(added)


@compiled
def next_unreplayed(state: Calls) -> int:
    """Make an operation's positions and deltas of the next part of what is owed; returns how many keys."""
    header, n, at = state.header, int64(0), int64(state.header.unreplayed) - 1
    while at < state.replay_log.shape[1] and n < len(state.keys):
        if state.replay_log[UNREPLAYED, at]:
            state.positions[n], state.deltas[n] = at, state.replay_log[UNREPLAYED, at]
            n += 1
        at += 1
    header.unreplayed = at + 1 if at < state.replay_log.shape[1] else 0
    return n


@compiled
def take_unreplayed(state: Calls, n: int) -> None:
    """The next part, of n keys, is no longer owed: it is to be pushed now."""
    for i in range(n):
        state.replay_log[UNREPLAYED, state.positions[i]] = 0
