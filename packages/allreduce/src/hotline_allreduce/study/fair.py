"""All-reduces with published parameters, and with equal packets and bytes in flight.

`python -m hotline_allreduce.study.fair` prints both tables of the comparison's page.
"""

from __future__ import annotations

from typing import NamedTuple

import click

from foundation.protocol.header import WINDOW
from hotline_allreduce.atp.model import subject as atp
from hotline_allreduce.dense.packet import SIZE, VALUE_BYTES
from hotline_allreduce.exact import subject as exact
from hotline_allreduce.simulation.measure import measure
from hotline_allreduce.simulation.subject import PSDENSE, RING, Subject
from hotline_allreduce.study.point import make_network
from hotline_allreduce.switchml.model import subject as switchml
from hotline_allreduce.switchml.packet import VALUES
from hotline_allreduce.switchml.window import MAX_WINDOW

GBITS = (10.0, 100.0)
WORKERS, VECTOR_VALUES = 8, 500_000
EQUAL_BYTES = (16_384, 65_536)
"""Bytes of values, or of lanes, that a worker has in flight."""


class FairRow(NamedTuple):
    name: str
    subject: Subject
    servers: int
    window: int  # packets in flight
    packet_bytes: int  # of values or lanes

    def goodput(self, gbit: float, workers: int = WORKERS, values: int = VECTOR_VALUES) -> float:
        """Return the values/s of a worker."""
        network = make_network(gbit)
        return measure(self.subject, workers, self.servers, values, network, window=self.window).values_per_s


def _lane_bytes(subject: Subject) -> int:
    return VALUE_BYTES * (VALUES if subject is exact.SUBJECT else subject.chunk_size)


_SERVERS = {"psdense": WORKERS}
_LARGEST = {
    "switchml": switchml.LARGE_PACKETS,
    "atp": atp.PUBLISHED,
    "exact": exact.SUBJECT,
    "psdense": PSDENSE,
    "ring": RING,
}
"""Each design with 256 values a packet, or the largest packets that it has."""


def published_rows() -> list[FairRow]:
    def row(name: str, subject: Subject, window: int) -> FairRow:
        return FairRow(name, subject, _SERVERS.get(name, 1), window, _lane_bytes(subject))

    return [
        row("switchml", switchml.LARGE_PACKETS, MAX_WINDOW),
        row("switchml", switchml.PUBLISHED, MAX_WINDOW),
        row("atp", atp.PUBLISHED, WINDOW),
        row("exact", exact.SUBJECT, MAX_WINDOW),
        row("psdense", PSDENSE, WINDOW),
        row("ring", RING, WINDOW),
    ]


def equal_rows(bytes_in_flight: int) -> list[FairRow]:
    """Return the designs whose window can hold this number of bytes."""
    rows = []
    for name, subject in _LARGEST.items():
        packet_bytes = _lane_bytes(subject)
        window = round(bytes_in_flight / packet_bytes)
        if window <= subject.max_window + 2:  # ATP's 64 packets of 62 values are 97 % of 16,384 bytes
            window = min(window, subject.max_window)
            rows.append(FairRow(name, subject, _SERVERS.get(name, 1), window, packet_bytes))
    return rows


def table_lines(rows: list[FairRow], workers: int = WORKERS, values: int = VECTOR_VALUES) -> list[str]:
    lines = [
        "| | values a packet | packets in flight | 10 Gbit/s | 100 Gbit/s |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        goodputs = " | ".join(f"{row.goodput(gbit, workers, values) / 1e6:,.0f}" for gbit in GBITS)
        lines.append(f"| `{row.name}` | {row.subject.chunk_size} | {row.window} | {goodputs} |")
    return lines


assert SIZE == PSDENSE.chunk_size == RING.chunk_size


@click.command()
def main() -> None:
    """Print million values/s of a worker, with published parameters, then with equal bytes in flight."""
    click.echo("\n".join(table_lines(published_rows())))
    for bytes_in_flight in EQUAL_BYTES:
        click.echo(f"\n{bytes_in_flight:,} bytes in flight:\n")
        click.echo("\n".join(table_lines(equal_rows(bytes_in_flight))))


if __name__ == "__main__":
    main()
