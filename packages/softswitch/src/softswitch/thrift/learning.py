"""Digests as BMv2 sends them: learning notifications over a PUB socket of nanomsg (BMv2: learning.cpp)."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable
from typing import Any

from softswitch.commands.values import octets
from softswitch.errors import SwitchError
from softswitch.ir import Program, SizedConstant
from softswitch.p4runtime.service import P4RuntimeServer
from softswitch.pipeline import DigestMessage
from softswitch.runtime.refusals import RuntimeRefusal

MAX_SAMPLES, TIMEOUT_MS = 16, 1000
"""BMv2's defaults: samples of a notification, and time for which the first of them waits for others."""
_HEADER = struct.Struct("=4sQiiQI")  # topic, device, context, list, buffer, number of samples
_TOPIC, _CONTEXT = b"LEA|", 0
_MS_PER_S = 1000


class LearnNotifications:
    """A socket that sends the digests of a server's program to all clients, until `close`.

    Clients that do not read in time lose notifications. Raises SwitchError if it cannot listen.
    """

    def __init__(self, address: str, device_id: int, server: P4RuntimeServer[Any]) -> None:
        import pynng  # optional dependency

        try:
            self._socket: Any = pynng.Pub0(listen=address)  # pynng has no type annotations
        except pynng.NNGException as error:
            raise SwitchError(f"--notifications-addr {address}: {error}") from None
        self.address = address
        self._server = server
        self.lists = LearnLists(device_id, self._get_program, self._socket.send)
        server.digest_listener = self.lists.learn

    def close(self) -> None:
        self._server.digest_listener = None
        self.lists.close()
        self._socket.close()

    def _get_program(self) -> Program | None:
        control = self._server.pipelines.active
        return None if control is None else control.pipeline.program


class LearnLists:
    """The learn lists of the program that runs; all methods are called on the thread of the event loop.

    A sample that was sent is not sent again before a client acknowledges it. `get_program` returns the
    program that runs, and None if there is none. With another program, everything begins anew.
    """

    def __init__(
        self, device_id: int, get_program: Callable[[], Program | None], send: Callable[[bytes], None]
    ) -> None:
        self._device_id = device_id
        self._get_program = get_program
        self._send = send
        self._program: Program | None = None
        self._lists: list[_LearnList] = []

    def learn(self, message: DigestMessage) -> None:
        self._current_lists()[message.digest].add(message.values)

    def acknowledge(self, list_id: int, buffer_id: int, sample_ids: Iterable[int] | None) -> None:
        """Forget samples of a notification, all if there are no `sample_ids`; unknown ones are no error."""
        self._find(list_id).acknowledge(buffer_id, sample_ids)

    def set_timeout(self, list_id: int, timeout_ms: int) -> None:
        """Set for how long a sample waits for others; 0 for as long as there are too few."""
        if timeout_ms < 0:
            raise RuntimeRefusal("learn", "ERROR", f"expected a timeout of 0 ms or more, got {timeout_ms}")
        self._find(list_id).timeout_ms = timeout_ms

    def set_max_samples(self, list_id: int, max_samples: int) -> None:
        if max_samples < 1:
            raise RuntimeRefusal("learn", "ERROR", f"expected 1 sample or more, got {max_samples}")
        self._find(list_id).max_samples = max_samples

    def close(self) -> None:
        for learn_list in self._lists:
            learn_list.stop()

    def _current_lists(self) -> list[_LearnList]:
        program = self._get_program()
        if program is not self._program:
            self.close()
            self._program = program
            self._lists = [] if program is None else self._make_lists(program)
        return self._lists

    def _make_lists(self, program: Program) -> list[_LearnList]:
        lists = []
        for digest in program.digests:
            widths = [
                value.width if isinstance(value, SizedConstant) else program.width(value)
                for value in digest.values
            ]
            lists.append(_LearnList(digest.id, widths, self._device_id, self._send))
        return lists

    def _find(self, list_id: int) -> _LearnList:
        for learn_list in self._current_lists():
            if learn_list.list_id == list_id:
                return learn_list
        raise RuntimeRefusal("learn", "INVALID_LIST_ID", f"the program has no learn list {list_id}")


class _LearnList:
    def __init__(
        self, list_id: int, widths: list[int], device_id: int, send: Callable[[bytes], None]
    ) -> None:
        self.list_id = list_id
        self.max_samples, self.timeout_ms = MAX_SAMPLES, TIMEOUT_MS
        self._widths = widths
        self._device_id = device_id
        self._send = send
        self._buffer_id = 0  # of the next notification
        self._pending: list[bytes] = []
        self._unacked: dict[int, dict[int, bytes]] = {}  # samples by buffer and position
        self._known: set[bytes] = set()  # pending or not acknowledged
        self._alarm: asyncio.TimerHandle | None = None

    def add(self, values: tuple[int, ...]) -> None:
        sample = b"".join(octets(value, width) for value, width in zip(values, self._widths, strict=True))
        if sample in self._known:
            return
        self._known.add(sample)
        self._pending.append(sample)
        if len(self._pending) >= self.max_samples:
            self._notify()
        elif self._alarm is None and self.timeout_ms:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(self.timeout_ms / _MS_PER_S, self._notify)

    def acknowledge(self, buffer_id: int, sample_ids: Iterable[int] | None) -> None:
        samples = self._unacked.get(buffer_id, {})
        for sample_id in list(samples) if sample_ids is None else sample_ids:
            if sample_id in samples:
                self._known.discard(samples.pop(sample_id))
        if not samples:
            self._unacked.pop(buffer_id, None)

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _notify(self) -> None:
        self.stop()
        samples, self._pending = self._pending, []
        self._unacked[self._buffer_id] = dict(enumerate(samples))
        header = _HEADER.pack(_TOPIC, self._device_id, _CONTEXT, self.list_id, self._buffer_id, len(samples))
        self._buffer_id += 1
        self._send(header + b"".join(samples))
