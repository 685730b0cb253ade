"""Read sums of gradients in the switch, apply them, and publish the new values.

A pull reads the sums of up to 32 rows, and the server applies what was pushed since the last read. A SET
publishes up to 32 rows that have changed, which several reads may have found. A row is in one of four places:
it waits for being read, is being read, waits for being published, or is being published. So it has at most
one SET outstanding, and its sums are read one after the other.

The switch's sums are cleared, by a push of their negation, only before they could overflow. A durable PS
journals a pull or SET before sending it, since it depends on the time, and answers do not repeat keys.

The wire has 26 bits for a slot's turn, and the switch accepts no turn twice in an epoch: a slot with fewer
turns left than reading and clearing take is used no more.
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
from hotline_agents.collect.exchanges import (
    complete_until,
    exchange_of,
    first_exchange,
    mark_changed,
    number_at,
)
from hotline_agents.collect.prefetch import prefetch_first_rows, prefetch_rows
from hotline_agents.collect.schedule import (
    adapt_pace,
    count_age,
    delay_next_rpc,
    first_due_time,
    first_publish_queue,
    first_queue,
    group_of,
    interval,
    on_grid,
    publish_delay,
    publish_due_time,
    push_entry,
    read_due_time,
    row_at,
    take_row,
)
from hotline_agents.collect.state import (
    CHANGED,
    COLLECTIONS,
    GIVEN,
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

LAST_SEQ = MAX_U32 - WINDOW
"""Last sequence number with which a slot may begin: reading and clearing take two turns."""
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
    for e in range(len(server.collectors)):
        while may_begin_rpc(server, e, now):
            begin_rpc(server, e, now)
    server.header.due = next_due_time(server)


@compiled
def may_begin_rpc(server: CollectServer, e: int, now: int) -> bool:
    collector = server.collectors[e]
    has_switch = collector.epoch != 0  # the first RENEW sets the epoch
    if collector.hold_reasons or not has_switch or not has_free_slot(collector):
        return False
    if collector.next_start > now and collector.n_wanted == 0:
        return False
    return first_due_time(server, e) <= now


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
    for e in range(len(server.collectors)):
        collector = server.collectors[e]
        if not collector.hold_reasons and collector.epoch and has_free_slot(collector):
            begin_at = 0 if collector.n_wanted else collector.next_start
            due = min(due, max(first_due_time(server, e), begin_at))
    return due


@compiled
def begin_rpc(server: CollectServer, e: int, now: int) -> None:
    """Begin to publish or read rows that are due, all of one dim; a slot must be free."""
    s = e * COLLECTIONS
    while server.collections[s].phase != IDLE or is_used_up(server.collections[s]):
        s += 1
    for group in range(len(server.dims)):
        if publish_due_time(server, e, group) <= now:
            begin_publishing(server, s, group, now)
            return
    group, due = int64(0), first_due_time(server, e)
    while read_due_time(server, e, group) > due:
        group += 1
    begin_reading(server, s, group, now, now - due)


@compiled
def begin_publishing(server: CollectServer, s: int, group: int, now: int) -> None:
    collection = server.collections[s]
    if not take_rows(server, s, group, first_publish_queue(server, collection.exchange, group), now, False):
        return
    begin_slot(server, s, PUBLISHING, now)


@compiled
def begin_reading(server: CollectServer, s: int, group: int, now: int, lateness: int) -> None:
    collection = server.collections[s]
    if not take_rows(server, s, group, first_queue(server, collection.exchange, group), now, True):
        return
    last_place = collection.places[collection.count - 1]
    change = float(server.copies[collection.exchange, last_place].change)
    adapt_pace(server.collectors[collection.exchange], lateness, change)
    begin_slot(server, s, READING, now)


@compiled
def take_rows(server: CollectServer, s: int, group: int, first: int, now: int, is_read: bool) -> bool:
    """Fill the lanes of a slot from the queues that begin at `first`; return whether there are any rows."""
    collection = server.collections[s]
    collection.group, collection.count, collection.live = group, 0, 0
    prefetch_first_rows(server, collection, group, first)
    for lane in range(LANES):
        if take_row(server, first + lane, now, is_read, lane, collection):
            collection.live |= 1 << lane
            collection.count = lane + 1
    return bool(collection.live)


@compiled
def begin_slot(server: CollectServer, s: int, phase: int, now: int) -> None:
    collection = server.collections[s]
    delay_next_rpc(server, collection, now)
    enter_slot(server, s, phase)
    if server.header.is_durable:
        append_note(server, server.requests[s], collection.length)


@compiled
def enter_slot(server: CollectServer, s: int, phase: int) -> None:
    """Prepare the first RPC of a slot, which has rows in its lanes."""
    collection = server.collections[s]
    if phase == PUBLISHING:
        for lane in range(collection.count):
            if collection.live >> lane & 1:
                place = int64(collection.places[lane])
                copy = server.copies[collection.exchange, place]
                copy.marks = int64(copy.marks) & ~CHANGED
                copy.next_complete_until = complete_until(server, collection.exchange, place)
    server.collectors[collection.exchange].n_in_flight += 1
    prepare_rpc(server, s, phase, collection.live)


@compiled
def prepare_rpc(server: CollectServer, s: int, phase: int, live: int) -> None:
    collection, rpc = server.collections[s], server.requests[s]
    count = collection.count
    collection.phase, collection.sent_time, collection.timeout = phase, 0, _TIMEOUT_NS
    server.header.due = 0
    op = PULL if phase == READING else PUSH
    flags = KEYS if phase == READING else KEYS | VALUES | (SET if phase == PUBLISHING else 0)
    e, job = collection.exchange, server.jobs[collection.job].job
    ps, epoch = number_at(server, e), server.collectors[e].epoch
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
    """Write the row that a push subtracts or publishes; zeros in a lane that is not live."""
    collection, rpc = server.collections[s], server.requests[s]
    j, dim = collection.job, dim_of(server, collection)
    source = row_at(server, int64(collection.places[lane])) + HEAD_CELLS
    target = 2 * collection.count + lane * dim  # after `count` keys of two words
    for v in range(dim):
        word = 0
        if is_live and phase == SUBTRACTING:
            word = -int64(server.last_sums[collection.exchange, source + v])
        elif is_live:
            word = int64(server.cells[j, source + v].word)
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
    e = exchange_of(server, j, h.ps)
    if j < 0 or slot >= COLLECTIONS or h.epoch != server.collectors[e].epoch:
        header.misdirected += 1
        return
    s = e * COLLECTIONS + slot
    collection = server.collections[s]
    if header.is_restoring and not h.flags & RESPONSE:
        restore_request(server, s, rpc, h)
        return
    op = PULL if collection.phase == READING else PUSH
    is_expected = h.seq == collection.seq and h.op == op and h.dim == dim_of(server, collection)
    if collection.phase == IDLE or not is_expected or not h.flags & RESPONSE:
        header.misdirected += 1
        return
    prefetch_rows(server, collection)
    if header.is_durable:
        append_note(server, rpc, length)
    server.collectors[e].rpcs += 1
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
    enter_slot(server, s, READING if h.op == PULL else PUBLISHING)


@compiled
def end_reading(server: CollectServer, s: int, rpc: Rpc, h: Header, now: int) -> None:
    collection = server.collections[s]
    e, changed_lanes, large_lanes = collection.exchange, int64(0), int64(0)
    lanes = collection.live & h.served
    for lane in range(collection.count):
        if lanes >> lane & 1:
            if read_row(server, s, rpc, lane):
                changed_lanes |= 1 << lane
            if is_large(server, s, lane):
                large_lanes |= 1 << lane
    apply_gradients(server, s, changed_lanes, now)
    for lane in range(collection.count):
        if lanes >> lane & 1:
            copy = server.copies[e, collection.places[lane]]
            copy.last_read_time = now
            if changed_lanes >> lane & 1:
                mark_changed(server, collection.job, int64(collection.places[lane]))
            elif not int64(copy.marks) & CHANGED:
                copy.change *= 1 - _RATE_WEIGHT
                copy.complete_until = complete_until(server, e, int64(collection.places[lane]))
                record_read_time(server, collection, lane)
    server.collectors[e].n_changed += popcount(changed_lanes)
    server.collectors[e].n_unchanged += popcount(collection.live & ~changed_lanes)
    if large_lanes:
        prepare_rpc(server, s, SUBTRACTING, large_lanes)
    else:
        end_slot(server, s, now)


@compiled
def read_row(server: CollectServer, s: int, rpc: Rpc, lane: int) -> bool:
    """Store what a row's sums have grown by since the last read; return whether any has changed."""
    collection, bits = server.collections[s], 0
    dim = dim_of(server, collection)
    first_cell = row_at(server, int64(collection.places[lane])) + HEAD_CELLS
    for v in range(dim):
        total = swap32(rpc.words[lane * dim + v])
        growth = total - int64(server.last_sums[collection.exchange, first_cell + v]) & MAX_U32
        collection.gradients[lane * dim + v] = growth
        server.last_sums[collection.exchange, first_cell + v] = total
        bits |= growth
    return bits != 0


