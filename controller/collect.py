"""The controller's part of design `collect`: hot sets, and servers that collect from the switch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from controller.controller import Controller
from controller.hotset.initial_rows import CONTROL as HOTSET
from controller.tables import CallerKind, InitialRow, WorkerRow
from foundation.designs.interface import Arm, SwitchHosts
from foundation.protocol.control import Command
from foundation.protocol.header import COLLECTOR_BASE, HOTLINE_PORT, PS_CALLER_BASE


def _rows(hosts: SwitchHosts, arms: Sequence[Arm], epoch: int) -> list[InitialRow]:
    rows = HOTSET.rows(hosts, arms, epoch)
    ps_callers = [row for row in rows if isinstance(row, WorkerRow) and row.kind is CallerKind.PRIVILEGED]
    first_free = sum(isinstance(row, WorkerRow) for row in rows)  # number in the exactly-once cells
    collectors = (
        replace(
            caller,
            worker=COLLECTOR_BASE + caller.worker - PS_CALLER_BASE,
            caller=number,
            udp_port=HOTLINE_PORT,
        )
        for number, caller in enumerate(ps_callers, start=first_free)
    )
    return [*rows, *collectors]


async def _publish(controller: Controller, job: int) -> None:
    await controller.command_servers(job, Command.PUBLISH)


async def _stop_exchanges(controller: Controller, arm: Arm) -> None:
    if arm.settings.aggregates:
        await controller.command_servers(arm.job, Command.HOLD)


async def _settle(controller: Controller, job: int, epoch: int) -> None:
    await controller.command_servers(job, Command.SETTLE, epoch)


CONTROL = HOTSET._replace(rows=_rows, publish=_publish, stop_exchanges=_stop_exchanges, settle=_settle)
