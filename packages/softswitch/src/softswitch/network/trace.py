"""The way of one packet through a network, and what each switch on it does to the packet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import click

from softswitch.explain.record import Recorder
from softswitch.explain.tree import draw, make_tree
from softswitch.interpreter import InterpretedPipeline
from softswitch.network.link import End
from softswitch.network.switch import NetworkSwitch
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.reconcile import carry_over


class Hop(NamedTuple):
    """A frame on a link, at the time in ns at which its sender begins to send it."""

    time_ns: int
    sender: End
    receiver: End
    frame: bytes


class PacketTrace:
    """The hops of one packet and of all that switches have made of it, in the order of their times."""

    def __init__(self) -> None:
        self.hops: list[Hop] = []

    def lines(self) -> list[str]:
        """Return a line for each hop."""
        return [
            f"{hop.time_ns / 1e3:12.3f} µs  {hop.sender} -> {hop.receiver}  {len(hop.frame)} bytes"
            for hop in self.hops
        ]


def explain(switch: NetworkSwitch, port: int, frame: bytes, time_us: int) -> Sequence[str]:
    """Return what a switch does to a frame, as `softswitch explain` prints it.

    The interpreter runs the program on a copy of the switch's entries, registers and counters as they are
    now; the switch itself does not change. Token buckets of meters are full in the copy.
    """
    recorder = Recorder(switch.control.pipeline.program)
    control = ControlledPipeline(
        switch.config, lambda program: InterpretedPipeline(program, observer=recorder), lambda: time_us
    )
    try:
        carry_over(switch.control, control)
        recorder.take()
        control.pipeline.process(port, frame, time_us, time_us)
        return click.unstyle("\n".join(draw(make_tree(recorder.take())))).splitlines()
    finally:
        control.close()
