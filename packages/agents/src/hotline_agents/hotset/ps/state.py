"""The state of a server whose keys can be in the switch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from foundation.optimisers import TableOptimiser
from hosts.keys import KeySpace
from hotline_agents.interface import NEVER
from hotline_agents.ps.journal import NOTE_BYTES, JournalState
from hotline_agents.ps.optimise import Batch, OptimiserRule, make_rules, state_words_of
from hotline_agents.ps.rpcs import CALLERS, CONNECTION_RECORDS, CallerRow, ConnectionRecord, Job, make_jobs
from hotline_agents.ps.rpcs import needs_room as rpcs_need_room
from hotline_agents.ps.share import Share, make_share
from hotline_agents.ps.values import Cell, ValuesHeader, ValuesState, make_cells, words_of_value
from nativekit.compile import compiled
from nativekit.records import Octets, Records, RecordTable, Words, one_record, records


class HotsetHeader(ValuesHeader):
    is_durable: int


class OffloadingState(ValuesState, JournalState, Protocol):
    @property
    def header(self) -> HotsetHeader: ...


class HotsetServer(NamedTuple):
    header: HotsetHeader
    jobs: Records[Job]
    callers: Records[CallerRow]
    cells: RecordTable[Cell]
    at_switch: Words
    """uint32[jobs, cells]: the part of each cell's value that the switch was given and has not returned."""
    connection_records: Records[ConnectionRecord]
    journal: Octets
    rules: Records[OptimiserRule]
    batch: Batch
    share: Share


def make_server(
    ps: int, n_ps: int, space: KeySpace, jobs: Sequence[int], journal_bytes: int = 0,
    tables: Sequence[TableOptimiser] = (),
) -> HotsetServer:  # fmt: skip
    rules = make_rules(tables)
    share = make_share(space, ps, n_ps, words_of_value(rules))
    header = one_record(HotsetHeader)
    header.ps, header.is_durable, header.due = ps, journal_bytes > 0, NEVER
    cells = make_cells(len(jobs), share, rules)
    header.state_words = state_words_of(rules)
    return HotsetServer(
        header, make_jobs(jobs), records(CALLERS, CallerRow), cells,
        np.zeros(cells.shape, np.uint32),
        records(CONNECTION_RECORDS, ConnectionRecord),
        np.zeros(journal_bytes, np.uint8), rules, one_record(Batch), share,
    )  # fmt: skip


@compiled
def needs_room(server: OffloadingState, datagrams: int) -> bool:
    header = server.header
    if header.is_durable and header.journal_length + datagrams * NOTE_BYTES > len(server.journal):
        return True
    return rpcs_need_room(server, datagrams)
