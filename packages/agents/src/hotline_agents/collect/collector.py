"""Collect gradients from the switch, apply them, and publish the new values: three RPCs for up to 32 keys.

A pull reads the sums v of lanes, a push adds -v exactly once, the optimiser is applied to the lanes whose -v
is acknowledged, and a SET publishes their values. Each collection has a slot of its own, so a key has at most
one SET outstanding. A durable PS journals a pull before sending it, since answers do not repeat keys.

The wire has 26 bits for a slot's turn, and the switch accepts no turn twice in an epoch: a slot with fewer
turns left than a collection takes is used no more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import MAX_U32
from foundation.protocol.header import (
    COLLECTOR_BASE,
    HEADER_BYTES,
    KEY_BYTES,
    KEYS,
    LANES,
    RESPONSE,
    SET,
    SLOT_MASK,
    VALUE_BYTES,
    VALUES,
    WINDOW,
    Header,
)
from foundation.protocol.rpc import (
    BUFFER_BYTES,
    NO_KEY_U64,
    PULL,
    PUSH,
    Request,
    Rpc,
    decode,
    encode,
    is_well_formed,
)
from hotline_agents.collect.schedule import (
    RPCS_PER_COLLECTION,
    adapt_pace,
    count_age,
    delay_next_collection,
    first_due_time,
    first_due_time_of,
    first_queue,
    group_of,
    interval,
    push_entry,
    row_at,
    take_due_key,
)
from hotline_agents.collect.state import (
    CHANGED,
    COLLECTIONS,
    IDLE,
    PUBLISHING,
    QUEUED,
    READING,
    SUBTRACTING,
    Collection,
    Collector,
    CollectServer,
)
from hotline_agents.interface import NEVER, NOTHING
from hotline_agents.ps.journal import append_note
from hotline_agents.ps.rpcs import find_job
from hotline_agents.ps.share import HEAD_CELLS, locate
from hotline_agents.ps.values import NOT_OWNED, UPDATE_COUNT_MASK, push
from nativekit.bits import popcount, swap32, swap64
from nativekit.compile import compiled, int64
from nativekit.records import Words

LAST_SEQ = MAX_U32 - (RPCS_PER_COLLECTION - 1) * WINDOW
"""Last sequence number with which a collection may begin: it takes as many turns as RPCs."""
_TIMEOUT_NS, _MAX_TIMEOUT_NS = 20_000_000, 320_000_000
_RATE_WEIGHT = 0.5  # weight of the newest rate of change in the moving average `Copy.change`


@compiled
def wake(server: CollectServer, now: int) -> None:
    if now < server.header.due:
        return
    for s in range(len(server.collections)):
        collection = server.collections[s]
        is_sent = collection.phase != IDLE and collection.sent_time != 0
        if is_sent and now >= collection.sent_time + collection.timeout:
            collection.sent_time = 0  # `transmit` sends it again
            collection.timeout = min(2 * collection.timeout, _MAX_TIMEOUT_NS)
    for j in range(len(server.jobs)):
        while may_begin_collection(server, j, now):
            begin_collection(server, j, now)
    server.header.due = next_due_time(server)


@compiled
def may_begin_collection(server: CollectServer, j: int, now: int) -> bool:
    collector = server.collectors[j]
    has_switch = collector.epoch != 0  # the first RENEW sets the epoch
    if collector.hold_reasons or not has_switch or not has_free_slot(collector):
        return False
    if collector.next_start > now and collector.n_wanted == 0:
        return False
    return first_due_time(server, j) <= now


@compiled
def has_free_slot(collector: Collector) -> bool:
    return bool(collector.n_in_flight + collector.n_used_up < COLLECTIONS)


@compiled
def is_used_up(collection: Collection) -> bool:
    return bool(collection.seq > LAST_SEQ)


@compiled
def next_due_time(server: CollectServer) -> int:
    due = NEVER
    for s in range(len(server.collections)):
        collection = server.collections[s]
        if collection.phase != IDLE:
            sent_time = collection.sent_time
            due = min(due, sent_time + collection.timeout if sent_time else 0)  # 0: send at once
    for j in range(len(server.jobs)):
        collector = server.collectors[j]
        if not collector.hold_reasons and collector.epoch and has_free_slot(collector):
            begin_at = 0 if collector.n_wanted else collector.next_start
            due = min(due, max(first_due_time(server, j), begin_at))
    return due


@compiled
def begin_collection(server: CollectServer, j: int, now: int) -> None:
    """Begin a collection of due keys, whose rows have the dim of the first one; a slot must be free."""
    collector, s = server.collectors[j], j * COLLECTIONS
    while server.collections[s].phase != IDLE or is_used_up(server.collections[s]):
        s += 1
    collection, due = server.collections[s], first_due_time(server, j)
    lateness, group = now - due, int64(0)
    while first_due_time_of(server, j, group) > due:
        group += 1
    collection.group, collection.count, collection.live, last_lane = group, 0, 0, int64(NOTHING)
    for lane in range(LANES):
        if take_due_key(server, j, lane, now, collection):
            collection.live |= 1 << lane
            collection.count, last_lane = lane + 1, lane
    if last_lane == NOTHING:
        return
    adapt_pace(collector, lateness, float(server.copies[j, collection.places[last_lane]].change))
    delay_next_collection(server, j, now)
    collector.n_in_flight += 1
    prepare_rpc(server, s, READING, collection.live)
    if server.header.is_durable:
        append_note(server, server.requests[s], collection.length)


@compiled
def prepare_rpc(server: CollectServer, s: int, phase: int, live: int) -> None:
    collection, rpc = server.collections[s], server.requests[s]
    j, count = collection.job, collection.count
    collection.phase, collection.sent_time, collection.timeout = phase, 0, _TIMEOUT_NS
    server.header.due = 0
    op = PULL if phase == READING else PUSH
    flags = KEYS if phase == READING else KEYS | VALUES | (SET if phase == PUBLISHING else 0)
    ps, job, epoch = server.header.ps, server.jobs[j].job, server.collectors[j].epoch
    dim = dim_of(server, collection)
    request = Request(
        op=op, flags=flags, job=job, worker=COLLECTOR_BASE + ps, epoch=epoch, ps=ps, count=count, dim=dim,
        seq=collection.seq, iteration=0, live=live, t0=0,
    )  # fmt: skip
    encode(rpc, request)
    for lane in range(count):
        is_live = live >> lane & 1
        rpc.keys[lane] = swap64(collection.keys[lane]) if is_live else NO_KEY_U64
        if op == PUSH:
            write_row(server, s, lane, phase, is_live)
    collection.length = HEADER_BYTES + count * (KEY_BYTES if op == PULL else KEY_BYTES + VALUE_BYTES * dim)


@compiled
def write_row(server: CollectServer, s: int, lane: int, phase: int, is_live: int) -> None:
    """Write the row that a collection's push subtracts or publishes; zeros in a lane that is not live."""
    collection, rpc = server.collections[s], server.requests[s]
    dim = dim_of(server, collection)
    source = row_at(server, int64(collection.places[lane])) + HEAD_CELLS
    target = 2 * collection.count + lane * dim  # after `count` keys of two words
    for v in range(dim):
        word = 0
        if is_live and phase == SUBTRACTING:
            word = -int64(collection.sums[lane * dim + v])
        elif is_live:
            word = int64(server.cells[collection.job, source + v].word)
        rpc.words[target + v] = swap32(word)


