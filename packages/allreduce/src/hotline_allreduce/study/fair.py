"""Packets and windows for a comparison with published parameters, and for one with equal bytes in flight."""

from __future__ import annotations

from typing import NamedTuple

from foundation.protocol.header import WINDOW
from hotline_allreduce.dense.packet import VALUE_BYTES
from hotline_allreduce.study.schemes import EXACT, LARGE_PACKETS, Scheme, scheme_of
from hotline_allreduce.switchml.packet import VALUES
from hotline_allreduce.switchml.window import MAX_WINDOW

PUBLISHED = "published parameters"
EQUAL_BYTES = (16_384, 65_536)
"""Bytes of values, or of lanes, that a worker has in flight."""
_MAX_SHORTFALL = 0.04  # of equal bytes: ATP's 64 packets of 62 values are 97 % of 16,384 bytes


class FairRow(NamedTuple):
    scheme: Scheme
    window: int  # packets in flight

    @property
    def bytes_in_flight(self) -> int:
        return self.window * packet_bytes(self.scheme)


def packet_bytes(scheme: Scheme) -> int:
    """Return the bytes of values or lanes in a packet."""
    return VALUE_BYTES * (VALUES if scheme is EXACT else scheme.subject.chunk_size)


def fair_tables() -> dict[str, list[FairRow]]:
    """Return the rows of each table by its title; those with equal bytes have the largest packets."""
    atp, psdense, ring = map(scheme_of, ("atp", "psdense", "ring"))
    published = [
        FairRow(LARGE_PACKETS, MAX_WINDOW),
        FairRow(scheme_of("switchml"), MAX_WINDOW),
        FairRow(atp, WINDOW),
        FairRow(EXACT, MAX_WINDOW),
        FairRow(psdense, WINDOW),
        FairRow(ring, WINDOW),
    ]
    schemes = (LARGE_PACKETS, atp, EXACT, psdense, ring)
    equal = {
        f"{size:,} bytes in flight": [_row_of(scheme, size) for scheme in schemes] for size in EQUAL_BYTES
    }
    return {
        PUBLISHED: published,
        **{
            title: [row for row in rows if row.bytes_in_flight >= (1 - _MAX_SHORTFALL) * size]
            for (title, rows), size in zip(equal.items(), EQUAL_BYTES, strict=True)
        },
    }


def _row_of(scheme: Scheme, size: int) -> FairRow:
    return FairRow(scheme, min(size // packet_bytes(scheme), scheme.subject.max_window))
