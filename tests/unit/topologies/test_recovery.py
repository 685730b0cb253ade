"""A switch that dies under a run, played by an object that has died so often."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from controller.errors import DeviceError
from topologies import recovery
from topologies.errors import SwitchFailed


class Dying:
    """A switch that dies so many times; `in_restore` of them while it is set up."""

    def __init__(self, deaths: int) -> None:
        self.restarts = 0
        self.left = deaths
        self.is_dead = False
        self.running = self

    async def until_it_dies(self) -> None:
        if self.left == 0:
            await asyncio.Event().wait()
        self.left -= 1
        raise SwitchFailed("s1: the switch ended with code -9")

    def start_again(self) -> None:
        self.is_dead = False

    def ended(self) -> object:
        return "ended" if self.is_dead else None


def kept(
    switch: Dying, monkeypatch: pytest.MonkeyPatch, dies_in: int = 0, replay_log: bool = True
) -> list[int]:
    """Keep the switch until nothing happens any more; the restarts that it was restored after."""
    restored = []

    async def restore(session: Any, restarts: int) -> None:
        restored.append(restarts)
        if restarts == dies_in:
            switch.is_dead = True
            raise DeviceError("the switch has closed the connection")
        if restarts == -dies_in:
            raise DeviceError("the switch refused what it was asked")

    monkeypatch.setattr(recovery, "restore", restore)
    config = SimpleNamespace(recovery=SimpleNamespace(replay_log=replay_log))
    session: Any = SimpleNamespace(config=config, network=SimpleNamespace(switch=switch))

    async def main() -> None:
        keeping = asyncio.ensure_future(recovery.keep_switch(session))
        while not keeping.done() and (switch.left or len(restored) < switch.restarts or not switch.restarts):
            await asyncio.sleep(0)
        if keeping.done():
            await keeping
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)

    asyncio.run(main())
    return restored


def test_it_is_restored_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(Dying(3), monkeypatch) == [1, 2, 3]


def test_it_may_die_again_while_it_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(Dying(3), monkeypatch, dies_in=2) == [1, 2, 3]


def test_one_that_lives_and_cannot_be_restored_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceError, match="refused"):
        kept(Dying(3), monkeypatch, dies_in=-2)


def test_without_replay_logs_its_end_is_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SwitchFailed, match="code -9"):
        kept(Dying(1), monkeypatch, replay_log=False)
