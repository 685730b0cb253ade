"""A controller of several switches with hot sets, beside switches that record what they are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from controller.controller import Controller, Register
from controller.errors import DeviceError, UnknownKey
from controller.hotset.initial_rows import CONTROL
from controller.hotset.migrate import MigrationPlan
from controller.inband import Servers
from controller.network_controller import NetworkController
from controller.status import Counters, LaneCounters
from controller.tables import HotParam, KeyState, ServerRow
from foundation.designs.hotset import HotSet
from foundation.designs.interface import Arm
from foundation.protocol.control import Command
from foundation.protocol.hashing import lane_of, ps_of
from foundation.protocol.leaf_spine import SPINE, LeafSpine
from hosts.keys import KeySpace
from switch_harness.wording import mentions

SERVERS = 5
NETWORK = LeafSpine(workers=3, servers=SERVERS, leaves=3, place="leaves")
JOB = 4


class Home:
    """A switch with a hot set, in which each of its servers' first 20 keys has an entry."""

    def __init__(self, switch: int) -> None:
        self.servers = [ps for ps in range(SERVERS) if NETWORK.home_of(ps) == switch]
        self.keys = [key for key in range(100) if ps_of(key, SERVERS) in self.servers]
        self.loaded: dict[int, Sequence[int]] = {}
        self.commands: list[tuple[int, Command]] = []
        self.read: list[int] = []
        self.is_open = False

    async def __aenter__(self) -> Home:
        self.is_open = True
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.is_open = False

    async def load_all(self, hot_sets: Mapping[int, Sequence[int]], *, renew: bool, progress: Any) -> None:
        assert renew and self.is_open
        self.loaded = dict(hot_sets)
        moves = sum(map(len, hot_sets.values()))
        progress(moves, moves)

    async def load(self, _job: int, keys: Sequence[int], *, slots: Any, progress: Any) -> MigrationPlan:
        assert self.is_open and not slots
        progress(len(keys), len(keys))
        return MigrationPlan((), cast(Any, tuple(keys)))

    async def command_servers(self, job: int, command: Command, _epoch: int | None = None) -> None:
        self.commands.append((job, command))

    async def entries(self) -> list[HotParam]:
        return [HotParam(JOB, key, lane_of(key), 0, KeyState.HOT) for key in self.keys]

    async def registers(self, _job: int, keys: Sequence[int], params: Sequence[HotParam]) -> list[int]:
        assert {param.key for param in params} == set(range(100))
        self.read += keys
        return list(keys)

    async def counters(self) -> Counters:
        return Counters({"answered": 2}, {"stale_turn": 1}, (LaneCounters(1, 2, len(self.keys)),))


@pytest.fixture
def homes() -> list[Home]:
    return [Home(switch) for switch in NETWORK.homes]


def controller_of(homes: Sequence[Home]) -> NetworkController:
    return NetworkController(NETWORK, cast(Sequence[Controller], homes))


def test_each_home_loads_the_keys_of_its_servers(homes: list[Home]) -> None:
    shown: list[tuple[int, int]] = []

    async def load() -> None:
        async with controller_of(homes) as controller:
            keys = list(range(100))
            await controller.load_all(
                {JOB: keys, 5: []}, renew=True, progress=lambda done, total: shown.append((done, total))
            )
            await controller.command_servers(JOB, Command.PUBLISH)

    asyncio.run(load())
    assert [home.loaded for home in homes] == [{JOB: home.keys, 5: []} for home in homes]
    assert sorted(key for home in homes for key in home.loaded[JOB]) == list(range(100))
    assert shown[-1] == (100, 100)
    assert all(home.commands == [(JOB, Command.PUBLISH)] for home in homes)
    assert not any(home.is_open for home in homes)


def test_a_load_of_one_job_moves_each_key_at_the_home_of_its_server(homes: list[Home]) -> None:
    shown: list[tuple[int, int]] = []

    async def load() -> MigrationPlan:
        async with controller_of(homes) as controller:
            progress = lambda done, total: shown.append((done, total))  # noqa: E731
            return await controller.load(JOB, list(range(100)), progress=progress)

    plan = asyncio.run(load())
    arrived: Sequence[object] = plan.arriving
    assert list(arrived) == [key for home in homes for key in home.keys] and plan.leaving == ()
    assert shown[-1] == (100, 100)


def test_registers_are_read_at_the_homes_of_their_keys(homes: list[Home]) -> None:
    async def read() -> list[Any]:
        async with controller_of(homes) as controller:
            return [*await controller.registers(JOB), *await controller.registers(JOB, [7, 8])]

    assert sorted(asyncio.run(read())) == sorted([*range(100), 7, 8])
    for home in homes:
        assert set(home.read) == set(home.keys)


