"""What may go wrong for a script; each text says what to do."""

from __future__ import annotations

from foundation.errors import HotlineError
from topologies.embedding_tables import TableError

__all__ = ["Closed", "Gone", "Misused", "NoAnswer", "NotUp", "TableError", "Wrong"]


class Wrong(HotlineError, ValueError):
    """Keys, values or an `out` that cannot be pushed or pulled; nothing was sent."""


class Misused(HotlineError):
    """A call that cannot be made now; nothing was sent."""


class NotUp(HotlineError):
    """Nobody waits for workers at an address, or whoever does has taken none."""


class Gone(HotlineError):
    """A worker, a server, the switch, or whoever held them together is gone: training cannot go on."""


class NoAnswer(Gone):
    """Servers have not answered for seconds."""


class Closed(Misused):
    """The worker has been closed."""
