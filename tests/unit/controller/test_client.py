"""The requests, elections and errors of a connection to the switch, with a fake of finsy."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import finsy as fy
import grpc
import pytest
from finsy.gnmiclient import GNMIClientError
from finsy.proto import p4r, rpc_code, rpc_status

from controller import client
from controller.client import ENTRIES_IN_READ, SwitchClient
from controller.errors import DeviceError, NotPrimary, OtherPipeline, PipelineError
from controller.schemas import schema_of
from controller.sizes import SLOTS
from controller.tables import Change, HotParam, JobRow, KeyState, Route, RowEncoder, Update
from foundation.designs.registry import design
from foundation.protocol.header import LANES, VERSION
from switch_harness.wording import mentions, says, says_in_one_line
from tests.harness.snapshots import exactly

OURS = design("hotset")
ADDRESS = "10.0.0.1:7"
ROUTES = [Update(Change.INSERT, Route(f"02:00:00:00:00:0{n}", n)) for n in range(3)]
CLOSED = f"switch {ADDRESS} has closed the connection"
LOST = f"another controller has become primary of switch {ADDRESS}"
Scenario = Callable[[SwitchClient], Awaitable[Any]]


class Switch:
    """A fake of finsy's Switch that records requests, and fails with `error`.

    `highest` returns the election id to beat at an attempt.
    """

    opened: list[fy.SwitchOptions]
    asked: list[list[Any]]
    answers: list[Any]
    closed = 0
    error: BaseException | None = None
    is_up = True
    schema = schema_of(OURS)
    highest: Callable[[int], int] = staticmethod(lambda attempt: 0)
    entering: BaseException | None = None

    def __init__(self, name: str, address: str, options: fy.SwitchOptions) -> None:
        assert address == ADDRESS
        self.opened.append(options)
        self.primary_id = self.highest(len(self.opened))
        self.is_primary = options.initial_election_id > self.primary_id
        # That of the switch, or what has just been committed.
        self.p4info = fy.P4Schema(options.p4info) if options.p4info else self.schema

    async def __aenter__(self) -> Switch:
        if self.entering is not None:
            raise self.entering
        return self

    async def __aexit__(self, *_: object) -> None:
        type(self).closed += 1
        self.primary_id = -1  # as finsy's

    async def write(self, entities: Iterable[Any]) -> None:
        self.asked.append(list(entities))
        await asyncio.sleep(0)
        self.asked.append([])
        self._fail()

    async def read(self, entity: Any) -> AsyncIterator[Any]:
        self.asked.append([entity])
        self._fail()
        for answer in self.answers:
            yield answer

    def _fail(self) -> None:
        if isinstance(self.error, AssertionError):
            # finsy reports a closed connection this way.
            type(self).is_up = False
        if self.error is not None:
            raise self.error

    async def read_packets(self, *, queue_size: int) -> AsyncIterator[Any]:
        self.asked.append([queue_size])
        for answer in self.answers:
            yield SimpleNamespace(payload=answer)


@pytest.fixture
def switch(monkeypatch: pytest.MonkeyPatch) -> type[Switch]:
    class Fresh(Switch):
        opened: list[fy.SwitchOptions] = []  # noqa: RUF012  # of this test alone, as the next two
        asked: list[list[Any]] = []  # noqa: RUF012
        answers: list[Any] = []  # noqa: RUF012

    monkeypatch.setattr(fy, "Switch", Fresh)
    return Fresh


def on(scenario: Scenario, **settings: Any) -> Any:
    async def run() -> Any:
        async with SwitchClient(ADDRESS, **settings) as opened:
            return await scenario(opened)

    return asyncio.run(run())


def connect(**settings: Any) -> None:
    on(lambda _: asyncio.sleep(0), **settings)


def reported(scenario: Scenario, kind: type[DeviceError] = DeviceError) -> str:
    with pytest.raises(DeviceError) as failure:
        on(scenario)
    assert type(failure.value) is kind
    return str(failure.value)


def test_a_connection_has_the_device_id_and_no_pipeline_in_its_options(switch: type[Switch]) -> None:
    connect(device_id=3)
    [options] = switch.opened
    assert (options.device_id, options.p4info, options.p4blob, switch.closed) == (3, None, None, 1)


def test_an_existing_primary_is_outbid_by_1(switch: type[Switch]) -> None:
    switch.highest = staticmethod(lambda attempt: 50)
    connect()
    ids = [options.initial_election_id for options in switch.opened]
    # Each connection is closed, the one that lost before the next is opened.
    assert (len(ids), ids[1], switch.closed) == (2, 51, 2)
    switch.opened.clear()
    connect(primary=False)
    assert len(switch.opened) == 1


def test_a_controller_that_outbids_every_time_is_an_error(switch: type[Switch]) -> None:
    switch.highest = staticmethod(lambda attempt: 100 * attempt)
    text = f"switch {ADDRESS}: another controller keeps taking the primary role"
    with pytest.raises(NotPrimary, match=exactly(text)):
        connect()
    assert switch.closed == len(switch.opened) > 2


def test_an_exclusive_controller_bids_highest_and_is_not_outbid(switch: type[Switch]) -> None:
    connect(exclusive=True)
    [options] = switch.opened
    bid = options.initial_election_id
    assert 1 << 127 < bid < 1 << 128
    switch.opened.clear()
    switch.highest = staticmethod(lambda attempt: bid)
    text = (
        f"switch {ADDRESS}: a run (process {os.getpid()}) is setting it up, loading "
        "it or reading it out; try again when it has done so"
    )
    for exclusive in (False, True):
        with pytest.raises(NotPrimary, match=exactly(text)):
            connect(exclusive=exclusive)
    connect(primary=False)
    assert switch.closed == 1 + len(switch.opened) == 4


def test_a_switch_that_ends_while_a_connection_is_made_is_one_error(switch: type[Switch]) -> None:
    """The client of finsy also asks for ports, by gNMI."""
    error = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), "why")
    for switch.entering in (fy.P4ClientError(error, "an RPC"), GNMIClientError(error)):
        assert reported(_check) == f"no switch answers at {ADDRESS}; is it running, and is the address right?"


def failed(code: grpc.StatusCode, *details: p4r.Error) -> fy.P4ClientError:
    status = rpc_status.Status(code=code.value[0], message="why")
    for detail in details:
        status.details.add().Pack(detail)
    trailing = grpc.aio.Metadata(("grpc-status-details-bin", status.SerializeToString()))
    return fy.P4ClientError(grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, "why"), "an RPC")


ASKING: list[tuple[str, Scenario]] = [
    ("write", lambda c: c.write(ROUTES)),
    ("read", lambda c: c.read(JobRow)),
    ("read", lambda c: c.read_counters(["rpcs"])),
    ("read", lambda c: c.read_counter_cells([("pushes", 1)])),
    ("read", lambda c: c.read_register("bank_00.values_a", 0, 2)),
    ("packet-out", lambda c: c.send(b"frame", 1)),
]


@pytest.mark.parametrize(("what", "scenario"), ASKING)
def test_an_rpc_that_fails_is_one_clear_error(switch: type[Switch], what: str, scenario: Scenario) -> None:
    switch.error = failed(grpc.StatusCode.INTERNAL)
    assert reported(scenario) == f"switch {ADDRESS}: {what} failed: INTERNAL: why"
    switch.error = failed(grpc.StatusCode.UNAVAILABLE)
    assert reported(scenario) == f"no switch answers at {ADDRESS}; is it running, and is the address right?"
    switch.error = failed(grpc.StatusCode.PERMISSION_DENIED)
    assert reported(scenario, NotPrimary) == LOST
    switch.error = grpc.aio.UsageError()
    assert reported(scenario) == CLOSED

    for switch.error in (asyncio.CancelledError(), AssertionError()):
        assert reported(scenario) == CLOSED
    # The second one closed the connection, which is asked nothing then.
    switch.asked.clear()
    assert reported(scenario) == CLOSED
    assert switch.asked == []


def test_refused_updates_are_counted_and_the_first_is_named(switch: type[Switch]) -> None:
    fine = p4r.Error(canonical_code=rpc_code.OK)
    there = p4r.Error(canonical_code=rpc_code.ALREADY_EXISTS, message="is there")
    full = p4r.Error(canonical_code=rpc_code.RESOURCE_EXHAUSTED, message="is full")
    switch.error = failed(grpc.StatusCode.UNKNOWN, fine, there, full)
    assert reported(lambda c: c.write(ROUTES)) == (
        f"switch {ADDRESS} refused 2 of 3 updates, first: insert of "
        "Route(dst_addr='02:00:00:00:00:01', port=1): ALREADY_EXISTS: is there"
    )


def test_updates_are_written_1024_at_a_time_and_side_by_side(switch: type[Switch]) -> None:
    updates = [Update(Change.INSERT, JobRow(number, True, False)) for number in range(2500)]
    on(lambda c: c.write(updates))
    assert [len(entities) for entities in switch.asked] == [1024, 1024, 452, 0, 0, 0]
    values = [update.entity.table_entry.match[0].exact.value for batch in switch.asked for update in batch]
    assert [int.from_bytes(value, "big") for value in values] == list(range(2500))
    switch.asked.clear()
    on(lambda c: c.write([]))
    assert switch.asked == []


def test_packet_outs_go_one_at_a_time(switch: type[Switch]) -> None:
    async def send(opened: SwitchClient) -> None:
        await asyncio.gather(opened.send(b"one", 3), opened.send(b"two", None))

    on(send)
    assert switch.asked == [
        [fy.P4PacketOut(b"one", egress_port=3, submit_to_ingress=0, _pad=0)],
        [],
        [fy.P4PacketOut(b"two", egress_port=0, submit_to_ingress=1, _pad=0)],
        [],
    ]
    switch.highest = staticmethod(lambda attempt: 1 << 128)
    with pytest.raises(NotPrimary, match=LOST):
        on(lambda c: c.send(b"frame", 1), primary=False)


def test_a_stream_that_takes_nothing_is_an_error(
    switch: type[Switch], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(switch, "write", wait)
    monkeypatch.setattr(client, "_SEND_TIMEOUT_S", 0.01)
    assert says(reported(lambda c: c.send(b"frame", 1)), "packet-out", "within 0.01 s", "connections")


def test_packet_ins_are_received_in_order_through_a_large_queue(switch: type[Switch]) -> None:
    """Hundreds of answers come at once: finsy drops those that do not fit its queue."""
    switch.answers = [b"one", b"two"]

    async def receive(opened: SwitchClient) -> list[bytes]:
        return [payload async for payload in opened.packets()]

    assert on(receive) == [b"one", b"two"]
    assert switch.asked == [[4096]]


def count(counter: str, index: int | None) -> SimpleNamespace:
    return SimpleNamespace(counter_id=counter, index=index, packet_count=10 * len(counter) + (index or 0))


def test_the_cells_of_counters_are_in_order(switch: type[Switch]) -> None:
    switch.answers = [count("rpcs", index) for index in (2, None, 1)] + [count("drops", 0)]
    assert on(lambda c: c.read_counters(["rpcs", "drops"])) == {"rpcs": [40, 41, 42], "drops": [50]}
    assert switch.asked == [[[fy.P4CounterEntry("rpcs"), fy.P4CounterEntry("drops")]]]


def test_requested_cells_of_counters_are_returned_in_the_requested_order(
    switch: type[Switch], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def read(_: Switch, filters: list[fy.P4CounterEntry]) -> AsyncIterator[Any]:
        asked.append(filters)
        for each in reversed(filters):
            yield count(each.counter_id, each.index or None)

    monkeypatch.setattr(switch, "read", read)
    monkeypatch.setattr(client, "_CELLS_IN_READ", 3)
    cells = [("pushes", 7), ("hits", 2), ("pushes", 0), ("pushes", 2)]
    assert on(lambda c: c.read_counter_cells(cells)) == [67, 42, 60, 62]
    filters = [fy.P4CounterEntry(name, index=index) for name, index in cells]
    assert asked == [filters[:3], filters[3:]]


def test_only_the_wanted_cells_of_a_register_are_requested(switch: type[Switch]) -> None:
    register = "bank_00.values_a"
    size = switch.schema.registers[register].size
    switch.answers = [fy.P4RegisterEntry(register, index=index, data=7 + index) for index in range(size)]
    assert on(lambda c: c.read_register(register, 0, 2)) == [7, 8]
    assert on(lambda c: c.read_register(register)) == [7 + index for index in range(size)]
    entries = [fy.P4RegisterEntry(register, index=index) for index in (0, 1)]
    assert switch.asked == [[entries], [[fy.P4RegisterEntry(register)]]]


def test_tables_are_read_together_up_to_a_number_of_entries(
    switch: type[Switch], monkeypatch: pytest.MonkeyPatch
) -> None:
    action = fy.Action("lookup_03.hot", slot=2)
    switch.answers = [
        fy.P4TableEntry("lookup_03.hot_params", match=fy.Match(job=4, dim=1, key=7), action=action)
    ]
    assert on(lambda c: c.read(HotParam)) == [HotParam(4, 7, 3, 2, KeyState.HOT)] * (LANES // 8)
    filters = [fy.P4TableEntry(f"HotlineIngress.lookup_{lane:02d}.hot_params") for lane in range(LANES)]
    assert switch.asked == [[filters[first : first + 8]] for first in range(0, LANES, 8)]
    switch.asked.clear()
    switch.answers = []
    assert on(lambda c: c.read(JobRow)) == []
    assert switch.asked == [[[fy.P4TableEntry("HotlineIngress.identify.jobs")]]]
    switch.asked.clear()
    monkeypatch.setattr(client, "ENTRIES_IN_READ", SLOTS - 1)
    assert on(lambda c: c.read(HotParam)) == []
    assert switch.asked == [[[each]] for each in filters]  # those that are larger are read alone


def test_an_answer_of_full_tables_is_below_the_limit_of_grpc() -> None:
    widest = HotParam(2**16 - 1, 2**64 - 1, LANES - 1, SLOTS - 1, KeyState.HOT, 128)
    entity = RowEncoder(schema_of(OURS).p4info).update(Update(Change.INSERT, widest)).entity
    answer = p4r.ReadResponse(entities=[entity] * ENTRIES_IN_READ)
    assert answer.ByteSize() < 4 * 2**20


async def _check(opened: SwitchClient) -> None:
    opened.check_pipeline()


def test_a_switch_without_a_pipeline_is_one_error(switch: type[Switch]) -> None:
    on(_check)
    switch.schema = fy.P4Schema()
    assert says_in_one_line(reported(_check, PipelineError), "pipeline", "up", ADDRESS)


def test_a_pipeline_of_another_design_is_named(switch: type[Switch]) -> None:
    switch.schema = fy.P4Schema(design("none").p4info)
    assert says_in_one_line(reported(_check, OtherPipeline), "nothing", ADDRESS)


@pytest.mark.parametrize(("line", "wire"), [("", "1"), ("7", "7")])
def test_a_pipeline_of_another_version_of_the_wire_is_refused_and_replaced_by_a_commit(
    switch: type[Switch], line: str, wire: str
) -> None:
    """Version 1 did not name itself."""
    other = fy.P4Schema(OURS.p4info)
    other.p4info.pkg_info.version = line
    switch.schema = other
    assert says_in_one_line(reported(_check, PipelineError), ADDRESS, wire, VERSION)
    assert on(lambda c: c.commit_pipeline()) is True


def test_the_designs_pipeline_is_committed_once(switch: type[Switch]) -> None:
    assert on(lambda c: c.commit_pipeline()) is False
    assert len(switch.opened) == 1
    switch.schema = fy.P4Schema()
    assert on(lambda c: c.commit_pipeline()) is True
    [options] = switch.opened[2:]
    # The file was parsed once, to compare it with that of the switch.
    sent: object = options.p4info
    assert sent is schema_of(OURS).p4info
    assert options.p4blob == OURS.program


def test_a_pipeline_that_was_not_built_is_an_error_that_names_make_p4(
    switch: type[Switch], monkeypatch: pytest.MonkeyPatch
) -> None:
    schema_of.cache_clear()
    missing = replace(OURS, program=OURS.program.with_name("missing.json"))
    monkeypatch.setattr(client, "find_design", lambda _name: missing)
    assert says_in_one_line(reported(_check, PipelineError), "read", "p4", missing.p4info)


@pytest.mark.parametrize(
    "address", ["10.0.0.1:1", "localhost:65535", "[::1]:9559", "switch-1.lab:80", "[fe80::1]:00080"]
)
def test_valid_addresses_are_accepted(address: str) -> None:
    assert SwitchClient(address).address == address


@pytest.mark.parametrize(
    "address",
    [
        *("10.0.0.1", "10.0.0.1:", ":1", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:100000", "a b:1", "a/b:1"),
        *("::1:9559", "[::1:9559", "::1]:9559", "[x]:1", "a:+1", "a:1 ", "a:1:2", "nonsense", ""),
    ],
)
def test_invalid_addresses_are_refused(address: str) -> None:
    text = f"switch address: expected HOST:PORT, as 127.0.0.1:9559, got {address!r}"
    with pytest.raises(DeviceError, match=exactly(text)):
        SwitchClient(address)


def test_calls_on_a_closed_connection_are_refused() -> None:
    with pytest.raises(RuntimeError, match=mentions("connection", "open")):
        SwitchClient().check_pipeline()
