"""The rows of each switch of a network, from those of a single switch with the same hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from controller.tables import (
    NO_PORT,
    CallerPortRow,
    HomeRow,
    InitialRow,
    JobRow,
    Route,
    ServerRow,
    WorkerRow,
)
from foundation.protocol.leaf_spine import LeafSpine, host_at


def rows_of_switch(rows: Sequence[InitialRow], network: LeafSpine, switch: int) -> list[InitialRow]:
    """Return a switch's rows. The home of a server has its row; other switches pass its packets on."""
    return list(dict.fromkeys(_rows_of_switch(rows, network, switch)))


def _rows_of_switch(rows: Sequence[InitialRow], network: LeafSpine, switch: int) -> Iterator[InitialRow]:
    is_home = switch in network.homes
    for row in rows:
        if isinstance(row, Route):
            yield replace(row, port=network.toward_host(switch, host_at(row.port)))
        elif isinstance(row, ServerRow):
            yield _server_row(row, network, switch)
        elif isinstance(row, WorkerRow):
            port = network.toward_host(switch, host_at(row.port))
            yield CallerPortRow(row.job, row.worker, port)
            if is_home:
                yield replace(row, port=port)
        elif not isinstance(row, JobRow):
            raise TypeError(f"expected a row of a program that passes packets on, got {row}")
        elif is_home:
            yield row


def _server_row(row: ServerRow, network: LeafSpine, switch: int) -> ServerRow | HomeRow:
    home, server = network.home_of(row.ps), host_at(row.port)
    port = network.toward_host(switch, server)
    if switch == home:
        return replace(row, port=port)
    if not network.is_connected(switch, home):
        return HomeRow(row.job, row.ps, NO_PORT, NO_PORT)
    # Packets from the home come back to a switch that is between the home and the server.
    is_between = switch == network.leaf_of(server)
    return HomeRow(row.job, row.ps, network.toward_switch(switch, home), port if is_between else NO_PORT)
