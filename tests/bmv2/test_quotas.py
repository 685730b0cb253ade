"""BMv2 keeps the quotas of jobs, which are in entries' metadata, for later controllers."""

from __future__ import annotations

import asyncio

import pytest

from controller.controller import Controller
from controller.tables import CPU_PORT, JobRow
from softswitch import processes

pytestmark = pytest.mark.bmv2


@pytest.mark.parametrize("design", ["hotset", "collect"])
def test_a_quota_outlives_a_controller(design: str) -> None:
    async def check(address: str) -> None:
        async with Controller(address, design=design) as controller:
            await controller.commit_pipeline()
            await controller.install(
                JobRow(3, offload=True, proxy=True), JobRow(5, offload=False, proxy=True)
            )
            await controller.set_quota(3, 1_000)
            await controller.set_proxy(3, False)
        async with Controller(address) as controller:
            assert await controller.quotas() == {3: 1_024, 5: 0}
            await controller.set_quota(3, 0)
            assert await controller.quotas() == {3: 0, 5: 0}

    with processes.bmv2(cpu_port=CPU_PORT) as switch:
        asyncio.run(check(switch.address))
