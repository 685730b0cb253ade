"""The run's switch, on its machine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from experiment.errors import SwitchFailed
from foundation.protocol import addressing
from hotline_machines.channel import SwitchEnd
from hotline_machines.errors import MachineLost
from hotline_machines.remote import RemoteMachine
from softswitch.progress import ENDED, Activity
from topologies.switches import Counters


class RemoteSwitch:
    """A `topologies.testbed.ControlledSwitch` on another machine."""

    name = addressing.SWITCH_NAME

    def __init__(self, machine: RemoteMachine, interfaces: Mapping[int, str], cpu: int | None) -> None:
        self.machine = machine
        self.pid: int | None = None
        self._interfaces, self._cpu = interfaces, cpu
        self._launches = 0
        self._end_event, self._end_message = asyncio.Event(), ""
        machine.on_switch_end = self._handle_end

    @property
    def restarts(self) -> int:
        return max(0, self._launches - 1)

    async def start(self) -> None:
        """Start the switch, and return when it listens; raise `SwitchFailed` if it ends before."""
        await self.restart()
        listening = asyncio.ensure_future(self.wait_until_listening())
        failing = asyncio.ensure_future(self.wait_until_failed())
        try:
            done, _ = await asyncio.wait([listening, failing], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (listening, failing):
                task.cancel()
            await asyncio.gather(listening, failing, return_exceptions=True)

    @property
    def is_running(self) -> bool:
        return not (self.machine.lost_event.is_set() or self._end_event.is_set())

    async def end(self) -> None:
        await self.machine.call("end_switch")

    async def restart(self) -> None:
        self._launches += 1
        self._end_event = asyncio.Event()
        self.pid = await self.machine.call("start_switch", interfaces=dict(self._interfaces), cpu=self._cpu)

    async def wait_until_listening(self) -> None:
        await self.machine.call("wait_for_switch")

    async def wait_until_failed(self) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in (self.machine.lost_event, self._end_event)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        # The machine's own end is no end of the switch that another process could follow.
        if self.machine.lost_event.is_set():
            raise self.machine.lost_error()
        raise SwitchFailed(self._end_message)

    async def activity(self) -> Activity:
        return ENDED if self.pid is None else await self.machine.read_activity(self.pid)

    def frames_sent(self) -> int | None:
        return None  # the interfaces are on the switch's machine

    async def counters(self) -> Counters | None:
        try:
            counters: Counters | None = await self.machine.call("switch_counters")
        except MachineLost:
            return None
        return counters

    def _handle_end(self, end: SwitchEnd) -> None:
        if end.launch == self._launches:
            self._end_message = f"{end.message} on {self.machine.name}"
            self._end_event.set()
