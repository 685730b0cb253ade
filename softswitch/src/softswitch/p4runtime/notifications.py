"""What the switch tells controllers unasked: digests and idle timeouts (P4Runtime 1.4 §16.3 and §16.4)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.messages import p4r
from softswitch.pipeline import DigestMessage, LogRecord, Notice

program_log = logging.getLogger("softswitch.program")


class Notifications:
    """Sends with `tell` what the pipeline that `running` returns has to say, with an alarm on the event loop.

    `now` is the time that packets have, in µs since start.
    """

    def __init__(
        self,
        running: Callable[[], ControlledPipeline[Any] | None],
        tell: Callable[[p4r.StreamMessageResponse], None],
        now: Callable[[], int],
    ) -> None:
        self._running = running
        self._tell = tell
        self._now = now
        self._alarm: asyncio.TimerHandle | None = None

    def take(self, notice: Notice) -> None:
        """Pass on what a packet has told the control plane; log records go to the log."""
        running = self._running()
        match notice:
            case LogRecord(text, failed):
                program_log.log(logging.WARNING if failed else logging.INFO, "%s", text)
            case DigestMessage(digest, values) if running is not None:
                if full := running.digests.learn(digest, values, 1000 * self._now()):
                    self._tell_digest(full)
                self.set_alarm()

    def forget_digests(self) -> None:
        """Another controller is to hear all digests, whatever the one before has acknowledged."""
        running = self._running()
        if running is not None:
            running.digests.forget()

    def set_alarm(self) -> None:
        """Wake up when the next digest list or idle timeout is due; call it when that may have changed."""
        self.stop()
        running = self._running()
        if running is None:
            return
        list_due, idle_due = running.digests.next_end(), running.timers.next_end()
        due = [1000 * idle_due] if idle_due is not None else []
        due += [list_due] if list_due is not None else []
        if due:
            delay = max(0, min(due) - 1000 * self._now()) / 1e9
            self._alarm = asyncio.get_running_loop().call_later(delay, self._ring, running)

    def stop(self) -> None:
        """Set the alarm off."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ring(self, running: ControlledPipeline[Any]) -> None:
        now = self._now()
        for due in running.digests.due(1000 * now):
            self._tell_digest(due)
        if idle := running.timers.expired(now):
            message = p4r.IdleTimeoutNotification(timestamp=time.time_ns())
            message.table_entry.extend(map(running.tables.idle, idle))
            self._tell(p4r.StreamMessageResponse(idle_timeout_notification=message))
        self.set_alarm()

    def _tell_digest(self, message: p4r.DigestList) -> None:
        message.timestamp = time.time_ns()
        self._tell(p4r.StreamMessageResponse(digest=message))
