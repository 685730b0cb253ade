"""The controller's methods on a fake switch and fake servers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any, TypeVar
from unittest.mock import AsyncMock

import finsy as fy
import pytest

from controller.controller import Controller, Register
from controller.errors import DeviceError, UnknownJob, UnknownKey
from controller.schemas import schema_of
from controller.status import RPC_OUTCOMES, LaneCounters, drop_reasons
from controller.tables import (
    CPU_PORT,
    INGRESS,
    CallerKind,
    Change,
    HomeRow,
    HotParam,
    JobRow,
    KeyState,
    Route,
    RowEncoder,
    ServerRow,
    TableRow,
    Update,
    WorkerRow,
)
from foundation.designs.registry import design
from foundation.protocol.control import Command
from foundation.protocol.hashing import lane_of, ps_of
from foundation.protocol.header import CONTROLLER_CALLER, LANES, PS_BITS
from foundation.protocol.rows import ONE_VALUE, RowRanges
from tests.harness.snapshots import exactly
from tests.harness.testnet import KEY_OF

SCHEMA = schema_of(design("hotset"))
ENCODER = RowEncoder(SCHEMA.p4info)
R = TypeVar("R", bound=TableRow)
EPOCH = 77
N_CALLERS = 32
MAC = "02:00:00:00:00:01"


def server(job: int, ps: int) -> ServerRow:
    return ServerRow(job, ps, MAC, f"10.0.2.{ps + 1}", 5001, 5 + ps, MAC, f"10.0.3.{ps + 1}", 5001)


def worker(job: int, number: int, row: int) -> WorkerRow:
    return WorkerRow(job, number, 1, row, MAC, "10.0.1.1", 20_000, 1)


def controller(job: int, epoch: int, row: int) -> WorkerRow:
    end = "02:00:00:00:04:01", "10.0.4.1", 5001
    return WorkerRow(job, CONTROLLER_CALLER, epoch, row, *end, CPU_PORT, CallerKind.PRIVILEGED)


def hot(job: int, key: int, state: KeyState = KeyState.HOT, slot: int = 0) -> HotParam:
    return HotParam(job, key, lane_of(key), slot, state)


class Switch:
    """A fake of `SwitchClient`: rows in memory, and a record of requests."""

    rows: list[TableRow]
    written: list[Update]
    asked: list[tuple[Any, ...]]

    def __init__(
        self, address: str, *, device_id: int, primary: bool, exclusive: bool, design: str, limits: object
    ) -> None:
        self.asked.append(("open", address, device_id, primary, exclusive))

    async def __aenter__(self) -> Switch:
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        self.asked.append(("close", kind))

    async def commit_pipeline(self) -> bool:
        self.asked.append(("commit",))
        return True

    def check_pipeline(self) -> None:
        self.asked.append(("check",))

    async def read(self, kind: type[R]) -> list[R]:
        encoded = (ENCODER.update(Update(Change.INSERT, row)).entity for row in self.rows)
        entries = [(fy.P4TableEntry.decode(entity, SCHEMA), entity) for entity in encoded]
        ids = [SCHEMA.tables[INGRESS + table].id for table in kind.TABLES]
        return [
            kind.from_entry(entry)
            for entry, entity in entries
            if entity.table_entry.table_id in ids and kind.describes(entry)
        ]

    def table_size(self, kind: type[TableRow]) -> int:
        return N_CALLERS

    async def read_counters(self, names: Sequence[str]) -> dict[str, list[int]]:
        return {name: self._cells(name) for name in names}

    @staticmethod
    def _cells(name: str) -> list[int]:
        if name == "rpcs":
            return [1, 2, 3, 4]
        if name == "drops":
            return list(range(16))
        lane = int(name.removeprefix("bank_").removesuffix(".row_stats"))
        return [lane, 100 + lane, 200 + lane, 300 + lane]

    async def write(self, updates: Sequence[Update]) -> None:
        for update in updates:
            self.written.append(update)
            self.rows[:] = [row for row in self.rows if row.identity != update.row.identity]
            if update.change is not Change.DELETE:
                self.rows.append(update.row)


class Calls:
    """A fake of `InBand`: the value of a key that is not parked is its negative."""

    asked: list[tuple[Any, ...]]

    def __init__(self, switch: Switch, *, timeout_s: float, limits: object) -> None:
        self.epoch = EPOCH
        self._switch = switch
        self.asked.append(("timeout_s", timeout_s))

    async def __aenter__(self) -> Calls:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def check(self, servers: Sequence[ServerRow], keys: Sequence[int], ranges: RowRanges) -> None:
        assert ranges == ONE_VALUE
        self.asked.append(("check", [row.ps for row in servers], sorted(keys)))

    async def move(self, command: Command, server: ServerRow, keys: Sequence[int]) -> None:
        self.asked.append((command.name, server.ps, sorted(keys)))

    async def read(
        self, servers: Sequence[ServerRow], rows: Sequence[tuple[int, int]]
    ) -> dict[int, tuple[int, ...]]:
        keys = [key for key, dim in rows if dim == 1]
        callers = [row for row in self._switch.rows if isinstance(row, WorkerRow)]
        self.asked.append(("read", [row.ps for row in servers], list(keys), callers))
        params = [row for row in self._switch.rows if isinstance(row, HotParam)]
        parked = {row.key for row in params if row.state is KeyState.PARKED}
        return {key: (-key,) for key in keys if key not in parked}


@pytest.fixture
def switch(monkeypatch: pytest.MonkeyPatch) -> type[Switch]:
    rows: list[TableRow] = [JobRow(4, True, False), JobRow(5, False, True), server(4, 1), server(4, 0)]
    monkeypatch.setattr(Switch, "rows", rows, raising=False)
    monkeypatch.setattr(Switch, "written", [], raising=False)
    monkeypatch.setattr(Switch, "asked", [], raising=False)
    monkeypatch.setattr(Calls, "asked", [], raising=False)
    monkeypatch.setattr("controller.controller.SwitchClient", Switch)
    monkeypatch.setattr("controller.controller.InBand", Calls)
    return Switch


def on(scenario: Callable[[Controller], Awaitable[Any]], **settings: Any) -> Any:
    async def run() -> Any:
        async with Controller(**settings) as opened:
            return await scenario(opened)

    return asyncio.run(run())


def of_ps(ps: int, number: int) -> list[int]:
    return [key for key in range(1000) if ps_of(key, 2) == ps][:number]


def test_a_controller_opens_its_connection_with_the_given_settings(switch: type[Switch]) -> None:
    on(lambda c: c.commit_pipeline())
    assert switch.asked == [("open", "127.0.0.1:9559", 1, True, False), ("commit",), ("close", None)]
    on(lambda c: c.job(4), address="10.0.0.1:7", device_id=3, primary=False, timeout_s=0.5)
    assert ("open", "10.0.0.1:7", 3, False, False) in switch.asked
    on(lambda c: c.job(4), exclusive=True)
    assert ("open", "127.0.0.1:9559", 1, True, True) in switch.asked


def test_only_rows_that_differ_are_written(switch: type[Switch]) -> None:
    route = Route("02:00:00:00:00:09", 4)
    on(lambda c: c.install(JobRow(4, True, False), JobRow(5, True, True), server(5, 0), route))
    assert switch.written == [
        Update(Change.MODIFY, JobRow(5, True, True)),
        Update(Change.INSERT, server(5, 0)),
        Update(Change.INSERT, route),
    ]
    switch.written.clear()
    on(lambda c: c.install(route, server(5, 0)))
    assert switch.written == []
    on(lambda c: c.remove(route, server(5, 0)))
    assert switch.written == [Update(Change.DELETE, route), Update(Change.DELETE, server(5, 0))]
    assert switch.asked.count(("check",)) == 3


def test_a_job_is_read_and_an_unknown_job_is_an_error(switch: type[Switch]) -> None:
    assert on(lambda c: c.job(5)) == JobRow(5, False, True)
    for jobs in ("4, 5", "none"):
        with pytest.raises(UnknownJob, match=exactly(f"job 6 is not on the switch; its jobs: {jobs}")):
            on(lambda c: c.job(6))
        switch.rows.clear()


@pytest.mark.parametrize(("ids", "reported"), [([], "none"), ([1], "1"), ([0, 2], "0, 2")])
def test_a_jobs_servers_are_numbered_from_0_on(switch: type[Switch], ids: list[int], reported: str) -> None:
    switch.rows[:] = [JobRow(4, True, False), *(server(4, ps) for ps in ids), server(5, 0)]
    text = f"job 4: expected the parameter servers 0, 1, ... on the switch, got {reported}"
    with pytest.raises(UnknownJob, match=exactly(text)):
        on(lambda c: c.load(4, [1]))
    assert switch.written == []


def test_a_server_with_several_homes_is_known_by_its_number_at_each(switch: type[Switch]) -> None:
    """Here is the second home of both servers, and the packets of one to its first home pass this switch."""
    numbers = [ps | 1 << PS_BITS for ps in range(2)]
    own = [replace(server(4, ps), ps=number) for ps, number in enumerate(numbers)]
    switch.rows[:] = [JobRow(4, True, False), *own, HomeRow(4, 0, 1, 2)]
    servers = on(lambda c: c._read_servers(4))
    assert servers.n_ps == len(servers) == 2
    assert [(row.ps, row.server_id) for row in servers] == list(zip(numbers, range(2), strict=True))


@pytest.mark.parametrize(
    "row",
    [
        JobRow(4, True, False),
        server(4, 0),
        worker(4, 1, 0),
        Route(MAC, 3),
        HotParam(4, 7, 1, 0, KeyState.HOT),
    ],
)
def test_rows_are_immutable_hashable_values_with_slots(
    row: JobRow | ServerRow | WorkerRow | Route | HotParam,
) -> None:
    """There are hundreds of thousands of rows, so they have slots."""
    assert hash(row) == hash(replace(row)) and row == replace(row)
    assert not hasattr(row, "__dict__")
    with pytest.raises(FrozenInstanceError):
        setattr(row, fields(row)[0].name, 5)


def test_a_load_checks_moves_and_reports_its_progress(switch: type[Switch]) -> None:
    """The order is: ask the servers, set the entry in motion, command the PS, set the final state."""
    (first, gone), (second,) = of_ps(0, 2), of_ps(1, 1)
    switch.rows.append(hot(4, gone))
    switch.rows.append(hot(5, first))
    steps: list[tuple[int, int]] = []
    plan = on(lambda c: c.load(4, [first, second], progress=lambda *step: steps.append(step)), timeout_s=3.0)
    assert plan.summary() == {"inserts": 2, "modifies": 3, "deletes": 1, "seeded": 2, "collected": 1}
    assert steps[-1] == (3, 3) and sorted(steps) == steps
    assert Calls.asked[:3] == [
        ("timeout_s", 3.0),
        ("check", [0, 1], sorted([first, second, gone])),
        ("COLLECT", 0, [gone]),
    ]
    assert sorted(Calls.asked[3:]) == [("SEED", 0, [first]), ("SEED", 1, [second])]
    held = {(row.job, row.key): row.state for row in switch.rows if isinstance(row, HotParam)}
    assert held == {(4, first): KeyState.HOT, (4, second): KeyState.HOT, (5, first): KeyState.HOT}


def test_planning_a_change_writes_nothing(switch: type[Switch]) -> None:
    keys = of_ps(0, 3)
    assert on(lambda c: c.plan(4, keys)).summary()["seeded"] == 3
    switch.rows.append(hot(4, keys[0]))
    switch.rows.append(hot(5, keys[1], KeyState.PARKED))
    assert on(lambda c: c.plan_offload(4, False)).summary()["collected"] == 1
    assert on(lambda c: c.plan_offload(4, True)).moves == ()
    assert on(lambda c: c.plan_offload(5, True)).summary()["seeded"] == 1
    with pytest.raises(UnknownJob):
        on(lambda c: c.plan_offload(6, True))
    assert switch.written == []


def test_a_job_without_offload_parks_its_keys(switch: type[Switch]) -> None:
    switch.rows.append(server(5, 0))
    assert on(lambda c: c.load(5, [1, 2])).summary()["inserts"] == 2
    states = {row.key: row.state for row in switch.rows if isinstance(row, HotParam)}
    assert states == {1: KeyState.PARKED, 2: KeyState.PARKED}
    assert on(lambda c: c.unload(5)).summary()["deletes"] == 2
    assert not [row for row in switch.rows if isinstance(row, HotParam)]


def test_offload_is_on_as_long_as_a_value_is_in_the_switch(switch: type[Switch]) -> None:
    switch.rows.append(hot(4, 7))
    switch.rows.append(hot(5, 8))
    on(lambda c: c.set_offload(4, False))
    off = [update.row for update in switch.written]
    assert off == [hot(4, 7, KeyState.DRAINING), hot(4, 7, KeyState.PARKED), JobRow(4, False, False)]
    switch.written.clear()
    on(lambda c: c.set_offload(4, True))
    assert [update.row for update in switch.written] == [
        JobRow(4, True, False),
        hot(4, 7, KeyState.RESERVED),
        hot(4, 7),
    ]


def test_setting_the_proxy_writes_only_the_row_of_the_job(switch: type[Switch]) -> None:
    on(lambda c: c.set_proxy(4, True))
    assert switch.written == [Update(Change.MODIFY, JobRow(4, True, True))]
    on(lambda c: c.set_proxy(5, False))
    assert switch.written[1:] == [Update(Change.MODIFY, JobRow(5, False, False))]


def test_registers_are_read_as_a_caller_for_a_while(switch: type[Switch]) -> None:
    """The caller takes the lowest free row and removes what a killed controller left."""
    params = [hot(4, 30), hot(4, 7), hot(4, 9, KeyState.PARKED), hot(5, 11)]
    left, of_another_job = controller(4, 5, 2), controller(5, 5, 3)
    others = [worker(4, 1, 0), worker(4, 2, 1), of_another_job]
    switch.rows += [*params, *others, left]
    found = on(lambda c: c.registers(4), timeout_s=0.25)
    assert found == [Register(params[1], (-7,)), Register(params[2], None), Register(params[0], (-30,))]
    me = controller(4, EPOCH, 4)
    assert switch.written == [
        Update(Change.DELETE, left),
        Update(Change.INSERT, me),
        Update(Change.DELETE, me),
    ]
    assert Calls.asked == [("timeout_s", 0.25), ("read", [0, 1], [7, 9, 30], [*others, me])]
    assert on(lambda c: c.registers(4, [30, 30])) == [Register(params[0], (-30,))]


def test_registers_of_keys_without_an_entry_are_an_error(switch: type[Switch]) -> None:
    switch.rows += [hot(4, 1), hot(5, 2)]
    named = ", ".join(map(str, [2, *range(31, 40)]))
    with pytest.raises(UnknownKey, match=exactly(f"job 4 has no entry on the switch for key {named}")):
        on(lambda c: c.registers(4, [1, 2, *range(50, 30, -1)]))
    assert Calls.asked == []


def test_no_entry_is_left_for_the_controller(switch: type[Switch]) -> None:
    switch.rows += [hot(4, 1), *(worker(9, number, number) for number in range(N_CALLERS))]
    with pytest.raises(DeviceError, match=exactly("all 32 entries of table workers are taken")):
        on(lambda c: c.registers(4))


def test_a_failed_read_leaves_no_caller(switch: type[Switch], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Calls, "read", AsyncMock(side_effect=DeviceError("gone")))
    switch.rows.append(hot(4, 1))
    with pytest.raises(DeviceError, match="gone"):
        on(lambda c: c.registers(4))
    assert not [row for row in switch.rows if isinstance(row, WorkerRow)]


def test_a_renewed_caller_replaces_its_earlier_epochs_and_no_other_caller(switch: type[Switch]) -> None:
    """The earlier rows are deleted first: at no time are two lives of a worker callers."""
    renewed, others = replace(worker(4, 1, 0), epoch=3), [worker(4, 2, 1), worker(5, 1, 2)]
    switch.rows += [worker(4, 1, 0), *others]
    on(lambda c: c.renew_callers([renewed]))
    assert switch.written == [Update(Change.DELETE, worker(4, 1, 0)), Update(Change.INSERT, renewed)]
    on(lambda c: c.renew_callers([]))
    assert len(switch.written) == 2


def test_status_has_all_tables_and_counters(switch: type[Switch]) -> None:
    switch.rows += [worker(4, 1, 0), hot(4, 7), hot(5, 8, KeyState.PARKED), Route(MAC, 3)]
    found = on(lambda c: c.status())
    assert found.jobs == (JobRow(4, True, False), JobRow(5, False, True))
    assert found.servers == (server(4, 1), server(4, 0))
    assert found.workers == (worker(4, 1, 0),)
    assert set(found.params) == {hot(4, 7), hot(5, 8, KeyState.PARKED)}
    assert found.counters == on(lambda c: c.counters())
    assert found.counters.rpcs == dict(zip(RPC_OUTCOMES, (1, 2, 3, 4), strict=True))
    # The counter has more cells than there are reasons.
    assert found.counters.drops == {reason: number for number, reason in enumerate(drop_reasons())}
    assert found.counters.lanes == tuple(LaneCounters(lane, 100 + lane, 200 + lane) for lane in range(LANES))
    assert ("check",) in switch.asked
    with pytest.raises(FrozenInstanceError):
        setattr(found, "jobs", ())  # noqa: B010  # it is a value


def test_every_lanes_table_is_read(switch: type[Switch]) -> None:
    switch.rows += [hot(4, key) for key in KEY_OF]
    assert {param.key for param in on(lambda c: c.status()).params} == set(KEY_OF)
