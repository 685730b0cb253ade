"""A switch that dies under a run, again and again, of a cluster that a test plays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.errors import DeviceError, NoAnswer, NotPrimary
from experiment import switch_recovery
from experiment.errors import SwitchFailed
from experiment.liveness import Liveness
from experiment.switch_recovery import supervise_switch

Fault = Callable[["Played"], Awaitable[None]]


class Played:
    """A fake cluster that logs what is done; each of `faults` is injected at the end of one restore."""

    def __init__(self, *faults: Fault, ends_everything: bool = False) -> None:
        self.liveness, self.switch_name = Liveness(), "s1"
        self.jobs: Sequence[int] = [1, 2]
        self.keys = {1: [7]}
        self.done: list[Any] = []
        self.starts = 0
        self.is_dead = asyncio.Event()
        self._faults = list(faults)
        self._ends_everything = ends_everything

    async def wait_for_switch_end(self) -> None:
        await self.is_dead.wait()
        if self._ends_everything:
            raise SwitchFailed("s1: the switch ended with code -9")

    async def start_switch(self) -> int:
        self.is_dead.clear()
        self.starts += 1
        return 1 + self.starts

    async def wait_for_switch_answer(self) -> None:
        self.done.append(("answers", self.starts))

    @asynccontextmanager
    async def controller(self) -> Any:
        yield self

    async def hot_sets(self) -> dict[int, list[int]]:
        return self.keys

    def rows(self, epoch: int) -> Sequence[Any]:
        return [("row", epoch)]

    async def renew_workers(self, epoch: int) -> None:
        self.done.append(("workers", epoch))

    async def commit_pipeline(self) -> None:
        self.done.append("pipeline")

    async def install(self, *rows: Any) -> None:
        self.done += rows

    async def renew(self, job: int) -> None:
        self.done.append(("renew", job))

    async def load_all(self, hot_sets: Any) -> None:
        self.done.append(dict(hot_sets))
        if self._faults:
            await self._faults.pop(0)(self)


def of_one(epoch: int) -> list[Any]:
    """Return the steps of one restore."""
    return ["pipeline", ("row", epoch), ("renew", 1), ("renew", 2), ("workers", epoch), {1: [7]}]


async def dies_and_tells(cluster: Played) -> None:
    """The connection closes, and the end of the process is known a little later."""
    asyncio.get_running_loop().call_later(0.05, cluster.is_dead.set)
    raise DeviceError("switch 127.0.0.1:9559 has closed the connection")


async def dies_silently(cluster: Played) -> None:
    """The restore waits for an answer of the switch that never comes."""
    cluster.is_dead.set()
    await asyncio.Event().wait()


async def server_dies(cluster: Played) -> None:
    cluster.liveness.mark_down("ps-0")
    cluster.liveness.mark_up("ps-0")
    raise NoAnswer("PS 0 did not answer SEED within 10 s")


async def server_is_dead(cluster: Played) -> None:
    """The server died before, and stays away for longer than its answer is waited for."""
    cluster.liveness.mark_down("ps-1")
    cluster.liveness.deaths -= 1
    asyncio.get_running_loop().call_later(0.5, cluster.liveness.mark_up, "ps-1")
    raise NoAnswer("PS 0 did not answer SEED within 10 s")


async def outbid(cluster: Played) -> None:
    raise NotPrimary("another controller has become primary")


async def refused(cluster: Played) -> None:
    raise DeviceError("the switch refused what it was asked")


async def kill_switch(cluster: Played) -> None:
    """Kill the switch once, and wait until it is restored."""
    keeping = asyncio.ensure_future(supervise_switch(cluster))
    try:
        cluster.is_dead.set()
        while not keeping.done() and not (cluster.starts and cluster.liveness.all_up):
            await asyncio.sleep(0.001)
        if keeping.done():
            await keeping
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def test_a_killed_switch_is_restored_with_another_epoch() -> None:
    cluster = Played()
    await kill_switch(cluster)
    assert cluster.done == [("answers", 1), *of_one(2)] and cluster.liveness.deaths == 1


async def test_a_switch_may_be_killed_any_number_of_times_during_its_restoration() -> None:
    cluster = Played(dies_and_tells, dies_silently, dies_silently, dies_and_tells)
    await asyncio.wait_for(kill_switch(cluster), 30)
    assert cluster.starts == cluster.liveness.deaths == 5
    each = [[("answers", n), *of_one(1 + n)] for n in range(1, 6)]
    assert cluster.done == [done for attempt in each for done in attempt]


async def test_the_switch_is_set_up_again_if_a_server_dies_during_the_restoration() -> None:
    cluster = Played(server_dies, outbid, server_dies, server_dies, server_dies)
    await asyncio.wait_for(kill_switch(cluster), 30)
    assert cluster.starts == 1 and cluster.done == [("answers", 1), *6 * of_one(2)]


async def test_a_server_that_takes_long_to_come_back_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch_recovery, "_MAX_UNEXPLAINED_FAILURES", 1)
    cluster = Played(server_is_dead, server_is_dead)
    await asyncio.wait_for(kill_switch(cluster), 30)
    assert cluster.starts == 1 and cluster.done == [("answers", 1), *3 * of_one(2)]


async def test_a_failure_without_a_death_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch_recovery, "_MAX_UNEXPLAINED_FAILURES", 2)
    cluster = Played(*[refused] * 20)
    with pytest.raises(DeviceError, match="refused"):
        await asyncio.wait_for(kill_switch(cluster), 30)
    assert cluster.starts == 1 and not cluster.liveness.all_up


async def test_the_death_of_the_switch_ends_the_run_if_deaths_end_everything() -> None:
    with pytest.raises(SwitchFailed, match="code -9"):
        await kill_switch(Played(ends_everything=True))
