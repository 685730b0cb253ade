"""The `ServerOps` functions of servers that only answer; their `header.due` is NEVER."""

from __future__ import annotations

from foundation.designs.interface import NOTHING
from nativekit.compile import compiled


@compiled
def sends_nothing(_state: object, _now: int) -> int:
    return NOTHING


@compiled
def no_address(_state: object, _slot: int) -> int:
    return 0


@compiled
def no_octets(_state: object, _slot: int) -> int:
    return 0


@compiled
def no_peer(_state: object, _slot: int) -> int:
    return 0


@compiled
def never_wakes(_state: object, _now: int) -> None: ...
