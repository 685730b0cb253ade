"""The schedule of reads and publications: queues, intervals by how fast a value changes, and a budget.

The cost of old copies is the sum of change · age over all keys. For a given number of collections the cost is
least if each key's interval is proportional to 1 / √change. The `pace` of an exchange is the factor: it grows
while reads are late, and shrinks while they are not. All intervals are below the bound of staleness.

A row that has changed waits for being published until an RPC is nearly full of such rows, or a sixteenth of
the bound has passed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.header import LANES, MAX_VALUES, QUAD
from foundation.protocol.rpc import Key
from hotline_agents.collect.state import AGES, GIVEN, QUEUED, Collection, Collector, CollectServer, QueueEntry
from hotline_agents.interface import NEVER
from nativekit.compile import compiled, int64
from nativekit.records import Ints

MIN_INTERVAL_NS = 1_000_000
_PACE_INCREASE, _PACE_DECREASE, _MAX_PACE = 1.05, 0.98, 1e18
_BURST_NS = 5_000_000  # length of the period whose budget may be spent in one burst
_RPCS_OF_BURST = 8  # begun together when the budget allows, since a server that sleeps wakes up once for all
_MAX_GRID_NS = 1_000_000
_DEFAULT_RPC_NS = 2_000  # assumed cost of an RPC of a job that has not had any
_KERNEL_NS_PER_RPC = 6_000
"""Assumed kernel time of an RPC that a server sends: a datagram sent and one received (measured values are in
`HostCosts` of the simulator). Waking up is excluded, because a busy server is awake. The server also encodes
the RPC and reads its answer, which costs as much as two requests."""
_LOG2_BINS_PER_OCTAVE = 3
_BINS_PER_OCTAVE = 1 << _LOG2_BINS_PER_OCTAVE


@compiled
def row_at(server: CollectServer, place: int) -> int:
    """Return the first cell of the row at a place."""
    ranges, k = server.share.ranges, len(server.share.ranges) - 1
    while k > 0 and place < ranges[k].first_place:
        k -= 1
    return ranges[k].first_cell + (place - ranges[k].first_place) * ranges[k].stride


@compiled
def place_of_cell(server: CollectServer, cell: int) -> int:
    """Return the place of the row that a cell is in."""
    ranges, k = server.share.ranges, len(server.share.ranges) - 1
    while k > 0 and cell < ranges[k].first_cell:
        k -= 1
    return ranges[k].first_place + (cell - ranges[k].first_cell) // ranges[k].stride


@compiled
def group_of(server: CollectServer, dim: int) -> int:
    """Return the index of a dim in `server.dims`, or -1."""
    for group in range(len(server.dims)):
        if server.dims[group] == dim:
            return group
    return -1


@compiled
def first_queue(server: CollectServer, e: int, group: int) -> int:
    """Return the queue of lane 0 for rows of one dim that wait for being read; other lanes' queues follow."""
    return (e * len(server.dims) + group) * LANES


@compiled
def first_publish_queue(server: CollectServer, e: int, group: int) -> int:
    """Return the queue of lane 0 for rows of one dim that wait for being published."""
    return len(server.queue_sizes) // 2 + first_queue(server, e, group)


@compiled
def push_entry(server: CollectServer, q: int, due: int, place: int, key: Key) -> None:
    n = int64(server.queue_sizes[q])
    server.queue_sizes[q] = n + 1
    while n > 0:
        parent = (n - 1) >> 1
        entry = server.queues[q, parent]
        if entry.due <= due:
            break
        copy_entry(server.queues[q, n], entry)
        n = parent
    entry = server.queues[q, n]
    entry.due, entry.place, entry.key = due, place, key


@compiled
def copy_entry(target: QueueEntry, entry: QueueEntry) -> None:
    target.due, target.place, target.key = entry.due, entry.place, entry.key


@compiled
def remove_first_entry(server: CollectServer, q: int) -> None:
    """Remove the key that is due first from queue `q`, which must not be empty."""
    n = int64(server.queue_sizes[q]) - 1
    server.queue_sizes[q] = n
    last, hole = server.queues[q, n], 0  # the last entry of the heap sinks from the root
    while True:
        child = 2 * hole + 1
        if child >= n:
            break
        if child + 1 < n and server.queues[q, child + 1].due < server.queues[q, child].due:
            child += 1
        entry = server.queues[q, child]
        if last.due <= entry.due:
            break
        copy_entry(server.queues[q, hole], entry)
        hole = child
    copy_entry(server.queues[q, hole], last)


@compiled
def first_due_time(server: CollectServer, e: int) -> int:
    """Return when the next read or publication of an exchange is due."""
    due = int64(NEVER)
    for group in range(len(server.dims)):
        due = min(due, read_due_time(server, e, group), publish_due_time(server, e, group))
    return due


@compiled
def read_due_time(server: CollectServer, e: int, group: int) -> int:
    """Return when the next read of an exchange's rows of one dim is due."""
    return earliest(server, first_queue(server, e, group))


