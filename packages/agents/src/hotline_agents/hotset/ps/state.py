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
    """uint32[jobs * homes, cells]: the part of a cell's value that a home was given and has not returned."""
    homes_of_rows: Octets
    """uint8[jobs, places]: 1 + the home that has each row, 0 for this PS; [jobs, 0] if there is one home."""
    connection_records: Records[ConnectionRecord]
    journal: Octets
    rules: Records[OptimiserRule]
    batch: Batch
    share: Share


def make_server(
    ps: int, n_ps: int, space: KeySpace, jobs: Sequence[int], journal_bytes: int = 0,
    tables: Sequence[TableOptimiser] = (), homes: int = 1,
) -> HotsetServer:  # fmt: skip
    rules = make_rules(tables)
    share = make_share(space, ps, n_ps, words_of_value(rules))
    header = one_record(HotsetHeader)
    header.ps, header.last_home, header.is_durable, header.due = ps, homes - 1, journal_bytes > 0, NEVER
    cells = make_cells(len(jobs), share, rules)
    header.state_words = state_words_of(rules)
    return HotsetServer(
        header, make_jobs(jobs), records(CALLERS, CallerRow), cells,
        np.zeros((len(jobs) * homes, cells.shape[1]), np.uint32),
        np.zeros((len(jobs), int(share.header.places) if homes > 1 else 0), np.uint8),
        records(CONNECTION_RECORDS, ConnectionRecord),
        np.zeros(journal_bytes, np.uint8), rules, one_record(Batch), share,
    )  # fmt: skip


@compiled
def needs_room(server: OffloadingState, datagrams: int) -> bool:
    header = server.header
    if header.is_durable and header.journal_length + datagrams * NOTE_BYTES > len(server.journal):
        return True
    return rpcs_need_room(server, datagrams)