@compiled
def dim_of(server: CollectServer, collection: Collection) -> int:
    """Return the number of values of each row of a collection."""
    return int64(server.dims[collection.group])


@compiled
def transmit(server: CollectServer, now: int) -> int:
    for s in range(len(server.collections)):
        collection = server.collections[s]
        if collection.phase != IDLE and collection.sent_time == 0:
            collection.sent_time = max(now, 1)  # 0 means unsent
            server.header.due = next_due_time(server)
            return s
    return NOTHING


@compiled
def address(server: CollectServer, s: int) -> int:
    return int64(server.requests.ctypes.data) + s * BUFFER_BYTES


@compiled
def octets(server: CollectServer, s: int) -> int:
    return server.collections[s].length


@compiled
def peer(server: CollectServer, _slot: int) -> int:
    """Return this PS's number: its RPCs are addressed to its own service."""
    return server.header.ps


@compiled
def receive(server: CollectServer, rpc: Rpc, h: Header, length: int, now: int) -> None:
    header = server.header
    if not is_well_formed(h, length):
        header.malformed += 1
        return
    j, slot = find_job(server, h.job), h.seq & SLOT_MASK
    if j < 0 or slot >= COLLECTIONS or h.epoch != server.collectors[j].epoch:
        header.misdirected += 1
        return
    s = j * COLLECTIONS + slot
    collection = server.collections[s]
    if header.is_restoring and not h.flags & RESPONSE:
        restore_request(server, s, rpc, h)
        return
    op = PULL if collection.phase == READING else PUSH
    is_expected = h.seq == collection.seq and h.op == op and h.dim == dim_of(server, collection)
    if collection.phase == IDLE or not is_expected or not h.flags & RESPONSE:
        header.misdirected += 1
        return
    if header.is_durable:
        append_note(server, rpc, length)
    server.collectors[j].rpcs += 1
    collection.seq += WINDOW  # the next turn of the same slot
    if collection.phase == READING:
        end_reading(server, s, rpc, h, now)
    elif collection.phase == SUBTRACTING:
        end_subtracting(server, s, h, now)
    else:
        end_publishing(server, s, h, now)


