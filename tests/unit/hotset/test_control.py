"""What a controller does for the hot set's arms."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from controller.controller import Register
from controller.hotset.control import CONTROL
from controller.tables import HotParam, Job, State
from designs.hotset import ARMS, BOTH, NEITHER, settings_of
from designs.interface import Arm


def switch(job: Job | None = None, registers: list[Register] | None = None) -> Any:
    """A controller of a switch with this job, and these registers."""

    async def read_job(_job: int) -> Job | None:
        return job

    async def read_registers(_job: int) -> list[Register]:
        return registers or []

    return SimpleNamespace(job=read_job, registers=read_registers)


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.name)
def test_an_arm_is_changed_when_its_offload_or_its_proxy_is_another(arm: Arm) -> None:
    uses = settings_of(arm)

    def is_changed(offload: bool, proxy: bool) -> bool:
        return asyncio.run(CONTROL.is_changed(switch(Job(arm.job, offload, proxy)), arm))  # type: ignore[arg-type]

    assert not is_changed(uses.offload, uses.proxy)
    assert is_changed(not uses.offload, uses.proxy) and is_changed(uses.offload, not uses.proxy)


def test_a_parked_key_is_not_held_by_the_switch() -> None:
    registers = [
        Register(HotParam(BOTH.job, key, 0, 0, State.HOT), value) for key, value in ((1, -1), (2, None))
    ]
    assert asyncio.run(CONTROL.held(switch(registers=registers), BOTH)) == {1: -1}  # type: ignore[arg-type]
    assert asyncio.run(CONTROL.held(switch(registers=registers), NEITHER)) == {}  # type: ignore[arg-type]
