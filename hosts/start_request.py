"""Requests to a fork server of agents, as datagrams of JSON (`hosts.compiled_agents`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MAX_REQUEST_BYTES = 1 << 16


class StartRequest(NamedTuple):
    number: int
    module: str
    arguments: Sequence[str]
