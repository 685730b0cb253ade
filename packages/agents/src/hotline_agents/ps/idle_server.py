"""The server of designs whose workers hold all parameters: it gets no requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from foundation.optimisers import TableOptimiser
from foundation.protocol.rpc import Rpc
from hosts.keys import KeySpace
from hotline_agents.interface import NEVER, NO_REPLY, ServerOps, register_server_ops
from hotline_agents.ps.rpcs import (
    ConnectionRecord,
    Job,
    PsHeader,
    charge,
    make_jobs,
    needs_no_room,
    share_cpu,
    stamp,
    unserved_lanes,
)
from hotline_agents.ps.share import Share, make_share
from hotline_agents.ps.values import Cell, make_cells
from nativekit.compile import compiled
from nativekit.records import Records, RecordTable, one_record, records


class IdleServer(NamedTuple):
    """The state of a server that gets no requests: all counters and values are 0."""

    header: PsHeader
    jobs: Records[Job]
    cells: RecordTable[Cell]  # [jobs, places + 1]: the cells of a share of one parameter
    connection_records: Records[ConnectionRecord]  # [1], not used
    share: Share


def make_idle_server(
    ps: int, n_ps: int, _space: KeySpace, jobs: Sequence[int], _journal_bytes: int = 0,
    _tables: Sequence[TableOptimiser] = (),
) -> IdleServer:  # fmt: skip
    share = make_share(KeySpace(1), ps, n_ps)
    header = one_record(PsHeader)
    header.ps, header.due = ps, NEVER
    cells = make_cells(len(jobs), share)
    return IdleServer(header, make_jobs(jobs), cells, records(1, ConnectionRecord), share)


@compiled
def handle(server: IdleServer, rpc: Rpc, length: int, arrival: int, answer: Rpc) -> int:
    server.header.misdirected += 1
    return NO_REPLY


SERVER = register_server_ops(
    IdleServer,
    ServerOps(
        handle=handle,
        lanes=unserved_lanes,
        stamp=stamp,
        charge=charge,
        share_cpu=share_cpu,
        needs_room=needs_no_room,
    ),
)
