"""Test the controller's part of design `hotset`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from controller.controller import Register
from controller.hotset.initial_rows import CONTROL
from controller.tables import HotParam, JobRow, KeyState
from foundation.designs.hotset import ARMS, BASELINE, OFFLOAD_PROXY, settings_of
from foundation.designs.interface import Arm
from foundation.protocol.rows import RowRange
from hosts.keys import KeySpace

T = TypeVar("T")


def result_of(asked: Awaitable[T]) -> T:
    async def wait() -> T:
        return await asked

    return asyncio.run(wait())


def switch(job: JobRow | None = None, registers: list[Register] | None = None) -> Any:
    """A controller of a switch with this job, and these registers."""

    async def read_job(_job: int) -> JobRow | None:
        return job

    async def read_registers(_job: int, *, params: list[HotParam]) -> list[Register]:
        return [each for each in registers or [] if each.param in params]

    async def read_entries() -> list[HotParam]:
        return [each.param for each in registers or []]

    return SimpleNamespace(job=read_job, registers=read_registers, entries=read_entries)


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.name)
def test_an_arm_is_changed_if_its_offload_or_proxy_setting_differs(arm: Arm) -> None:
    uses = settings_of(arm)
    has_changed = CONTROL.is_changed
    assert has_changed is not None

    def is_changed(offload: bool, proxy: bool) -> bool:
        return result_of(has_changed(switch(JobRow(arm.job, offload, proxy)), arm))

    assert not is_changed(uses.aggregates, uses.proxies)
    assert is_changed(not uses.aggregates, uses.proxies) and is_changed(uses.aggregates, not uses.proxies)


def test_a_parked_key_is_not_held_by_the_switch() -> None:
    registers = [
        Register(HotParam(OFFLOAD_PROXY.job, key, 0, 0, KeyState.HOT, dim), values)
        for key, dim, values in ((1, 4, (-1, 0, 7, 2**31 - 1)), (0, 1, None), (2, 4, None))
    ]
    arms, read_values = (OFFLOAD_PROXY, BASELINE), CONTROL.read_values
    assert read_values is not None
    space = KeySpace(3, None, (RowRange(0, 1), RowRange(1, 4)))
    found = result_of(read_values(switch(registers=registers), arms, space))
    assert {name: values.tolist() for name, values in found.items()} == {
        OFFLOAD_PROXY.name: [0, 2**32 - 1, 0, 7, 2**31 - 1, 0, 0, 0, 0]
    }
    assert result_of(read_values(switch(registers=registers), [BASELINE], space)) == {}
