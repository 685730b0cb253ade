"""The rows of a run with a hot set before it is loaded: routes, servers, jobs and callers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from controller.controller import Controller, Register
from controller.forwarding import routes
from controller.tables import CallerKind, InitialRow, JobRow, ServerRow, WorkerRow
from foundation.designs.hotset import settings_of
from foundation.designs.interface import Arm, ControllerOps, SwitchHosts
from foundation.protocol import addressing
from foundation.protocol.codec import Keys, Values
from foundation.protocol.header import HOTLINE_PORT, PS_CALLER_BASE, PS_RPC_PORT


class RowSpace(Protocol):
    """The part of `hosts.keys.KeySpace` that says where a key's values are."""

    @property
    def n_values(self) -> int: ...

    def positions(self, keys: Keys) -> NDArray[np.int64]: ...

    def value_places(self, positions: NDArray[np.int64]) -> NDArray[np.int64]: ...


def _rows(hosts: SwitchHosts, arms: Sequence[Arm], epoch: int) -> list[InitialRow]:
    return [*routes(hosts), *_job_rows(hosts, arms), *_caller_rows(hosts, arms, epoch)]


def _job_rows(hosts: SwitchHosts, arms: Sequence[Arm]) -> Iterator[JobRow | ServerRow]:
    for arm_index, arm in enumerate(arms):
        for server_number in range(1, hosts.servers + 1):
            global_server = hosts.server(server_number, arm_index)
            host, service = addressing.server(global_server), addressing.service(global_server)
            yield ServerRow(
                job=arm.job,
                ps=server_number - 1,
                mac=host.mac,
                addr=host.address,
                udp_port=HOTLINE_PORT,
                port=hosts.server_port(global_server),
                service_mac=service.mac,
                service_addr=service.address,
                service_port=HOTLINE_PORT,
            )
        settings = settings_of(arm)
        yield JobRow(arm.job, offload=settings.aggregates, proxy=settings.proxies)


def _caller_rows(hosts: SwitchHosts, arms: Sequence[Arm], epoch: int) -> Iterator[WorkerRow]:
    callers = count()
    for arm_index, arm in enumerate(arms):
        for worker_number in range(1, hosts.workers + 1):
            global_worker = hosts.worker(worker_number, arm_index)
            host = addressing.worker(global_worker)
            yield WorkerRow(
                job=arm.job,
                worker=worker_number,
                epoch=epoch,
                caller=next(callers),
                mac=host.mac,
                addr=host.address,
                udp_port=addressing.worker_udp_port(arm.job),
                port=hosts.worker_port(global_worker),
            )
        for server_number in range(1, hosts.servers + 1):
            global_server = hosts.server(server_number, arm_index)
            host = addressing.server(global_server)
            yield WorkerRow(
                job=arm.job,
                worker=PS_CALLER_BASE + server_number - 1,
                epoch=epoch,
                caller=next(callers),
                mac=host.mac,
                addr=host.address,
                udp_port=PS_RPC_PORT,
                port=hosts.server_port(global_server),
                kind=CallerKind.PRIVILEGED,
            )


async def _has_changed_settings(controller: Controller, arm: Arm) -> bool:
    current, expected = await controller.job(arm.job), settings_of(arm)
    return (current.offload, current.proxy) != (expected.aggregates, expected.proxies)


async def _read_values(controller: Controller, arms: Sequence[Arm], space: RowSpace) -> dict[str, Values]:
    aggregating_arms = [arm for arm in arms if arm.settings.aggregates]
    # Entries are read once for all arms, because that takes longer than reading registers.
    params = await controller.entries() if aggregating_arms else []
    registers = {arm.name: await controller.registers(arm.job, params=params) for arm in aggregating_arms}
    return {name: _values_in(arm_registers, space) for name, arm_registers in registers.items()}


def _values_in(registers: Sequence[Register], space: RowSpace) -> Values:
    held = [(register.param.key, register.values) for register in registers if register.values is not None]
    values = np.zeros(space.n_values, np.uint32)
    keys = np.array([key for key, _ in held], np.uint64)
    row_values = np.array([value for _, row in held for value in row], np.int64)
    # A row that several switches sum has a register for each.
    np.add.at(values, space.value_places(space.positions(keys)), row_values.astype(np.uint32))
    return values


async def _count_overflows(controller: Controller) -> int:
    return sum(lane.overflows for lane in (await controller.counters()).lanes)


CONTROL = ControllerOps(_rows, _has_changed_settings, _read_values, _count_overflows)
