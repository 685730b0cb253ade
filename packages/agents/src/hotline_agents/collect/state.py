"""The state of a PS that owns all its parameters, and publishes copies of hot ones in the switch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.optimisers import TableOptimiser
from foundation.protocol.header import LANES, MAX_VALUES, WINDOW
from foundation.protocol.rpc import Rpc, rpcs
from hosts.keys import KeySpace
from hotline_agents.hotset.ps.state import HotsetHeader
from hotline_agents.hotset.ps.state import needs_room as hotset_needs_room
from hotline_agents.interface import NEVER
from hotline_agents.ps.journal import NOTE_BYTES
from hotline_agents.ps.optimise import Batch, OptimiserRule, make_rules, state_words_of
from hotline_agents.ps.rpcs import CALLERS, CONNECTION_RECORDS, CallerRow, ConnectionRecord, Job, make_jobs
from hotline_agents.ps.share import Share, make_share
from hotline_agents.ps.values import Cell, make_cells, words_of_value
from nativekit.compile import compiled
from nativekit.records import Ints, Octets, Records, RecordTable, Words, one_record, records

COLLECTIONS = 16
"""Maximum number of collections of a job that a PS has in flight."""
DEFAULT_STALENESS_NS, DEFAULT_SHARE = 50_000_000, 0.2
"""Settings of states that `configure` has not set; `hosts.agent_config.Collection` has the same defaults."""
MAX_QUEUED = 4096
"""Maximum number of hot keys of a lane (`controller.sizes.SLOTS`)."""
AGES = 256
"""Bins of a histogram of ages in ns: eight for each power of two."""
IDLE, READING, SUBTRACTING, PUBLISHING = 0, 1, 2, 3
"""Phases of a slot: idle; pulling sums; pushing negated sums, which clears them; setting new values."""
DEFAULT_MAX_SUM = 1 << 30
"""Sums at least as large are cleared when they have been read: half of what a signed cell can hold."""
QUEUED, CHANGED, GIVEN = 1, 2, 4
"""Bits of a copy's `marks`: it is in the queue or in a collection; its value has changed at the server; the
home has the key, so the server refuses it in RPCs that have passed this home."""


class CollectHeader(HotsetHeader):
    is_restoring: int  # whether the server is recovering from its journal


class Collector:
    """The state of one exchange: the collections of a job at a home of the server; times in ns."""

    epoch: int
    hold_reasons: int  # bitmap of the reasons to pause collections: `BY_COMMAND`, `BY_MOVE`
    step: int  # largest iteration of a worker's push plus 1, for Adam; of all homes in the first exchange
    has_other_homes: int  # whether the server has several homes
    staleness: int  # bound of a copy's age
    share: float
    """Maximum fraction of the server's time for collections."""
    pace: float
    """The interval between collections of a key is pace / √(change of its value per second), clipped."""
    budget_start: int
    """When the share of the server's time allows one RPC, in ns."""
    next_start: int
    """When it allows several RPCs, which begin together, in ns."""
    wanted_before: int
    """Updates before this time must be collected, regardless of `share`."""
    n_wanted: int  # number of keys whose sums have not been read since `wanted_before`
    n_in_flight: int  # number of collections in flight
    n_used_up: int  # number of slots that have no turns left in this epoch
    rpcs: int  # number of answered RPCs
    n_changed: int  # number of rows read whose sums had changed
    n_unchanged: int  # number of rows read whose sums had not changed, or that were missing
    n_late: int
    """Number of copies older than `staleness` when they were replaced."""
    oldest_ns: int  # largest age of a copy when it was replaced
    max_sum: int  # sums of this size are cleared when they have been read


class Collection:
    """A slot of the collector's window: up to 32 rows that an RPC reads, clears or publishes."""

    job: int  # index of the job
    exchange: int  # index of the job's exchange with a home
    seq: int
    phase: int
    sent_time: int  # when the current RPC was sent, in ns; 0 before
    timeout: int  # in ns
    length: int  # of the current RPC, in bytes
    count: int  # number of lanes of the RPCs
    live: int  # bitmap of the lanes with keys
    group: int  # index of the rows' dim in `CollectServer.dims`
    keys: Annotated[NDArray[np.uint64], LANES]
    places: Annotated[Ints, LANES]
    gradients: Annotated[
        Words, MAX_VALUES
    ]  # of the lanes' rows, one after the other: pushed since the last read
    previous_values: Annotated[NDArray[np.float32], MAX_VALUES]  # before the optimiser was applied


class QueueEntry:
    due: int  # when the row is to be read or published, in ns
    place: int
    key: np.uint64