class LeafOfWorkers(Home):
    """A switch that sums rows of all servers: two of them, of which the others may have one."""

    def __init__(self, keys: Sequence[int], value: int) -> None:
        super().__init__(SPINE)
        self.keys, self.value = [*keys], value

    async def registers(self, _job: int, keys: Sequence[int] | None = None, *_params: object) -> list[Any]:
        shown = self.keys if keys is None else [key for key in keys if key in self.keys]
        return [Register(HotParam(JOB, key, lane_of(key), 0, KeyState.HOT), (self.value,)) for key in shown]


def test_leaves_of_workers_have_all_keys_and_parts_of_each_sum() -> None:
    homes = [LeafOfWorkers([3, 5], 10), LeafOfWorkers([5, 7], -4)]
    network = LeafSpine(workers=3, servers=SERVERS, leaves=2, place="worker-leaves")
    controller = NetworkController(network, cast(Sequence[Controller], homes))
    arm = Arm("collect", JOB, "collect", HotSet(aggregates=True), "#000000", "")

    async def run() -> NDArray[np.uint32]:
        async with controller:
            await controller.load_all({JOB: [3, 5, 7]}, renew=True)
            await controller.command_servers(JOB, Command.PUBLISH)
            await controller.command_servers(JOB, Command.HOLD)
            assert len(await controller.registers(JOB, [5])) == 2
            assert CONTROL.read_values is not None
            return (await CONTROL.read_values(controller, [arm], KeySpace(9)))["collect"]

    sums = asyncio.run(run())
    assert [home.loaded for home in homes] == [{JOB: [3, 5, 7]}] * 2
    # What one leaf has added is published at the other by the second command.
    assert [home.commands for home in homes] == [[(JOB, Command.PUBLISH)] * 2 + [(JOB, Command.HOLD)]] * 2
    assert sums.tolist() == [0, 0, 0, 10, 0, 6, 0, 2**32 - 4, 0]


class HomeOfLevel(Home):
    """A switch that notes its loads, and gets no key that another one has."""

    def __init__(self, others: list[HomeOfLevel]) -> None:
        super().__init__(SPINE)
        self.keys, self._others = [], others
        others.append(self)

    async def load(self, _job: int, keys: Sequence[int], **_options: object) -> MigrationPlan:
        taken = [key for other in self._others if other is not self for key in other.keys]
        assert not set(taken) & set(keys)
        self.keys = [*keys]
        return MigrationPlan((), ())

    async def load_all(self, hot_sets: Mapping[int, Sequence[int]], **_options: object) -> None:
        for job, keys in hot_sets.items():
            await self.load(job, keys)

    async def registers(self, _job: int, keys: Sequence[int], *_params: object) -> list[int]:
        assert set(keys) <= set(self.keys)
        return [*keys]


@given(st.lists(st.permutations(range(12)), min_size=2, max_size=4), st.booleans())
def test_rows_leave_a_level_before_the_arrival_at_the_other_level(
    orders: list[list[int]], loads_all: bool
) -> None:
    """The first rows of each order are at the spine; UnknownKey names a row that no switch has."""
    network, homes = LeafSpine(workers=3, servers=SERVERS, leaves=2, place="both"), list[HomeOfLevel]()
    for _ in network.homes:
        HomeOfLevel(homes)
    controller = NetworkController(network, cast(Sequence[Controller], homes))

    async def run() -> None:
        async with controller:
            for order in orders:
                keys = order[:10]
                await (controller.load_all({JOB: keys}) if loads_all else controller.load(JOB, keys))
                assert [home.keys for home in homes] == [*network.keys_by_home(keys).values()]
                read: list[Any] = [*await controller.registers(JOB)]
                assert sorted(read) == sorted(keys)
                assert await controller.registers(JOB, [keys[0], keys[9]])
                with pytest.raises(UnknownKey, match=mentions(order[10])):
                    await controller.registers(JOB, [order[0], order[10]])

    asyncio.run(run())


def test_counters_of_homes_are_added(homes: list[Home]) -> None:
    async def read() -> Counters:
        async with controller_of(homes) as controller:
            return await controller.counters()

    counters = asyncio.run(read())
    assert counters.rpcs == {"answered": 2 * len(homes)} and counters.drops == {"stale_turn": len(homes)}
    assert counters.all_lanes() == LaneCounters(len(homes), 2 * len(homes), 100)


def test_methods_for_one_switch_are_refused(homes: list[Home]) -> None:
    controller = controller_of(homes)
    for call in (controller.status(), controller.read_register("values"), controller.commit_pipeline()):
        with pytest.raises(DeviceError, match=r"one switch.* 3 "):
            asyncio.run(call)


def test_a_key_of_another_home_is_refused_by_a_switch() -> None:
    row = ServerRow(JOB, 1, "02:00:00:00:02:02", "10.0.2.2", 5001, 4, "02:00:00:00:03:02", "10.0.3.2", 5001)
    servers = Servers({1: row}, n_ps=2)
    assert list(servers) == [row] and servers[1] is row and servers.n_ps == 2
    with pytest.raises(UnknownKey, match=r"PS 0: .*\(1\)"):
        servers[0]
