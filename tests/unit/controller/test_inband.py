"""The controller's calls through the data plane of a fake switch."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import numpy as np
import pytest

from controller.client import SwitchClient
from controller.errors import MoveRefused, NoAnswer, NotPrimary
from controller.inband import InBand, Servers
from controller.tables import ServerRow
from foundation.limits import BeginWait, WallClockLimit
from foundation.protocol import codec, control, frames
from foundation.protocol.codec import Message
from foundation.protocol.control import MAX_VALUES_KEYS, Command, Control, Status
from foundation.protocol.frames import UdpEndpoint, UdpFrame
from foundation.protocol.hashing import lane_of, ps_of
from foundation.protocol.header import CONTROLLER_CALLER, NO_KEY, RESPONSE, VERSION, Header, Op
from switch_harness.wording import mentions
from tests.harness.snapshots import exactly
from tests.harness.wire import reply

JOB = 4


def end_of(ps: int, subnet: int, first_port: int) -> UdpEndpoint:
    return UdpEndpoint(f"02:00:00:00:0{subnet}:0{ps + 1}", f"10.0.{subnet}.{ps + 1}", first_port + ps)


SERVERS = [ServerRow(JOB, ps, *end_of(ps, 2, 5001), 5 + ps, *end_of(ps, 3, 6001)) for ps in range(2)]
ME = UdpEndpoint("02:00:00:00:04:01", "10.0.4.1", 5001)
Answer = Callable[[UdpFrame], list[bytes]]


class Played:
    """A fake of `SwitchClient`: `sent` has frames with egress ports, `answer` makes packet-ins."""

    def __init__(self, answer: Answer) -> None:
        self.sent: list[tuple[UdpFrame, int | None]] = []
        self._answer = answer
        self.epochs = 1_000
        self._packets: asyncio.Queue[bytes] = asyncio.Queue()

    def new_epoch(self) -> int:
        self.epochs += 1
        return self.epochs

    async def send(self, frame: bytes, egress_port: int | None) -> None:
        parsed = frames.parse(frame)
        self.sent.append((parsed, egress_port))
        for payload in self._answer(parsed):
            self._packets.put_nowait(payload)

    async def packets(self) -> AsyncIterator[bytes]:
        while True:
            yield await self._packets.get()


def framed(payload: bytes) -> bytes:
    return frames.build(UdpFrame(ME._replace(port=7), ME, payload))


def on(
    switch: Played,
    scenario: Callable[[InBand], Awaitable[Any]],
    timeout_s: float = 30.0,
    limits: BeginWait = WallClockLimit,
) -> Any:  # what the scenario gives
    async def run() -> Any:
        async with InBand(cast(SwitchClient, switch), timeout_s=timeout_s, limits=limits) as inband:
            return await scenario(inband)

    return asyncio.run(run())


def agreeing(frame: UdpFrame, status: Status = Status.OK) -> list[bytes]:
    command = control.parse(frame.payload)
    values = None
    if command.command is Command.VALUES and status is Status.OK:
        values = np.zeros(len(command.keys), dtype=np.uint32)
    return [framed(control.build(command.answer(status, values)))]


def keys_of(ps: int, number: int) -> list[int]:
    """Return keys below and above 2^63, in turn."""
    keys = (key + half for key in range(10_000) for half in (0, 2**63))
    return [key for key in keys if ps_of(key, 2) == ps][:number]


def test_a_move_is_a_command_addressed_to_the_server() -> None:
    switch = Played(agreeing)
    keys = [3, 2**64 - 2]
    on(switch, lambda inband: inband.move(Command.COLLECT, SERVERS[1], keys))
    [(frame, port)] = switch.sent
    assert (frame.source, port) == (ME, 6)
    assert frame.destination == UdpEndpoint("02:00:00:00:02:02", "10.0.2.2", 5002)
    command = control.parse(frame.payload)
    assert (command.command, command.job, command.ps) == (Command.COLLECT, JOB, 1)
    assert command.keys.tolist() == keys and not command.is_answer


def test_commands_of_a_controller_have_distinct_numbers_and_one_epoch() -> None:
    switch = Played(agreeing)

    async def scenario(inband: InBand) -> int:
        for _ in range(2 * control.SLOTS + 1):
            await inband.move(Command.SEED, SERVERS[0], [1])
        return inband.epoch

    epoch = on(switch, scenario)
    commands = [control.parse(frame.payload) for frame, _ in switch.sent]
    assert {command.epoch for command in commands} == {epoch}
    assert len({command.seq for command in commands}) == 2 * control.SLOTS + 1
    # A slot's next number is a turn later: there are never more at a PS than it remembers.
    assert sorted(command.seq for command in commands)[-1] <= 3 * control.SLOTS


@pytest.mark.parametrize("status", [Status.NO_ENTRY, Status.NOT_OWNED])
def test_a_refused_move_names_the_ps_and_the_reason(status: Status) -> None:
    switch = Played(lambda frame: agreeing(frame, status))
    text = f"PS 1 at 10.0.2.2 answered SEED of the keys 8, ... with {status.name}; load again to finish"
    with pytest.raises(MoveRefused, match=exactly(text)):
        on(switch, lambda inband: inband.move(Command.SEED, SERVERS[1], [8, 9]))


def test_check_asks_every_owner_for_its_keys_in_datagrams_that_are_not_fragmented() -> None:
    switch = Played(agreeing)
    first, second = keys_of(0, MAX_VALUES_KEYS + 5), keys_of(1, 3)
    on(switch, lambda inband: inband.check(ALL, [*second, *first]))
    asked = [control.parse(frame.payload) for frame, _ in switch.sent]
    assert {command.command for command in asked} == {Command.VALUES}
    assert sorted((command.ps, command.keys.tolist()) for command in asked) == sorted(
        [(0, first[:MAX_VALUES_KEYS]), (0, first[MAX_VALUES_KEYS:]), (1, second)]
    )
    nothing = Played(agreeing)
    on(nothing, lambda inband: inband.check(ALL, []))
    assert nothing.sent == []


def test_a_key_that_its_ps_does_not_know_is_refused() -> None:
    switch = Played(lambda frame: agreeing(frame, Status.NOT_OWNED))
    key = keys_of(0, 1)[0]
    text = (
        f"PS 0 at 10.0.2.1 does not have all of the keys {key}, ...: not all are parameters of job 4, "
        "or another switch has some, which has to give them back first; nothing was changed"
    )
    with pytest.raises(MoveRefused, match=exactly(text)):
        on(switch, lambda inband: inband.check(ALL, [key]))


@pytest.mark.parametrize("number", [0, 5, MAX_VALUES_KEYS - 1, MAX_VALUES_KEYS, 3 * MAX_VALUES_KEYS + 2])
def test_the_busiest_keys_of_a_ps_come_page_by_page(number: int) -> None:
    ranked = np.append(np.uint64(NO_KEY), np.arange(number, dtype=np.uint64))
    counts = np.arange(number + 1, dtype=np.uint32)[::-1]

    def answer(frame: UdpFrame) -> list[bytes]:
        return [framed(control.build(control.parse(frame.payload).answer_busiest(ranked, counts)))]

    switch = Played(answer)
    keys, reported = on(switch, lambda inband: inband.busiest(SERVERS[1], number))
    assert (keys.tolist(), reported.tolist()) == (ranked.tolist(), counts.tolist())
    asked = [control.parse(frame.payload) for frame, _ in switch.sent]
    assert {(command.command, command.ps) for command in asked} == {(Command.BUSIEST, 1)}
    pages = 1 + (number + 1) // MAX_VALUES_KEYS
    assert [command.keys.tolist() for command in asked] == [
        [MAX_VALUES_KEYS * page, number] for page in range(pages)
    ]


def test_an_unanswered_call_is_repeated_and_then_fails() -> None:
    switch = Played(lambda frame: [])
    text = (
        f"PS 0 at 10.0.2.1 did not answer SEED within 1 s; is it running, and of wire version {VERSION}? "
        "Under `hotline up`, servers run only while workers do: start a script first"
    )
    with pytest.raises(NoAnswer, match=exactly(text)):
        on(switch, lambda inband: inband.move(Command.SEED, SERVERS[0], [1]), timeout_s=1.0)
    assert len(switch.sent) >= 2
    assert all(sent == switch.sent[0] for sent in switch.sent)


class CountedLooks:
    """A limit of so many looks, whatever the clock says."""

    look_s = 0.001

    def __init__(self, limit_s: float, what: str) -> None:
        self.looks, self.text = 0, f"for {limit_s:g} s of {what}"

    async def is_exceeded(self) -> bool:
        self.looks += 1
        return self.looks > LOOKS

    def describe(self) -> str:
        return self.text

    def describe_state(self) -> str:
        raise NotImplementedError  # not of a call


LOOKS = 20


def test_a_call_lasts_for_as_long_as_the_run_allows() -> None:
    """A run waits for its servers; a limit of no time would end a call before its first frame."""
    sent = 0

    def answer(frame: UdpFrame) -> list[bytes]:
        nonlocal sent
        sent += 1
        return agreeing(frame) if sent == LOOKS else []

    def move(switch: Played) -> None:
        on(switch, lambda inband: inband.move(Command.SEED, SERVERS[0], [1]), 0.0, CountedLooks)

    move(Played(answer))
    with pytest.raises(NoAnswer, match=mentions("PS 0 at 10.0.2.1", "for 0 s of answer")):
        move(Played(lambda frame: []))


def test_packets_that_do_not_answer_the_command_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    """The wrong answers differ in one field each; the right one comes last."""

    def answer(frame: UdpFrame) -> list[bytes]:
        command = control.parse(frame.payload)
        right = command.answer(Status.OK)
        wrong: list[Control] = []
        for name in ("epoch", "seq", "ps", "job"):
            changed = {name: getattr(command, name) + 1}
            wrong.append(Control(**{**_fields(command.answer(Status.NOT_OWNED)), **changed}))
        empty = Header(op=Op.EMPTY, flags=RESPONSE, epoch=command.epoch, seq=command.seq)
        noise = [b"no RPC", codec.build(Message(empty)), frame.payload, *map(control.build, wrong)]
        return [b"no frame", *map(framed, noise), *[framed(control.build(right))] * 2]

    caplog.set_level(logging.DEBUG, "controller.inband")
    on(Played(answer), lambda inband: inband.move(Command.SEED, SERVERS[0], [1]))
    reported = Counter(message.partition(":")[0] for message in caplog.messages)
    # No frame and no RPC; another epoch, and a request.
    assert reported == {
        "ignored packet-in that is not an RPC": 2,
        "ignored packet-in that does not answer this controller": 2,
    }


def _fields(command: Control) -> dict[str, Any]:
    return {name: getattr(command, name) for name in Control.__slots__}


def reading(held: dict[int, int]) -> Answer:
    """Answer pulls, with those lanes served whose keys are in `held`."""

    def answer(frame: UdpFrame) -> list[bytes]:
        request = codec.parse(frame.payload)
        assert request.keys is not None
        keys = request.keys.tolist()
        served = sum(1 << lane for lane, key in enumerate(keys) if key in held)
        values = np.array([held.get(key, 12345) & 0xFFFFFFFF for key in keys], dtype=np.uint32)
        return [framed(reply(request.header, values, served=served))]

    return answer


def test_registers_are_read_by_pulls_of_a_privileged_caller() -> None:
    held = {key: key % 1000 - 500 for ps in range(2) for key in keys_of(ps, 150)}
    not_held = [2**62, 2**62 + 1]
    switch = Played(reading(held))

    async def scenario(inband: InBand) -> tuple[dict[int, tuple[int, ...]], int]:
        return await inband.read(ALL, [(key, 1) for key in [*held, *not_held]]), inband.epoch

    found, epoch = on(switch, scenario)
    assert found == {key: (value,) for key, value in held.items()}
    turns = set()
    for frame, port in switch.sent:
        request = codec.parse(frame.payload)
        header = request.header
        assert (frame.source, port) == (ME, None)
        assert frame.destination == end_of(header.ps, 3, 6001)
        caller = header.job, header.worker, header.epoch
        assert (header.op, caller) == (Op.PULL, (JOB, CONTROLLER_CALLER, epoch))
        assert request.keys is not None and header.t0 == 0
        for lane, key in enumerate(request.keys.tolist()):
            if header.live >> lane & 1:
                assert lane_of(key) == lane and ps_of(key, 2) == header.ps
        turns.add(header.seq)
    # A slot's next number is a turn later, and no number comes twice.
    assert len(turns) == len(switch.sent) > 8
    assert {seq % 64 for seq in turns} == set(range(8)) and min(turns) == 64


def test_registers_are_read_with_a_single_server() -> None:
    held = {key: 7 for key in range(3)}
    found = on(
        Played(reading(held)),
        lambda inband: inband.read(Servers.of_one_switch(SERVERS[:1]), [(key, 1) for key in held]),
    )
    assert found == {key: (7,) for key in held}


def test_nothing_to_read_sends_nothing() -> None:
    switch = Played(reading({}))
    assert on(switch, lambda inband: inband.read(ALL, [])) == {}
    assert switch.sent == []


def test_a_switch_that_does_not_answer_reads() -> None:
    text = (
        "the switch did not answer a register read within 0.05 s; is it running, and of wire "
        f"version {VERSION}?"
    )
    with pytest.raises(NoAnswer, match=exactly(text)):
        on(Played(lambda frame: []), lambda inband: inband.read(ALL, [(1, 1)]), timeout_s=0.05)


def test_controllers_have_different_epochs_of_32_bits() -> None:
    epochs = [SwitchClient().new_epoch() for _ in range(100)]
    assert len(set(epochs)) == 100  # equal ones have a chance of 1 in a million
    struct.pack("!100I", *epochs)


class IssuingServers:
    """Fakes of servers, by number of the PS, which issue epochs; `newest` has those of their controllers."""

    def __init__(self, newest: dict[int, int]) -> None:
        self.newest, self._issued = newest, dict(newest)

    def answer(self, frame: UdpFrame) -> list[bytes]:
        command = control.parse(frame.payload)
        newest, issued = self.newest[command.ps], self._issued[command.ps]
        if (command.epoch - newest) % 2**32 > (issued - newest) % 2**32:
            self._issued[command.ps] = (issued + 1) % 2**32
            return [framed(control.build(command.answer_stale(self._issued[command.ps])))] * 2
        self.newest[command.ps] = command.epoch
        return agreeing(frame)

    def begin_another_controller(self, ps: int) -> None:
        self._issued[ps] = self.newest[ps] = self._issued[ps] + 1


@pytest.mark.parametrize("newest", [{0: 500, 1: 2**31}, {0: 2**32 - 1, 1: 2**32 - 2}, {0: 0, 1: 1001}])
def test_a_controller_takes_the_epoch_that_each_server_issues(newest: dict[int, int]) -> None:
    """Whatever the servers' newest epochs are, and with several commands under way at each."""
    switch, first = Played(IssuingServers(newest).answer), dict(newest)

    async def scenario(inband: InBand) -> None:
        for _ in range(3):
            await asyncio.gather(
                *(inband.move(Command.SEED, server, [key]) for server in SERVERS for key in range(9))
            )

    on(switch, scenario)
    commands = [control.parse(frame.payload) for frame, _ in switch.sent]
    for ps in (0, 1):
        epochs = {command.epoch for command in commands if command.ps == ps}
        assert epochs == {first[ps]} if first[ps] == 1001 else epochs == {1001, newest[ps]}
        executed = [command for command in commands if (command.ps, command.epoch) == (ps, newest[ps])]
        assert len(executed) == len({command.seq for command in executed}) == 27


def test_a_controller_loses_the_primary_role_if_a_server_obeys_a_later_controller() -> None:
    servers = IssuingServers({0: 500, 1: 700})
    switch = Played(servers.answer)

    async def scenario(inband: InBand) -> None:
        await inband.move(Command.SEED, SERVERS[1], [1])
        servers.begin_another_controller(1)
        await inband.move(Command.SEED, SERVERS[0], [1])
        await inband.move(Command.SEED, SERVERS[1], [1])

    with pytest.raises(NotPrimary, match=mentions("PS 1", "10.0.2.2", JOB, "SEED")):
        on(switch, scenario)


def test_a_first_controller_loses_the_primary_role_if_a_server_obeys_a_later_controller() -> None:
    """The server has accepted the controller's own epoch."""
    servers = IssuingServers({0: 1001, 1: 1001})
    switch = Played(servers.answer)

    async def scenario(inband: InBand) -> None:
        await inband.move(Command.SEED, SERVERS[1], [1])
        servers.begin_another_controller(1)
        await inband.move(Command.SEED, SERVERS[1], [1])

    with pytest.raises(NotPrimary):
        on(switch, scenario)


ALL = Servers.of_one_switch(SERVERS)
