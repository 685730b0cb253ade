"""One fault of a schedule, and whom it may hit."""

from __future__ import annotations

from dataclasses import dataclass

WORKERS, SERVERS = 3, 2


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault of a kind of `simulator.faults.strikes`."""

    kind: str
    after: int
    """RPCs that are answered before it strikes."""
    lasts_us: int
    who: int
    """Whom it hits: a host, a worker or a server, from 0 on."""
    amount: int = 0
    """µs that frames come later; or until the controller dies, or the next one comes."""
    behind_us: int | None = None
    """After the strike before, rather than after RPCs."""