@compiled
def is_large(server: CollectServer, s: int, lane: int) -> bool:
    """Return whether a sum of a row has to be cleared, since it might overflow otherwise."""
    collection = server.collections[s]
    e = collection.exchange
    first_cell = row_at(server, int64(collection.places[lane])) + HEAD_CELLS
    for v in range(dim_of(server, collection)):
        if magnitude(int64(server.last_sums[e, first_cell + v])) >= server.collectors[e].max_sum:
            return True
    return False


@compiled
def magnitude(word: int) -> int:
    """Return the absolute value of a number in two's complement of 32 bits."""
    return min(word, 2**32 - word)


@compiled
def end_subtracting(server: CollectServer, s: int, h: Header, now: int) -> None:
    collection = server.collections[s]
    lanes, dim = h.live & h.served, dim_of(server, collection)
    for lane in range(collection.count):
        if lanes >> lane & 1:
            first_cell = row_at(server, int64(collection.places[lane])) + HEAD_CELLS
            server.last_sums[collection.exchange, first_cell : first_cell + dim] = 0
    end_slot(server, s, now)


@compiled
def end_publishing(server: CollectServer, s: int, h: Header, now: int) -> None:
    collection = server.collections[s]
    for lane in range(collection.count):
        if h.live & h.served & 1 << lane:
            copy = server.copies[collection.exchange, collection.places[lane]]
            if copy.read_time and copy.complete_until and now:  # `now` is 0 in a replay of the journal
                count_age(server, collection.exchange, now - copy.complete_until)
            copy.complete_until = copy.next_complete_until
            record_read_time(server, collection, lane)
    end_slot(server, s, now)


