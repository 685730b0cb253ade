"""Controllers of a PS, one after the other, on a network that delays, repeats and reorders datagrams.

The compiled agents' PS and Scapy's are given the same datagrams. The model knows what neither of them does:
which controller came after which.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from foundation.protocol import control
from foundation.protocol.control import SLOTS, Command, Control, Status
from foundation.protocol.header import HOTLINE_PORT
from hosts.keys import KeySpace
from hosts.scapy.packets import Address, datagram_of, packet_of
from hosts.scapy.server import ScapyServer
from hotline_agents.hotset.ps.parameter_server import ParameterServer
from switch_harness.effort import examples

JOB, PS, SPACE = 4, 0, KeySpace(16)
OWN, SERVICE = Address("10.0.2.1", HOTLINE_PORT), Address("10.0.3.1", HOTLINE_PORT)
CONTROLLER = Address("10.0.4.1", HOTLINE_PORT)
U32 = st.integers(0, 2**32 - 1)
Execute = Callable[[Control], None]


class CompiledServer:
    """A durable PS of compiled agents; each HELLO that it executes is passed to `on_execution`."""

    def __init__(self, on_execution: Execute) -> None:
        self._on_execution = on_execution
        self._checkpoint: dict[str, bytes] = {}
        self._journal: list[bytes] = []
        self.core = self._start()

    def _start(self) -> ParameterServer[Address]:
        core: ParameterServer[Address] = ParameterServer(
            PS, 1, SPACE, {JOB: 1}, lambda: 0, journal_bytes=1 << 20
        )
        mover = core._movers[JOB, 0]
        execute = mover._execute

        def execute_and_record(control: Control) -> Generator[None, None, Control]:
            self._on_execution(control)
            return execute(control)

        mover._execute = execute_and_record  # type: ignore[method-assign]  # a test's own
        return core

    def handle(self, datagram: bytes) -> list[bytes]:
        self.core.command(datagram, CONTROLLER)
        return [answer for answer, _ in self.core.control_answers()]

    def restart(self, has_checkpoint: bool) -> None:
        """Restart from a new checkpoint, or from the journal, whose commands are executed again."""
        self._journal.append(self.core.server.notes)
        if has_checkpoint:
            self._checkpoint, self._journal = dict(self.core.checkpoint()), []
        on_execution, self._on_execution = self._on_execution, lambda command: None
        self.core = self._start()
        self.core.recover(self._checkpoint, self._journal)
        self._on_execution = on_execution


class ServerOfScapy:
    def __init__(self, on_execution: Execute) -> None:
        self._server = ScapyServer(PS, 1, range(16), {JOB: 1}, OWN, SERVICE)
        moves = self._server._moves[JOB]
        execute = moves._execute

        def execute_and_record(command: Any, dim: int) -> Any:
            on_execution(control.parse(bytes(command.underlayer)))
            return execute(command, dim)

        moves._execute = execute_and_record  # type: ignore[method-assign]  # a test's own

    def handle(self, datagram: bytes) -> list[bytes]:
        packets = self._server.handle(packet_of(datagram, CONTROLLER, OWN), 0)
        return [datagram_of(packet) for packet in packets]

    def restart(self, has_checkpoint: bool) -> None: ...  # it has no file


class Controller:
    """A controller as `controller.inband`, with one command under way: HELLO number 1, 2, ..."""

    def __init__(self, epoch: int) -> None:
        self.own_epoch = self.epoch = epoch
        self.has_epoch = self.is_refused = False
        self.sent = -1
        self.number = 0

    def datagram(self) -> bytes:
        keys = np.empty(0, np.uint64)
        return control.build(Control(Command.HELLO, JOB, PS, self.epoch, SLOTS * self.number, keys))

    def receive(self, datagram: bytes) -> bool:
        """Return whether a datagram answers the command under way, and has executed it."""
        answer = control.parse(datagram)
        if answer.identity != (self.epoch, SLOTS * self.number):
            return False
        if answer.status is Status.STALE:
            self.is_refused = self.has_epoch
            self.epoch, self.has_epoch = int(answer.keys[0]), True
            return False
        self.has_epoch = True
        self.number += 1
        return True


class Model:
    """What may happen: no command executes twice, or after one of a later controller, and none is lost."""

    def __init__(self, first_epoch: int) -> None:
        self.controllers: list[Controller] = [Controller(first_epoch)]
        self.executed: list[tuple[int, int]] = []  # index of the controller, number of the command

    @property
    def controller(self) -> Controller:
        return self.controllers[-1]

    def on_execution(self, command: Control) -> None:
        # Only the controller that a PS has issued an epoch to can have it, or else the two are one to the PS.
        owners = {
            k for k, each in enumerate(self.controllers) if command.epoch in (each.epoch, each.own_epoch)
        }
        assert len(owners) == 1, f"epoch {command.epoch} belongs to the controllers {owners}"
        self.executed.append((owners.pop(), command.seq // SLOTS))
        assert self.executed == sorted(set(self.executed)), self.executed

    def on_answer(self, datagram: bytes) -> None:
        number = self.controller.number
        if self.controller.receive(datagram):
            assert (len(self.controllers) - 1, number) in self.executed


SERVERS = {"compiled": CompiledServer, "scapy": ServerOfScapy}


@pytest.mark.parametrize("make_server", SERVERS.values(), ids=SERVERS)
@settings(max_examples=examples(150), deadline=None)
@given(data=st.data(), own_epochs=st.lists(U32, min_size=5, max_size=5, unique=True))
def test_no_command_of_an_earlier_controller_is_executed(
    make_server: Callable[[Execute], CompiledServer | ServerOfScapy],
    data: st.DataObject,
    own_epochs: list[int],
) -> None:
    """However datagrams are delayed and repeated, and whatever epochs the controllers begin with."""
    near = [abs((a - b + 2**31) % 2**32 - 2**31) for a in own_epochs for b in own_epochs if a != b]
    assume(min(near) > 1000)  # random epochs are near each other once in a million runs
    model = Model(own_epochs[0])
    server = make_server(model.on_execution)
    in_flight: list[bytes] = []  # to the server
    answers: list[bytes] = []
    for _ in range(data.draw(st.integers(1, 50))):
        step = data.draw(
            st.sampled_from(["send", "deliver", "deliver", "answer", "answer", "next", "restart"])
        )
        if step == "send" and not model.controller.is_refused:
            in_flight.append(model.controller.datagram())
        elif step == "deliver" and in_flight:
            answers += server.handle(data.draw(st.sampled_from(in_flight)))
        elif step == "answer" and answers:
            model.on_answer(data.draw(st.sampled_from(answers)))
        elif step == "next" and len(model.controllers) < len(own_epochs):
            # The switch sends no packet-out of the earlier controller from now on.
            model.controllers.append(Controller(own_epochs[len(model.controllers)]))
        elif step == "restart":
            server.restart(has_checkpoint=data.draw(st.booleans()))
    assert not model.controller.is_refused  # nobody came after it
    for _ in range(3):  # its command, its command with an issued epoch, and one more
        for answer in server.handle(model.controller.datagram()):
            model.on_answer(answer)
    assert {(len(model.controllers) - 1, n) for n in range(model.controller.number)} <= {*model.executed}
    assert model.controller.number >= 2


DAY_MS = 86_400_000


@pytest.mark.parametrize("make_server", SERVERS.values(), ids=SERVERS)
@pytest.mark.parametrize("first_epoch", [0, 2**31, 2**32 - 2])
@pytest.mark.parametrize(
    "step_ms", [-DAY_MS // 24, -2_000, DAY_MS // 24, 18 * DAY_MS, 30 * DAY_MS, 50 * DAY_MS]
)
def test_a_controllers_epoch_may_differ_by_any_step_of_a_clock(
    make_server: Callable[[Execute], CompiledServer | ServerOfScapy], first_epoch: int, step_ms: int
) -> None:
    """Each step was the distance of two epochs when they were times in ms. All datagrams come again, late."""
    model = Model(first_epoch)
    server = make_server(model.on_execution)
    sent: list[bytes] = []
    for k in range(1, 5):
        for _ in range(3):
            sent.append(model.controller.datagram())
            for answer in server.handle(sent[-1]):
                model.on_answer(answer)
        assert model.controller.number >= 2
        for late in sent:  # the model notices if one is executed
            server.handle(late)
        model.controllers.append(Controller((first_epoch + k * step_ms) % 2**32))


@pytest.mark.parametrize("make_server", SERVERS.values(), ids=SERVERS)
@pytest.mark.parametrize("first_epoch", [7, 2**32 - 2, 2**32 - 1])
def test_controllers_that_ask_one_after_the_other_have_different_epochs(
    make_server: Callable[[Execute], CompiledServer | ServerOfScapy], first_epoch: int
) -> None:
    """The second one's command comes after that of the third one, which asked later."""
    model = Model(first_epoch)
    server = make_server(model.on_execution)
    model.on_answer(*server.handle(model.controller.datagram()))
    late = []
    for own_epoch in (5_000, 9_000):
        model.controllers.append(Controller(own_epoch))
        model.on_answer(*server.handle(model.controller.datagram()))
        late.append(model.controller.datagram())
    model.on_answer(*server.handle(late.pop()))
    assert model.controller.number == 1
    (refusal,) = server.handle(late.pop())
    assert control.parse(refusal).status is Status.STALE and model.executed == [(0, 0), (2, 0)]


@pytest.mark.parametrize("has_checkpoint", [False, True], ids=["journal", "checkpoint"])
def test_a_restarted_server_knows_the_order_of_its_controllers(has_checkpoint: bool) -> None:
    model = Model(7)
    server = CompiledServer(model.on_execution)
    late = [model.controller.datagram()]
    model.on_answer(*server.handle(late[0]))
    model.controllers.append(Controller(5_000))
    model.on_answer(*server.handle(model.controller.datagram()))
    assert model.controller.has_epoch
    server.restart(has_checkpoint)
    for number in (1, 2):
        late.append(model.controller.datagram())
        model.on_answer(*server.handle(late[-1]))
        assert model.controller.number == number  # by the epoch that was issued before the restart
    server.restart(has_checkpoint)
    answers = [[control.parse(answer).status for answer in server.handle(datagram)] for datagram in late]
    # One of an earlier controller, one whose slot has had a later command, and the last one, once more.
    assert answers == [[Status.STALE], [], [Status.OK]]
    assert model.executed == [(0, 0), (1, 0), (1, 1)]