@compiled
def restore_request(server: CollectServer, s: int, rpc: Rpc, h: Header) -> None:
    collection = server.collections[s]
    collection.seq, collection.count, collection.live = h.seq, h.count, h.live
    collection.group = group_of(server, h.dim)
    for lane in range(h.count):
        key = swap64(rpc.keys[lane])
        collection.keys[lane] = key
        collection.places[lane] = locate(server.share, key)
    server.collectors[collection.job].n_in_flight += 1
    prepare_rpc(server, s, READING, h.live)


@compiled
def end_reading(server: CollectServer, s: int, rpc: Rpc, h: Header, now: int) -> None:
    collection = server.collections[s]
    j, live, nonzero_lanes, changed_lanes = collection.job, collection.live, int64(0), int64(0)
    collection.read_time = now
    for lane in range(collection.count):
        if live >> lane & 1 and h.served >> lane & 1:
            if read_sums(collection, rpc, lane, h.dim):
                nonzero_lanes |= 1 << lane
            elif int64(server.copies[j, collection.places[lane]].marks) & CHANGED:
                changed_lanes |= 1 << lane
            else:
                copy = server.copies[j, collection.places[lane]]
                copy.change *= 1 - _RATE_WEIGHT
                record_read_time(server, collection, lane)
    server.collectors[j].n_empty += popcount(live & ~nonzero_lanes)
    server.collectors[j].n_collected += popcount(nonzero_lanes)
    if nonzero_lanes:
        prepare_rpc(server, s, SUBTRACTING, nonzero_lanes)
    elif changed_lanes:
        publish_lanes(server, s, changed_lanes)
    else:
        end_collection(server, s, now)


@compiled
def read_sums(collection: Collection, rpc: Rpc, lane: int, dim: int) -> bool:
    """Store the sums of a lane's row; return whether any is not 0."""
    bits = 0
    for v in range(lane * dim, (lane + 1) * dim):
        collection.sums[v] = swap32(rpc.words[v])
        bits |= int64(collection.sums[v])
    return bits != 0


@compiled
def end_subtracting(server: CollectServer, s: int, h: Header, now: int) -> None:
    collection = server.collections[s]
    j, lanes = collection.job, h.live & h.served
    apply_sums(server, j, s, lanes, now)
    for lane in range(collection.count):
        was_not_subtracted = collection.live & ~h.live & 1 << lane
        if was_not_subtracted and int64(server.copies[j, collection.places[lane]].marks) & CHANGED:
            lanes |= 1 << lane
    if lanes:
        publish_lanes(server, s, lanes)
    else:
        end_collection(server, s, now)


@compiled
def publish_lanes(server: CollectServer, s: int, lanes: int) -> None:
    collection = server.collections[s]
    for lane in range(collection.count):
        if lanes >> lane & 1:
            copy = server.copies[collection.job, collection.places[lane]]
            copy.marks = int64(copy.marks) & ~CHANGED
    prepare_rpc(server, s, PUBLISHING, lanes)


@compiled
def end_publishing(server: CollectServer, s: int, h: Header, now: int) -> None:
    collection = server.collections[s]
    j = collection.job
    for lane in range(collection.count):
        if h.live & h.served & 1 << lane:
            read_time = int64(server.copies[j, collection.places[lane]].read_time)
            if read_time and now:  # `now` is 0 in a replay of the journal
                count_age(server, j, now - read_time)
            record_read_time(server, collection, lane)
    end_collection(server, s, now)


@compiled
def record_read_time(server: CollectServer, collection: Collection, lane: int) -> None:
    collector = server.collectors[collection.job]
    copy = server.copies[collection.job, collection.places[lane]]
    if collector.n_wanted and copy.read_time < collector.wanted_before <= collection.read_time:
        collector.n_wanted -= 1
    copy.read_time = collection.read_time


