"""A server's half where workers hold all parameters and ask no server: it has nothing to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from foundation.designs.interface import NEVER, NO_REPLY, ServerOps, register_server_ops
from foundation.protocol.rpc import Rpc
from hosts.keys import KeySpace
from hosts.ps.reply_only import never_wakes, no_address, no_octets, no_peer, sends_nothing
from hosts.ps.rpcs import Contact, Job, PsHeader
from hosts.ps.share import Share, make_share
from hosts.ps.values import Cell, make_cells
from nativekit.compile import compiled
from nativekit.records import Records, RecordTable, one, records


class IdleServer(NamedTuple):
    """A server that nobody asks for anything."""

    header: PsHeader
    """A record."""
    jobs: Records[Job]
    """JOB[jobs]: what each has cost, which is nothing."""
    cells: RecordTable[Cell]
    """CELL[jobs, places + 1]: values of a share of one parameter, which are 0."""
    contacts: Records[Contact]
    """CONTACT[1]: none."""
    share: Share


def make_idle_server(
    ps: int, n_ps: int, _space: KeySpace, jobs: Sequence[int], journal_bytes: int = 0
) -> IdleServer:
    """A server of `n_ps`; it keeps no journal."""
    share = make_share(KeySpace(1), ps, n_ps)
    header = one(PsHeader)
    header.ps, header.due = ps, NEVER
    rows = records(len(jobs), Job)
    rows["job"] = jobs
    return IdleServer(header, rows, make_cells(len(jobs), share), records(1, Contact), share)


@compiled
def handle(server: IdleServer, rpc: Rpc, length: int, arrival: int, answer: Rpc) -> int:
    """Count the datagram as misdirected; an idle server answers nothing."""
    server.header.misdirected += 1
    return NO_REPLY


@compiled
def lanes(_server: IdleServer, _rpc: Rpc) -> int:
    """None is looked up."""
    return 0


@compiled
def stamp(_server: IdleServer, _answer: Rpc, _proc: int, _queue: int) -> None:
    """There is no answer."""


@compiled
def charge(_server: IdleServer, _answer: Rpc, _ns: int) -> None:
    """There is no answer."""


@compiled
def share_cpu(_server: IdleServer, _ns: int) -> None:
    """There is nobody to share it."""


@compiled
def needs_room(_server: IdleServer, _datagrams: int) -> bool:
    """It keeps nothing."""
    return False


SERVER = register_server_ops(
    IdleServer,
    ServerOps(
        handle, lanes, stamp, charge, share_cpu, needs_room,
        sends_nothing, no_address, no_octets, no_peer, never_wakes,
    ),
)  # fmt: skip
