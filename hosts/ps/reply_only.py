"""What a server's half has that answers its callers and sends nothing else; its `header.due` is NEVER."""

from __future__ import annotations

from foundation.designs.interface import NOTHING
from nativekit.compile import compiled


@compiled
def sends_nothing(_state: object, _now: int) -> int:
    """No slot."""
    return NOTHING


@compiled
def no_address(_state: object, _slot: int) -> int:
    """There is no slot to have one."""
    return 0


@compiled
def no_octets(_state: object, _slot: int) -> int:
    """There is no slot to have any."""
    return 0


@compiled
def no_peer(_state: object, _slot: int) -> int:
    """There is no slot to go to one."""
    return 0


@compiled
def never_wakes(_state: object, _now: int) -> None:
    """Nothing is ever due."""