@compiled
def publish_due_time(server: CollectServer, e: int, group: int) -> int:
    """Return when rows of one dim are next published to a home: at once (0) if they nearly fill an RPC."""
    first, n_rows = first_publish_queue(server, e, group), int64(0)
    for q in range(first, first + LANES):
        n_rows += server.queue_sizes[q] > 0
    rows_of_rpc = MAX_VALUES // max(int64(server.dims[group]), QUAD)
    if n_rows and 8 * n_rows >= 7 * rows_of_rpc:
        return int64(0)
    return earliest(server, first)


@compiled
def earliest(server: CollectServer, first: int) -> int:
    """Return the first due time in the queues of all lanes, of which `first` is that of lane 0."""
    due = int64(NEVER)
    for q in range(first, first + LANES):
        if server.queue_sizes[q]:
            due = min(due, server.queues[q, 0].due)
    return due


@compiled
def take_row(server: CollectServer, q: int, now: int, is_read: bool, lane: int, target: Collection) -> bool:
    """Move the first row of queue `q` to a lane of `target`; return False without one, or if it is early."""
    while server.queue_sizes[q]:
        entry = server.queues[q, 0]
        copy = server.copies[target.exchange, entry.place]
        # An RPC also reads rows of which four fifths of the interval have passed since the last read.
        if is_read and 4 * (entry.due - now) > now - copy.last_read_time:
            return False
        place = entry.place
        target.places[lane], target.keys[lane] = place, entry.key
        remove_first_entry(server, q)
        if copy.marks & GIVEN:
            return True
        copy.marks = copy.marks & ~QUEUED  # the key has left the switch
    return False


@compiled
def interval(collector: Collector, change: float) -> int:
    max_ns = max_interval(collector)
    if not change > 0:
        return max_ns
    return int64(min(max(collector.pace / np.sqrt(change), float(MIN_INTERVAL_NS)), float(max_ns)))


@compiled
def max_interval(collector: Collector) -> int:
    """Return 7/8 of the bound of a copy's age, in ns; 1/8 is left for the queue and the RPCs.

    With several homes it is half of that: what one has added waits for a read there, and then for a read at
    another, after which the copy there is replaced.
    """
    return collector.staleness * 7 // (16 if collector.has_other_homes else 8)


@compiled
def adapt_pace(collector: Collector, lateness: int, change: float) -> None:
    """Adapt the pace to a read that begins `lateness` ns late; `change` is the rate of one key."""
    if lateness > MIN_INTERVAL_NS:
        if interval(collector, change) < max_interval(collector):  # else a larger pace changes nothing
            collector.pace = min(max(collector.pace, 1.0) * _PACE_INCREASE, _MAX_PACE)
    else:
        collector.pace *= _PACE_DECREASE


@compiled
def publish_delay(collector: Collector) -> int:
    """Return how long a row may wait for others that are published with it, in ns."""
    return collector.staleness // 16


@compiled
def on_grid(collector: Collector, due: int) -> int:
    """Return a due time, at which others are due too; it is later by up to 1/64 of the bound."""
    grid = max(min(collector.staleness // 64, _MAX_GRID_NS), 1)
    return (due + grid - 1) // grid * grid


@compiled
def delay_next_rpc(server: CollectServer, collection: Collection, now: int) -> None:
    """Delay an exchange's next RPC by the time that one takes, divided by the share of the server's time."""
    collector, job = server.collectors[collection.exchange], server.jobs[collection.job]
    rpc_ns = job.proc_cpu_ns / job.rpcs if job.rpcs and job.proc_cpu_ns else float(_DEFAULT_RPC_NS)
    start = max(collector.budget_start, now - _BURST_NS)
    delay = int64((2 * rpc_ns + _KERNEL_NS_PER_RPC) / collector.share)
    collector.budget_start = start + delay
    if collector.budget_start > now:
        collector.next_start = collector.budget_start + (_RPCS_OF_BURST - 1) * delay


@compiled
def count_age(server: CollectServer, e: int, age: int) -> None:
    collector = server.collectors[e]
    collector.oldest_ns = max(collector.oldest_ns, age)
    collector.n_late += age > collector.staleness
    server.ages[e * AGES + bin_of(age)] += 1


@compiled
def bin_of(age: int) -> int:
    """Return the histogram bin (0 to `AGES` - 1) of an age in ns."""
    # Like a float with 3 bits of mantissa after its leading 1; ages below 8 ns count as 8 ns.
    octave, mantissa = _LOG2_BINS_PER_OCTAVE, max(age, _BINS_PER_OCTAVE)
    while mantissa >= 2 * _BINS_PER_OCTAVE:
        mantissa >>= 1
        octave += 1
    return min(_BINS_PER_OCTAVE * octave + mantissa - _BINS_PER_OCTAVE, AGES - 1)


def upper_age_of(bins: Ints) -> NDArray[np.float64]:
    """Return the upper limits of histogram bins of ages, in ns."""
    octaves, mantissas = np.divmod(np.asarray(bins, np.int64), _BINS_PER_OCTAVE)
    bin_widths = 2.0 ** (octaves - _LOG2_BINS_PER_OCTAVE)
    limits: NDArray[np.float64] = (mantissas + _BINS_PER_OCTAVE + 1) * bin_widths
    return limits
