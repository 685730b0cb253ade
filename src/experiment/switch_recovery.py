"""Recover a dead switch, real or simulated: restart it, renew its callers, and reload its hot sets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from controller.controller import Controller
from controller.errors import ControllerError, NotPrimary
from controller.tables import InitialRow
from experiment.liveness import Liveness
from foundation.concurrency import gather_or_cancel

log = logging.getLogger(__name__)

_RETRY_S = 0.1  # pause between two attempts
_MAX_UNEXPLAINED_FAILURES = 10
"""Number of failures without the death of a process at which the recovery fails."""


class RecoverableCluster(Protocol):
    """A cluster as the recovery of one of its switches sees it."""

    liveness: Liveness
    switch_name: str

    @property
    def jobs(self) -> Sequence[int]:
        """Return the jobs with state in the switch."""

    async def hot_sets(self) -> Mapping[int, Sequence[int]]:
        """Return the hot set of each job in this switch, without keys that other switches have got since."""

    async def wait_for_switch_end(self) -> None:
        """Wait for an unexpected end of the switch; raise `SwitchFailed` if it must not be recovered."""

    async def start_switch(self) -> int:
        """Start an empty switch, which may end before it answers; return the new epoch of its callers."""

    async def wait_for_switch_answer(self) -> None: ...

    def controller(self) -> AbstractAsyncContextManager[Controller]:
        """Return a controller of the switch whose election id no other controller exceeds."""

    def rows(self, epoch: int) -> Sequence[InitialRow]:
        """Return the rows of a switch whose callers have `epoch`, without hot sets."""

    async def renew_workers(self, epoch: int) -> None:
        """Have the workers continue with `epoch` at this switch."""


async def supervise_switch(cluster: RecoverableCluster) -> None:
    while True:
        await cluster.wait_for_switch_end()
        while not await _start_and_restore(cluster):
            pass
        cluster.liveness.mark_up(cluster.switch_name)


async def _start_and_restore(cluster: RecoverableCluster) -> bool:
    cluster.liveness.mark_down(cluster.switch_name)
    epoch = await cluster.start_switch()
    restore_task = asyncio.ensure_future(_restore_with_retries(cluster, epoch))
    switch_end_task = asyncio.ensure_future(cluster.wait_for_switch_end())
    try:
        await asyncio.wait([restore_task, switch_end_task], return_when=asyncio.FIRST_COMPLETED)
        if switch_end_task.done():
            switch_end_task.result()
            return False
        restore_task.result()
        return True
    finally:
        restore_task.cancel()
        switch_end_task.cancel()
        await asyncio.gather(restore_task, switch_end_task, return_exceptions=True)


async def _restore_with_retries(cluster: RecoverableCluster, epoch: int) -> None:
    await cluster.wait_for_switch_answer()
    unexplained_failures = 0
    while True:
        deaths_before = cluster.liveness.deaths
        try:
            return await restore(cluster, epoch)
        except ControllerError as error:
            # An end of the switch itself is detected a little later, and cancels this task.
            is_explained = (
                isinstance(error, NotPrimary)
                or cluster.liveness.others_down(cluster.switch_name)
                or await cluster.liveness.has_new_death(deaths_before)
            )
            unexplained_failures += not is_explained
            if unexplained_failures == _MAX_UNEXPLAINED_FAILURES:
                raise
            log.info("retrying to restore %s: %s", cluster.switch_name, error)
        await asyncio.sleep(_RETRY_S)


async def restore(cluster: RecoverableCluster, epoch: int) -> None:
    """Set up a switch that is empty or partly restored; the steps are idempotent."""
    # Servers reclaim the values that the last switch held. Workers get a new epoch, ask for the outcome of
    # unanswered pushes, and push again the updates that the last switch had acknowledged.
    async with cluster.controller() as controller:
        await controller.commit_pipeline()
        await controller.install(*cluster.rows(epoch))
        await gather_or_cancel(controller.renew(job) for job in cluster.jobs)
        if cluster.jobs:  # otherwise the switch passes packets on only
            await cluster.renew_workers(epoch)
            await controller.load_all(await cluster.hot_sets())
    log.info("%s is restored, with the hot sets of %d jobs", cluster.switch_name, len(cluster.jobs))
