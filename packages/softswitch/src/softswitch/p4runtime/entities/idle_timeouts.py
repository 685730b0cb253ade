"""Idle timers of table entries (P4Runtime 1.4 §9.1.9). Callers pass the current time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import NamedTuple

from softswitch.pipeline import EntryKey

_NS_PER_US = 1000
MIN_TIMEOUT_US = 10_000  # shorter timeouts are raised to this value


class _Timer(NamedTuple):
    start_us: int
    timeout_us: int


class IdleTimers:
    """Timers of table entries; times are µs since start. `last_hits` is called for expired timers only."""

    def __init__(self, last_hits: Callable[[Sequence[EntryKey]], list[int]]) -> None:
        self._last_hits = last_hits
        self._timers: dict[EntryKey, _Timer] = {}
        self._deadlines: list[tuple[int, EntryKey, _Timer]] = []  # heap; deadlines in µs

    def start(self, key: EntryKey, timeout_ns: int, now: int) -> None:
        self._start(key, _Timer(now, max(-(-timeout_ns // _NS_PER_US), MIN_TIMEOUT_US)))

    def stop(self, key: EntryKey) -> None:
        self._timers.pop(key, None)

    def next_deadline(self) -> int | None:
        self._drop_stopped()
        return self._deadlines[0][0] if self._deadlines else None

    def restart_expired(self, now: int) -> list[EntryKey]:
        """Restart the timers of entries whose idle timeout is over; return these entries."""
        due_timers: list[tuple[EntryKey, _Timer]] = []
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            _, key, timer = heapq.heappop(self._deadlines)
            due_timers.append((key, timer))
        expired_keys = []
        for (key, timer), last_hit in zip(
            due_timers, self._last_hits([key for key, _ in due_timers]), strict=True
        ):
            last_active = max(timer.start_us, last_hit)
            if last_active + timer.timeout_us <= now:
                expired_keys.append(key)
                last_active = now
            self._start(key, _Timer(last_active, timer.timeout_us))
        return expired_keys

    def _start(self, key: EntryKey, timer: _Timer) -> None:
        self._timers[key] = timer
        heapq.heappush(self._deadlines, (timer.start_us + timer.timeout_us, key, timer))

    def _drop_stopped(self) -> None:
        # A timer that was stopped or restarted is no longer the entry's, though it may be equal: hence `is`.
        while self._deadlines:
            _, key, timer = self._deadlines[0]
            if self._timers.get(key) is timer:
                return
            heapq.heappop(self._deadlines)
