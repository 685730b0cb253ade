"""The way of a frame through all switches of a network, as the interpreter runs their programs.

The state of each switch is a copy: of what the network's files have for it, or of what a running switch
has. Links have no delay and lose nothing, so that a frame is lost only by a program or for want of a link.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

from softswitch import ir
from softswitch.errors import SwitchError
from softswitch.explain.events import Event
from softswitch.explain.record import Recorder
from softswitch.explain.state import from_switch
from softswitch.interpreter import InterpretedPipeline
from softswitch.network.host import Host
from softswitch.network.link import End
from softswitch.network.network import Network
from softswitch.network.switch import NetworkSwitch
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.reconcile import carry_over

MAX_HOPS = 64
"""Maximum number of links that are followed; a frame that goes round has more."""


class RouteHop(NamedTuple):
    """A frame that a node sends, and what the switch that receives it does; None if no switch does."""

    sender: End
    receiver: End | None  # None if there is no link
    frame: bytes
    events: list[Event] | None


class CopiedSwitch:
    """A program with a copy of a switch's state, and a recorder of what the program does."""

    def __init__(self, copy_state: Callable[[CopiedSwitch], InterpretedPipeline]) -> None:
        self.program: ir.Program
        self.recorder: Recorder
        self._pipeline = copy_state(self)
        self.recorder.take()

    def make_pipeline(self, program: ir.Program) -> InterpretedPipeline:
        self.program, self.recorder = program, Recorder(program)
        return InterpretedPipeline(program, observer=self.recorder)

    def process(self, port: int, frame: bytes) -> tuple[list[Event], list[tuple[int, bytes]]]:
        """Return the events of a frame, and the frames that come out with their ports."""
        outputs = self._pipeline.process(port, frame, 0, 0)
        return self.recorder.take(), [(output.port, output.frame) for output in outputs]


def copy_planned(switch: NetworkSwitch, opened: ExitStack) -> CopiedSwitch:
    """Return a copy of a switch of a network in this process."""

    def copy_state(copy: CopiedSwitch) -> InterpretedPipeline:
        control = ControlledPipeline(switch.config, copy.make_pipeline, clock=lambda: 0)
        opened.callback(control.close)
        carry_over(switch.control, control)
        return control.pipeline

    return CopiedSwitch(copy_state)


def copy_running(switch: NetworkSwitch, address: str) -> CopiedSwitch:
    """Return a copy of a running switch, read over P4Runtime; raises `SwitchError`."""
    try:
        return CopiedSwitch(lambda copy: from_switch(address, switch.number, copy.make_pipeline, None))
    except SwitchError as error:
        raise SwitchError(f"switch {switch.name}: {error}") from None


def follow(net: Network, host: Host, frame: bytes, switches: dict[str, CopiedSwitch]) -> Iterator[RouteHop]:
    """Yield the hops of a frame that a host sends, and of all frames that switches make of it."""
    peers = {
        end: peer for link in net.links for end, peer in (link.ends, link.ends[::-1])
    }  # of an end, that of the other node
    pending = deque([(End(host.name), frame)])
    hops = 0
    while pending:
        sender, data = pending.popleft()
        receiver = peers.get(sender)
        hops += 1
        if hops > MAX_HOPS:
            raise SwitchError(f"the frame goes round: expected at most {MAX_HOPS} hops from {host.name}")
        if receiver is None or receiver.port is None:
            yield RouteHop(sender, receiver, data, None)
            continue
        events, outputs = switches[receiver.node].process(receiver.port, data)
        yield RouteHop(sender, receiver, data, events)
        pending += [(End(receiver.node, port), output) for port, output in outputs]
