"""Notifications to controllers: digests and idle timeouts (P4Runtime 1.4 §16.3 and §16.4)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic

from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.ports import PL
from softswitch.pipeline import DigestMessage, LogRecord, Notice

if TYPE_CHECKING:  # it imports numpy and numba, which would delay listening
    from softswitch.p4runtime.control import ControlledPipeline

_NS_PER_US, _NS_PER_S = 10**3, 10**9
program_log = logging.getLogger("softswitch.program")


class Notifications(Generic[PL]):
    """Notifications of the pipeline that `get_running` returns, with an alarm on the event loop.

    `send` sends a message to the primary controllers; `now` returns the time of the packets' clock, in µs
    since start.
    """

    def __init__(
        self,
        get_running: Callable[[], ControlledPipeline[PL] | None],
        send: Callable[[p4r.StreamMessageResponse], None],
        now: Callable[[], int],
    ) -> None:
        self._get_running = get_running
        self._send = send
        self._now = now
        self._alarm: asyncio.TimerHandle | None = None

    def handle_notice(self, notice: Notice) -> None:
        control = self._get_running()
        match notice:
            case LogRecord(text, failed):
                program_log.log(logging.WARNING if failed else logging.INFO, "%s", text)
            case DigestMessage(digest, values) if control is not None:
                if digest_list := control.digests.learn(digest, values, _NS_PER_US * self._now()):
                    self._send_digest_list(digest_list)
                self.reschedule()

    def forget_digests(self) -> None:
        control = self._get_running()
        if control is not None:
            control.digests.forget()

    def reschedule(self) -> None:
        """Set the alarm for the next digest list or idle timeout; call this after a change of either."""
        self.stop()
        control = self._get_running()
        if control is None:
            return
        list_deadline_ns, idle_deadline_us = control.digests.next_deadline(), control.timers.next_deadline()
        deadlines_ns = [_NS_PER_US * idle_deadline_us] if idle_deadline_us is not None else []
        deadlines_ns += [list_deadline_ns] if list_deadline_ns is not None else []
        if deadlines_ns:
            delay_s = max(0, min(deadlines_ns) - _NS_PER_US * self._now()) / _NS_PER_S
            self._alarm = asyncio.get_running_loop().call_later(delay_s, self._on_alarm)

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _on_alarm(self) -> None:
        control, now = self._get_running(), self._now()
        if control is None:
            return
        for digest_list in control.digests.due_lists(_NS_PER_US * now):
            self._send_digest_list(digest_list)
        if idle_keys := control.timers.restart_expired(now):
            message = p4r.IdleTimeoutNotification(timestamp=time.time_ns())
            message.table_entry.extend(map(control.tables.idle_entry, idle_keys))
            self._send(p4r.StreamMessageResponse(idle_timeout_notification=message))
        self.reschedule()

    def _send_digest_list(self, message: p4r.DigestList) -> None:
        message.timestamp = time.time_ns()
        self._send(p4r.StreamMessageResponse(digest=message))
