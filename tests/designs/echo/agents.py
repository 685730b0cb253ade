"""The agents of the echo design."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from foundation.protocol.codec import Caller
from foundation.protocol.header import WINDOW
from hotline_agents.interface import Agents
from hotline_agents.worker.client import BaseClient
from tests.designs.echo.server import Mirror, make_mirror
from tests.designs.echo.worker import make_numbers

WORKERS = 3


class Client(BaseClient):
    """The worker's side of a design that pulls and pushes nothing."""

    def __init__(
        self,
        caller: Caller,
        n_ps: int,
        _space: Any,
        clock: Callable[[], int],
        _window: int = WINDOW,
        **_settings: Any,
    ) -> None:
        super().__init__(cast(Any, make_numbers(caller.worker, n_ps, WORKERS)), clock)


def _server(
    ps: int, n_ps: int, _space: Any, _jobs: Sequence[int], _journal_bytes: int, _tables: Sequence[object]
) -> Mirror:
    return make_mirror(ps, n_ps, WORKERS)


def _no_store(_state: Mirror, _job: int, _replayed: bool = False) -> None:
    return None


AGENTS = Agents(Client, _server, _no_store, Client)
