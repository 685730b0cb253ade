"""What phases do again where somebody has died meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from controller.errors import DeviceError
from experiment import health
from tests.harness.sessions import real_session


def test_it_is_done_again_until_nobody_has_died() -> None:
    async def main() -> None:
        made, attempts = real_session(), []

        async def work() -> int:
            attempts.append(made.health.is_whole)
            if len(attempts) == 1:  # it would wait for ever
                made.health.lose("s1")
                asyncio.get_running_loop().call_later(0.01, made.health.regain, "s1")
                await asyncio.Event().wait()
            if len(attempts) == 2:
                asyncio.get_running_loop().call_later(0.01, made.health.lose, "ps-0")
                asyncio.get_running_loop().call_later(0.02, made.health.regain, "ps-0")
                raise DeviceError("the switch has closed the connection")
            if len(attempts) == 3:  # it ends well, but beside a death
                made.health.lose("ps-1")
                made.health.regain("ps-1")
                await asyncio.sleep(0)
            return len(attempts)

        assert await asyncio.wait_for(made.retry_after_deaths(work), 30) == 4
        assert attempts == [True] * 4

    asyncio.run(main())


def test_a_failure_that_no_death_explains_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_KNOWN_S", 0.01)

    async def work() -> None:
        raise DeviceError("the switch refused it")

    with pytest.raises(DeviceError, match="refused"):
        asyncio.run(real_session().retry_after_deaths(work))
