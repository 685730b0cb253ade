"""Errors of the wire format."""

from __future__ import annotations

from foundation.errors import HotlineError


class MalformedDatagram(HotlineError):
    """A datagram that is no RPC of ours; the text names the field and what it holds."""
