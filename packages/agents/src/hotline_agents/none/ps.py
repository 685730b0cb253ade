"""A server that holds all parameters of its share, and answers pulls and pushes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from foundation.optimisers import TableOptimiser
from foundation.protocol.header import SLOT_MASK
from foundation.protocol.rpc import PULL, PUSH, Rpc, decode
from hosts.keys import KeySpace
from hotline_agents.interface import NEVER, NO_REPLY, ServerOps, register_server_ops
from hotline_agents.ps.optimise import Batch, OptimiserRule, make_rules, state_words_of
from hotline_agents.ps.rpcs import (
    CALLERS,
    CONNECTION_RECORDS,
    NEW,
    SAME_VERSION,
    STALE,
    CallerRow,
    ConnectionRecord,
    Job,
    admit,
    charge,
    check_version,
    make_jobs,
    needs_room,
    record_result,
    share_cpu,
    stamp,
    unserved_lanes,
    write_answer,
)
from hotline_agents.ps.share import Share, make_share
from hotline_agents.ps.values import (
    Cell,
    ValuesHeader,
    lanes_to_serve,
    make_cells,
    pull,
    push,
    words_of_value,
)
from nativekit.compile import compiled, int64
from nativekit.records import Records, RecordTable, one_record, records


class ValuesServer(NamedTuple):
    header: ValuesHeader
    jobs: Records[Job]
    callers: Records[CallerRow]
    cells: RecordTable[Cell]
    connection_records: Records[ConnectionRecord]
    rules: Records[OptimiserRule]
    batch: Batch
    share: Share


def make_values_server(
    ps: int, n_ps: int, space: KeySpace, jobs: Sequence[int], journal_bytes: int = 0,
    tables: Sequence[TableOptimiser] = (),
) -> ValuesServer:  # fmt: skip
    rules = make_rules(tables)
    share = make_share(space, ps, n_ps, words_of_value(rules))
    header = one_record(ValuesHeader)
    header.ps, header.due = ps, NEVER
    cells = make_cells(len(jobs), share, rules)
    header.state_words = state_words_of(rules)
    return ValuesServer(
        header,
        make_jobs(jobs),
        records(CALLERS, CallerRow),
        cells,
        records(CONNECTION_RECORDS, ConnectionRecord),
        rules,
        one_record(Batch),
        share,
    )


@compiled
def handle(server: ValuesServer, rpc: Rpc, length: int, arrival: int, answer: Rpc) -> int:
    status = check_version(server, rpc, length)
    if status != SAME_VERSION:
        return status
    h = decode(rpc)
    j, c, request_kind = admit(server, h, length, arrival)
    if request_kind == STALE:
        return NO_REPLY
    refused_lanes, added_lanes, is_new = int64(0), int64(0), request_kind == NEW
    if h.op == PULL:
        refused_lanes = pull(server, j, h, rpc, answer)
    elif h.op == PUSH:
        added_lanes = push(server, j, h, rpc) if is_new else int64(server.callers[c].added[h.seq & SLOT_MASK])
        refused_lanes = lanes_to_serve(h) & ~added_lanes
    if is_new:
        record_result(server, j, c, h, added_lanes, refused_lanes)
    return write_answer(answer, rpc, h, refused_lanes)


SERVER = register_server_ops(
    ValuesServer,
    ServerOps(
        handle=handle,
        lanes=unserved_lanes,
        stamp=stamp,
        charge=charge,
        share_cpu=share_cpu,
        needs_room=needs_room,
    ),
)
