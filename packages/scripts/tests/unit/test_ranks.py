"""Ranks of workers that join from several machines, each of which has the addresses of some ranks."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from hotline_scripts.embedding_tables import make_tables
from hotline_scripts.lines import RequestRefused, check_owner
from hotline_scripts.rendezvous import Rendezvous
from hotline_scripts.script_session import Terms
from switch_harness.wording import mentions

TABLES = make_tables({"a": (3, 1)})
TERMS = Terms(4, 1, "hotset", 32, servers=[], workers=[], arm="offload", seed=1)


def rendezvous(size: int) -> Rendezvous:
    backend: Any = Mock(size=size, begin=AsyncMock(return_value=TERMS), end=AsyncMock())
    return Rendezvous(backend)


@pytest.mark.parametrize("seed", range(40))
async def test_a_worker_has_the_lowest_free_rank_of_its_machine_or_is_refused(seed: int) -> None:
    chance = random.Random(seed)
    size = chance.randrange(1, 7)
    machine_of = [chance.randrange(3) for _ in range(size)]
    free, joining = set(range(size)), rendezvous(size)
    writer: Any = Mock()
    for _ in range(2 * size):
        machine = chance.choice([None, 0, 1, 2])  # None: this machine has all
        ranks = frozenset(rank for rank in range(size) if machine is None or machine_of[rank] == machine)
        wanted = chance.choice([None, chance.randrange(size)])
        allowed = free & ranks & ({wanted} if wanted is not None else ranks)
        join = joining.join(TABLES, wanted, writer, None if machine is None else ranks)
        if allowed:
            rank = (await join).rank
            assert rank == min(allowed)
            free.remove(rank)
        else:
            with pytest.raises(RequestRefused):
                await join


async def test_a_refused_rank_is_answered_with_the_ranks_of_the_machine() -> None:
    joining, writer = rendezvous(4), Mock()
    with pytest.raises(RequestRefused, match=mentions("rank = 0", "this machine, 1, 3")):
        await joining.join(TABLES, 0, writer, frozenset({3, 1}))
    for rank in (1, 3):
        assert (await joining.join(TABLES, None, writer, frozenset({3, 1}))).rank == rank
    with pytest.raises(RequestRefused, match=mentions("this machine, 1, 3, are given", "other machines")):
        await joining.join(TABLES, None, writer, frozenset({3, 1}))


async def test_workers_of_other_machines_do_not_end_up(tmp_path: Path) -> None:
    async with rendezvous(1).listen(tmp_path / "up.sock"):
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        for opened, is_refused in (
            (asyncio.open_unix_connection(tmp_path / "up.sock"), False),
            (asyncio.open_connection("127.0.0.1", port), True),
        ):
            _, writer = await opened
            if is_refused:
                with pytest.raises(RequestRefused, match=mentions("down MACHINES=ADDRESS")):
                    check_owner(writer)
            else:
                check_owner(writer)
            writer.close()
        server.close()
