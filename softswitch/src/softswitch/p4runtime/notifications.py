"""Notifications to controllers: digests and idle timeouts (P4Runtime 1.4 §16.3 and §16.4)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Generic

from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.pipelines import PL
from softswitch.pipeline import DigestMessage, LogRecord, Notice

program_log = logging.getLogger("softswitch.program")


class Notifications(Generic[PL]):
    """Notifications of the pipeline that `running` returns, with an alarm on the event loop.

    `send` sends a message to the primary controllers; `now` returns the time of the packets' clock, µs since
    start.
    """

    def __init__(
        self,
        running: Callable[[], ControlledPipeline[PL] | None],
        send: Callable[[p4r.StreamMessageResponse], None],
        now: Callable[[], int],
    ) -> None:
        self._running = running
        self._send = send
        self._now = now
        self._alarm: asyncio.TimerHandle | None = None

    def take(self, notice: Notice) -> None:
        running = self._running()
        match notice:
            case LogRecord(text, failed):
                program_log.log(logging.WARNING if failed else logging.INFO, "%s", text)
            case DigestMessage(digest, values) if running is not None:
                if full := running.digests.learn(digest, values, 1000 * self._now()):
                    self._send_digest(full)
                self.set_alarm()

    def forget_digests(self) -> None:
        running = self._running()
        if running is not None:
            running.digests.forget()

    def set_alarm(self) -> None:
        """Set the alarm for the next digest list or idle timeout; call it when its time may have changed."""
        self.stop()
        running = self._running()
        if running is None:
            return
        list_due, idle_due = running.digests.next_deadline(), running.timers.next_deadline()
        due = [1000 * idle_due] if idle_due is not None else []
        due += [list_due] if list_due is not None else []
        if due:
            delay = max(0, min(due) - 1000 * self._now()) / 1e9
            self._alarm = asyncio.get_running_loop().call_later(delay, self._on_alarm, running)

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _on_alarm(self, running: ControlledPipeline[PL]) -> None:
        now = self._now()
        for due in running.digests.due(1000 * now):
            self._send_digest(due)
        if idle := running.timers.expired(now):
            message = p4r.IdleTimeoutNotification(timestamp=time.time_ns())
            message.table_entry.extend(map(running.tables.idle_entry, idle))
            self._send(p4r.StreamMessageResponse(idle_timeout_notification=message))
        self.set_alarm()

    def _send_digest(self, message: p4r.DigestList) -> None:
        message.timestamp = time.time_ns()
        self._send(p4r.StreamMessageResponse(digest=message))