@compiled
def record_read_time(server: CollectServer, collection: Collection, lane: int) -> None:
    """Record that the published copy of a lane's row has all gradients of the row's last read."""
    collector = server.collectors[collection.exchange]
    copy = server.copies[collection.exchange, collection.places[lane]]
    if collector.n_wanted and copy.read_time < collector.wanted_before <= copy.last_read_time:
        collector.n_wanted -= 1
    copy.read_time = copy.last_read_time


@compiled
def end_slot(server: CollectServer, s: int, now: int) -> None:
    """Free a slot; its rows wait for being published if they have changed, and for being read if not."""
    collection = server.collections[s]
    e = collection.exchange
    collector = server.collectors[e]
    live = int64(0) if server.header.is_restoring else collection.live
    for lane in range(collection.count):
        if live >> lane & 1:
            place = int64(collection.places[lane])
            copy = server.copies[e, place]
            if not int64(copy.marks) & GIVEN:
                copy.marks = int64(copy.marks) & ~QUEUED
            elif int64(copy.marks) & CHANGED:
                due = 0 if collector.n_wanted else on_grid(collector, now + publish_delay(collector))
                q = first_publish_queue(server, e, collection.group) + lane
                push_entry(server, q, due, place, collection.keys[lane])
            else:
                is_wanted = collector.n_wanted and copy.read_time < collector.wanted_before
                due = copy.last_read_time + interval(collector, float(copy.change))
                due = 0 if is_wanted else on_grid(collector, due)
                q = first_queue(server, e, collection.group) + lane
                push_entry(server, q, due, place, collection.keys[lane])
    collection.phase = IDLE
    collector.n_in_flight -= 1
    collector.n_used_up += is_used_up(collection)
    server.header.due = 0


@compiled
def apply_gradients(server: CollectServer, s: int, lanes: int, now: int) -> None:
    """Apply the gradients that lanes of a read have found, and follow how fast their rows change."""
    collection = server.collections[s]
    j, e, count = collection.job, collection.exchange, collection.count
    first, dim = first_exchange(server, j), dim_of(server, collection)
    step = server.collectors[first].step
    for lane in range(count):
        if lanes >> lane & 1:
            place = int64(collection.places[lane])
            row = row_at(server, place)
            for v in range(dim):
                collection.previous_values[lane * dim + v] = server.cells[j, row + HEAD_CELLS + v].number
                server.collected[e, row + HEAD_CELLS + v] += collection.gradients[lane * dim + v]
            copy = server.copies[first, place]
            copy.n_collections += 1
            # Adam's step is at least the number of gradients of each key.
            updates = int64(server.cells[j, row].word) & UPDATE_COUNT_MASK
            step = max(step, updates + int64(copy.n_collections))
    apply_words(server, j, dim, collection.keys, collection.gradients, count, lanes, step)
    for lane in range(count):
        if lanes >> lane & 1:
            copy = server.copies[e, collection.places[lane]]
            if 0 < copy.last_read_time < now:  # `now` is 0 in a replay of the journal
                rate = absolute_change(server, collection, lane) / ((now - int64(copy.last_read_time)) / 1e9)
                copy.change = np.float32((1 - _RATE_WEIGHT) * copy.change + _RATE_WEIGHT * rate)


@compiled
def absolute_change(server: CollectServer, collection: Collection, lane: int) -> float:
    """Return the largest change of a lane's values; NaN counts as 0."""
    dim, change = dim_of(server, collection), 0.0
    values = row_at(server, int64(collection.places[lane])) + HEAD_CELLS
    for v in range(dim):
        if len(server.rules) == 0:
            change = max(change, float(magnitude(int64(collection.gradients[lane * dim + v]))))
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
