from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hotline_machines.errors import MachineLost

if TYPE_CHECKING:
    from distributed import Client

_POLL_S = 0.2


async def wait_until_scheduler_ends(client: Client, address: str) -> None:
    """Raise `MachineLost` when the scheduler's connection to this process has ended."""
    while client.status == "running":
        await asyncio.sleep(_POLL_S)
    raise MachineLost(
        f"the scheduler at {address} has ended or cannot be reached: dask's workers end with it, and so does "
        "the run"
    )
