"""A switch that dies under a run: it is started again, its callers are told, its hot sets loaded again.

Real processes and those in virtual time are restored by these coroutines; `Cluster` is what they differ in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from controller.controller import Controller
from controller.errors import ControllerError, NotPrimary
from controller.tables import Settings
from experiment.health import Health
from foundation.concurrency import gather_or_cancel
from foundation.protocol.addressing import SWITCH_NAME

log = logging.getLogger(__name__)

_AGAIN_S = 0.1
_TRIES = 10
"""Before a failure that no death explains is one."""


class Cluster(Protocol):
    """A switch, its servers and workers, as whoever restores them sees them."""

    health: Health

    @property
    def jobs(self) -> Sequence[int]:
        """That the switch serves."""
        ...

    @property
    def hot_sets(self) -> Mapping[int, Sequence[int]]:
        """Keys that are to be in the switch, by job."""
        ...

    async def until_switch_ends(self) -> None:
        """Wait for an end that nobody asked for; raises it as `SwitchFailed` where that ends everything."""
        ...

    async def start_switch(self) -> int:
        """Start it again, with nothing of what it had; returns the epoch that its callers get.

        It may end before it answers.
        """
        ...

    async def until_switch_answers(self) -> None:
        """Wait for the one that was started."""
        ...

    def controller(self) -> AbstractAsyncContextManager[Controller]:
        """A controller of the switch, which nobody outbids."""
        ...

    def rows(self, epoch: int) -> Sequence[Settings]:
        """Of a switch whose callers have an epoch, before any hot set."""
        ...

    async def renew_workers(self, epoch: int) -> None:
        """Tell all workers that the switch is another one."""
        ...


async def keep_switch(cluster: Cluster) -> None:
    """Have the switch come back whenever it ends, until that is to end everything."""
    while True:
        await cluster.until_switch_ends()
        while not await _comes_back(cluster):
            pass
        cluster.health.regain(SWITCH_NAME)


async def _comes_back(cluster: Cluster) -> bool:
    """Start the switch and restore it; False where it has ended before that was done."""
    cluster.health.lose(SWITCH_NAME)
    epoch = await cluster.start_switch()
    restoring = asyncio.ensure_future(_restore_at_last(cluster, epoch))
    ending = asyncio.ensure_future(cluster.until_switch_ends())
    try:
        await asyncio.wait([restoring, ending], return_when=asyncio.FIRST_COMPLETED)
        if ending.done():
            ending.result()
            return False
        restoring.result()
        return True
    finally:
        restoring.cancel()
        ending.cancel()
        await asyncio.gather(restoring, ending, return_exceptions=True)


async def _restore_at_last(cluster: Cluster, epoch: int) -> None:
    """Restore, again and again where somebody has died meanwhile, or another controller is at the switch."""
    await cluster.until_switch_answers()
    tries = 0
    while True:
        deaths = cluster.health.deaths
        try:
            return await restore(cluster, epoch)
        except ControllerError as error:
            # That the switch itself has ended is known a little later, and ends this.
            is_explained = (
                isinstance(error, NotPrimary)
                or cluster.health.misses(besides=SWITCH_NAME)
                or await cluster.health.explains(deaths)
            )
            tries += not is_explained
            if tries == _TRIES:
                raise
            log.info("the switch is set up again: %s", error)
        await asyncio.sleep(_AGAIN_S)


async def restore(cluster: Cluster, epoch: int) -> None:
    """Set a switch up that has come back with nothing, or that this has been begun for.

    Servers take home what the last one had; workers come back with other epochs, ask what has become of what
    was not answered, and push again what it had acknowledged. None of it has to wait for another.
    """
    async with cluster.controller() as controller:
        await controller.commit_pipeline()
        await controller.install(*cluster.rows(epoch))
        await gather_or_cancel(controller.renew(job) for job in cluster.jobs)
        await cluster.renew_workers(epoch)
        await controller.load_all(cluster.hot_sets)
    log.info("the switch is there again, with %d hot sets", len(cluster.hot_sets))