class Copy:
    read_time: int  # when the gradients of this home in the published copy were read, in ns
    last_read_time: int  # when the row's sum was last read, in ns
    complete_until: int  # the published copy has what all homes had added before, in ns
    next_complete_until: int  # the same of the copy that is being published
    change: np.float32  # mean change of the row per second: the largest of its values
    marks: int  # bitmap: `QUEUED`, `CHANGED`, `GIVEN`
    n_collections: (
        int  # number of collections whose gradients were applied; of all homes in the first exchange
    )


class CollectServer(NamedTuple):
    """A server with an exchange for each job and home, job by job. Most servers have one home."""

    header: CollectHeader
    jobs: Records[Job]
    callers: Records[CallerRow]
    cells: RecordTable[Cell]
    collected: Words
    """uint32[exchanges, cells]: sum of the gradients of each value's cell, collected from the switch."""
    last_sums: Words
    """uint32[exchanges, cells]: the sum in the switch at the last read, of which all has been applied."""
    unsettled: Words
    """uint32[exchanges, cells]: sum of updates replayed for lost switches, minus collected gradients."""
    dims: Ints  # int64[D]: the dims of rows, ascending
    collectors: Records[Collector]  # [exchanges]
    collections: Records[Collection]  # [exchanges * COLLECTIONS]
    requests: Records[Rpc]  # [exchanges * COLLECTIONS + 1]: RPC of each collection, and a scratch RPC
    queues: RecordTable[QueueEntry]
    """[2 * exchanges * D * LANES, n]: heaps of the hot keys of each dim and lane: first those that wait for
    being read, then those that wait for being published."""
    queue_sizes: Ints  # int64[2 * exchanges * D * LANES]: number of keys in each queue
    copies: RecordTable[Copy]  # [exchanges, places + 1]
    ages: Ints  # int64[exchanges * AGES]: number of copies by their age when they were replaced
    connection_records: Records[ConnectionRecord]
    journal: Octets
    rules: Records[OptimiserRule]
    batch: Batch
    share: Share


def make_server(
    ps: int, n_ps: int, space: KeySpace, jobs: Sequence[int], journal_bytes: int = 0,
    tables: Sequence[TableOptimiser] = (), homes: int = 1,
) -> CollectServer:  # fmt: skip
    rules = make_rules(tables)
    share = make_share(space, ps, n_ps, words_of_value(rules))
    header = one_record(CollectHeader)
    header.ps, header.last_home, header.is_durable, header.due = ps, homes - 1, journal_bytes > 0, NEVER
    cells = make_cells(len(jobs), share, rules)
    header.state_words = state_words_of(rules)
    n_exchanges, n_places = len(jobs) * homes, int(share.header.places) + 1
    n_queues = 2 * n_exchanges * len(space.dims) * LANES
    collectors = records(n_exchanges, Collector)
    collectors.staleness, collectors.share = DEFAULT_STALENESS_NS, DEFAULT_SHARE
    collectors.max_sum, collectors.has_other_homes = DEFAULT_MAX_SUM, homes > 1
    collections = records(n_exchanges * COLLECTIONS, Collection)
    collections.exchange = np.arange(n_exchanges).repeat(COLLECTIONS)
    collections.job = collections.exchange // homes
    collections.seq = WINDOW + np.tile(np.arange(COLLECTIONS), n_exchanges)  # turn 1 of each slot
    sums = n_exchanges, cells.shape[1]
    return CollectServer(
        header=header, jobs=make_jobs(jobs), callers=records(CALLERS, CallerRow), cells=cells,
        collected=np.zeros(sums, np.uint32), last_sums=np.zeros(sums, np.uint32),
        unsettled=np.zeros(sums, np.uint32), dims=np.array(space.dims, np.int64),
        collectors=collectors, collections=collections, requests=rpcs(n_exchanges * COLLECTIONS + 1),
        queues=records((n_queues, min(n_places, MAX_QUEUED)), QueueEntry),
        queue_sizes=np.zeros(n_queues, np.int64), copies=records((n_exchanges, n_places), Copy),
        ages=np.zeros(n_exchanges * AGES, np.int64),
        connection_records=records(CONNECTION_RECORDS, ConnectionRecord),
        journal=np.zeros(journal_bytes, np.uint8), rules=rules, batch=one_record(Batch), share=share,
    )  # fmt: skip


@compiled
def needs_room(server: CollectServer, datagrams: int) -> bool:
    header = server.header
    # Room for a note of each datagram, collection and exchange.
    n_notes = datagrams + len(server.collections) + len(server.collectors)
    if header.is_durable and header.journal_length + n_notes * NOTE_BYTES > len(server.journal):
        return True
    return hotset_needs_room(server, datagrams)