@compiled
def end_collection(server: CollectServer, s: int, now: int) -> None:
    collection = server.collections[s]
    j = collection.job
    collector = server.collectors[j]
    live = int64(0) if server.header.is_restoring else collection.live
    for lane in range(collection.count):
        if live >> lane & 1:
            place = int64(collection.places[lane])
            copy = server.copies[j, place]
            if server.cells[j, row_at(server, place)].word < NOT_OWNED:
                copy.marks = int64(copy.marks) & ~QUEUED
            else:
                is_wanted = collector.n_wanted and copy.read_time < collector.wanted_before
                due = 0 if is_wanted else now + interval(collector, float(copy.change))
                q = first_queue(server, j, collection.group) + lane
                push_entry(server, q, due, place, collection.keys[lane])
    collection.phase = IDLE
    collector.n_in_flight -= 1
    collector.n_used_up += is_used_up(collection)
    server.header.due = 0


@compiled
def apply_sums(server: CollectServer, j: int, s: int, lanes: int, now: int) -> None:
    collection = server.collections[s]
    count, step = collection.count, server.collectors[j].step
    dim = dim_of(server, collection)
    for lane in range(count):
        if lanes >> lane & 1:
            place = int64(collection.places[lane])
            row = row_at(server, place)
            for v in range(dim):
                collection.previous_values[lane * dim + v] = server.cells[j, row + HEAD_CELLS + v].number
                server.collected[j, row + HEAD_CELLS + v] += collection.sums[lane * dim + v]
            copy = server.copies[j, place]
            copy.n_collections += 1
            # Adam's step is at least the number of gradients of each key.
            updates = int64(server.cells[j, row].word) & UPDATE_COUNT_MASK
            step = max(step, updates + int64(copy.n_collections))
    apply_words(server, j, dim, collection.keys, collection.sums, count, lanes, step)
    for lane in range(count):
        if lanes >> lane & 1:
            copy = server.copies[j, collection.places[lane]]
            if 0 < copy.read_time < now:  # `now` is 0 in a replay of the journal
                rate = absolute_change(server, collection, lane) / ((now - int64(copy.read_time)) / 1e9)
                copy.change = np.float32((1 - _RATE_WEIGHT) * copy.change + _RATE_WEIGHT * rate)


@compiled
def absolute_change(server: CollectServer, collection: Collection, lane: int) -> float:
    """Return the largest change of a lane's values; NaN counts as 0."""
    dim, change = dim_of(server, collection), 0.0
    values = row_at(server, int64(collection.places[lane])) + HEAD_CELLS
    for v in range(dim):
        if len(server.rules) == 0:
            units = int64(collection.sums[lane * dim + v])
            change = max(change, float(min(units, 2**32 - units)))  # of a sum in two's complement
        else:
            value = float(server.cells[collection.job, values + v].number)
            difference = abs(value - float(collection.previous_values[lane * dim + v]))
            if difference > change:
                change = difference
    return change


@compiled
def apply_words(
    server: CollectServer, j: int, dim: int, keys: NDArray[np.uint64], words: Words, count: int, lanes: int,
    step: int,
) -> None:  # fmt: skip
    """Apply rows of `dim` gradients to keys of this PS, also in the switch; count no update again."""
    rpc = server.requests[len(server.requests) - 1]  # the scratch RPC
    job, ps = server.jobs[j].job, server.header.ps
    request = Request(
        op=PUSH, flags=KEYS | VALUES, job=job, worker=COLLECTOR_BASE + ps, epoch=0, ps=ps, count=count,
        dim=dim, seq=0, iteration=max(step - 1, 0), live=lanes, t0=0,
    )  # fmt: skip
    encode(rpc, request)
    lanes_in_switch = 0
    for lane in range(count):
        if lanes >> lane & 1:
            rpc.keys[lane] = swap64(keys[lane])
            for v in range(dim):
                rpc.words[2 * count + lane * dim + v] = swap32(int64(words[lane * dim + v]))
            head = server.cells[j, row_at(server, locate(server.share, keys[lane]))]
            if head.word >= NOT_OWNED:  # `push` applies gradients only to keys that this PS owns
                head.word &= UPDATE_COUNT_MASK
                lanes_in_switch |= 1 << lane
    applied_lanes = push(server, j, decode(rpc), rpc)
    # The switch has counted these updates.
    server.jobs[j].applied_lanes -= popcount(applied_lanes)
    for lane in range(count):
        if applied_lanes >> lane & 1:
            head = server.cells[j, row_at(server, locate(server.share, keys[lane]))]
            # `push` has counted the update, mod 2^31.
            updates = int64(head.word) - 1 & UPDATE_COUNT_MASK
            head.word = updates | (NOT_OWNED if lanes_in_switch >> lane & 1 else 0)
