"""The rows of each switch of a network, from those of a single switch with the same hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from controller.tables import (
    NO_PORT,
    BundleMemberRow,
    CallerKind,
    CallerPortRow,
    HashedBundleRow,
    HomeRow,
    InitialRow,
    JobRow,
    Route,
    ServerRow,
    SprayedBundleRow,
    UplinkRow,
    WorkerRow,
)
from foundation.protocol.header import PS_MASK
from foundation.protocol.leaf_spine import LeafSpine, host_at


def rows_of_switch(rows: Sequence[InitialRow], network: LeafSpine, switch: int) -> list[InitialRow]:
    """Return a switch's rows. The home of a server has its row; other switches pass its packets on."""
    compares_ports = any(isinstance(row, ServerRow) for row in rows)
    return [
        *dict.fromkeys(_rows_of_switch(rows, network, switch)),
        *bundle_rows(network, switch, compares_ports),
    ]


def bundle_rows(network: LeafSpine, switch: int, compares_ports: bool = True) -> Iterator[InitialRow]:
    """Yield the rows of a leaf's bundle of uplinks; a program that only forwards compares no ports."""
    if not network.has_bundles or network.is_spine(switch):
        return
    first, *others = ports = [network.uplink(spine) for spine in range(network.spines)]
    kind = HashedBundleRow if network.routing == "ecmp" else SprayedBundleRow
    yield kind(first, len(ports))
    yield from (BundleMemberRow(member, port) for member, port in enumerate(ports))
    if compares_ports:
        yield from (UplinkRow(port, first) for port in others)


def _rows_of_switch(rows: Sequence[InitialRow], network: LeafSpine, switch: int) -> Iterator[InitialRow]:
    is_home = switch in network.homes
    for row in rows:
        if isinstance(row, Route):
            yield replace(row, port=network.toward_host(switch, host_at(row.port)))
        elif isinstance(row, ServerRow):
            for number in network.numbers_of(row.ps):
                yield from _server_rows(replace(row, ps=number), network, switch)
        elif isinstance(row, WorkerRow):
            port = network.toward_host(switch, host_at(row.port))
            for caller, home in _callers(row, network):
                yield CallerPortRow(row.job, caller, port)
                if switch == home or (home is None and is_home):
                    yield replace(row, worker=caller, port=port)
        elif not isinstance(row, JobRow):
            raise TypeError(f"expected a row of a program that passes packets on, got {row}")
        elif is_home:
            yield row


def _callers(row: WorkerRow, network: LeafSpine) -> Iterator[tuple[int, int | None]]:
    """Yield the numbers of a caller, each with the only home that it calls; None if it calls all."""
    if row.kind == CallerKind.WORKER:
        yield row.worker, network.leaf_of(host_at(row.port)) if network.is_home_by_worker else None
    elif network.homes_of_server == 1:
        yield row.worker, None
    else:
        homes = map(network.home_of, network.numbers_of(row.worker & PS_MASK))
        yield from zip(network.numbers_of(row.worker), homes, strict=True)


def _server_rows(row: ServerRow, network: LeafSpine, switch: int) -> Iterator[ServerRow | HomeRow]:
    home, path = network.home_of(row.ps), network.path(row.ps)
    port = network.toward_host(switch, host_at(row.port))
    if switch == home:
        yield replace(row, port=port)
    elif network.is_home_by_worker and switch not in path:
        return  # packets of this home's workers, to this server and back, do not pass this switch
    elif not network.is_connected(switch, home):
        yield HomeRow(row.job, row.ps, NO_PORT, NO_PORT)
    else:
        # Packets from the home come back to a switch that is between the home and the server.
        server_port = port if switch in path else NO_PORT
        yield HomeRow(row.job, row.ps, network.toward_switch(switch, home), server_port)
