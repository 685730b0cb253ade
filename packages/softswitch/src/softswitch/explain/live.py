"""`softswitch --trace`: the switch forwards with the interpreter, and writes its events to a file.

The ports call a pipeline's packet function by its address, which here is that of a Python callback. So
rings, queues, impairments and counters work as they do without a trace.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

import numpy as np

from softswitch import ir
from softswitch.errors import SwitchError
from softswitch.explain.events import Event, to_json
from softswitch.explain.filters import Filter, select
from softswitch.explain.record import Recorder
from softswitch.interpreter import InterpretedPipeline
from softswitch.jit import PROCESS_CTYPE
from softswitch.memory.output import DIGEST, HEAD_BYTES, LOG, WAITING, read_head, record_bytes, record_head
from softswitch.memory.process import DEPARTURE_PORT
from softswitch.memory.waiting import QUEUE_HEAD, QUEUE_HEAD_BYTES
from softswitch.pipeline import (
    METHODS,
    DigestMessage,
    LogRecord,
    Notice,
    PassResult,
    QueueDepths,
    WaitingPacket,
)
from softswitch.state.memory import Memory

_LOG = logging.getLogger(__name__)
_PACKET_ID_BYTES = 8
_P = ParamSpec("_P")
_R = TypeVar("_R")


class Trace(AbstractContextManager["Trace"]):
    def __init__(self, path: Path, filters: Sequence[Filter] = ()) -> None:
        self.path, self._filters = path, filters
        self.frame_numbers = itertools.count(1)
        """Numbers that continue when the program is replaced."""
        try:
            self._file = path.open("w")
        except OSError as error:
            raise SwitchError(f"--trace {path}: {error.strerror}") from None

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, events: Sequence[Event]) -> None:
        """Write events; after a failure, which is logged, write nothing more."""
        if self._file.closed:
            return
        try:
            self._file.writelines(f"{to_json(event)}\n" for event in select(events, self._filters))
            self._file.flush()
        except OSError as error:
            _LOG.error("the trace ends here: %s: %s", self.path, error.strerror)
            self.close()

    def close(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            _LOG.error("the end of the trace could not be written: %s: %s", self.path, error.strerror)


class TracedPipeline(InterpretedPipeline):
    """The interpreter as a `ports.loop.NativePipeline`; a lock serializes packets and the control plane."""

    def __init__(self, program: ir.Program, trace: Trace, priority_queues: int = 1, buffered: bool = False):
        self._recorder = Recorder(program, trace.frame_numbers)
        super().__init__(program, priority_queues, self._recorder)
        self._trace, self._buffered = trace, buffered
        self._lock = threading.RLock()
        for subject, names in METHODS.items():
            ops = getattr(self, subject)
            for name in names:
                setattr(ops, name, _with_lock(getattr(ops, name), self._lock))
        self._queues: dict[tuple[int, int], dict[int, WaitingPacket]] = {}
        """Waiting packets by port and priority, in order of arrival, each by the ID in its queue record."""
        self._ids = itertools.count()
        self._function = PROCESS_CTYPE(self._process)  # kept, as machine code has only its address
        self._mutex_memory = Memory(size_bytes=0)  # for its mutex: the state is in Python objects
        # Unlike `ctypes.cast`, this makes no reference cycle.
        self.process_address = ctypes.c_void_p.from_buffer(self._function).value or 0
        self.state_address = self._mutex_memory.address
        self.mutex_address, self.waiting_address = (
            self._mutex_memory.mutex_address,
            self._mutex_memory.waiting_address,
        )
        self.queue_record_bytes = QUEUE_HEAD_BYTES + _PACKET_ID_BYTES if buffered else 0

    def close(self) -> None:
        super().close()
        for ops in (self.tables, self.profiles, self.replication, self.cells):
            vars(ops).clear()  # the methods with a lock, which refer to `ops`
        vars(self).pop("_function", None)  # refers to the pipeline

    @contextmanager
    def transaction(self, is_atomic: bool = False) -> Iterator[None]:
        with self._lock, super().transaction(is_atomic):
            yield

    def decode_notice(self, record: bytes) -> Notice:
        # Other bits of the kind are the digest's position, or whether an assertion failed (`_encode_notice`).
        kind, _ = read_head(record)
        content = json.loads(record[HEAD_BYTES:])
        if kind & DIGEST:
            return DigestMessage(kind ^ DIGEST, tuple(content))
        return LogRecord(content, failed=bool(kind ^ LOG))

    def _process(
        self, _state: int, port: int, frame: int, length: int, t_in: int, now: int, out: int, capacity: int
    ) -> int:
        """Run and trace a packet, in place of the packet function (`softswitch.memory.process`)."""
        try:
            with self._lock:
                result = self._run(port, ctypes.string_at(frame, length), t_in, now)
                records = self._output_records(result)
                self._trace.write(self._recorder.take())
            while sum(map(len, records)) > capacity:  # loses notices first, which are last
                records.pop()
            data = b"".join(records)
            ctypes.memmove(out, data, len(data))
            return len(records)
        except Exception:  # the caller is machine code, which cannot report it
            _LOG.exception("a packet from port %d is lost", port)
            return 0

    def _run(self, port: int, data: bytes, t_in: int, now: int) -> PassResult:
        if port == DEPARTURE_PORT:
            return self.leave(self._dequeue(data), _read_depths(data), now)
        if self._buffered:
            return self.enter(port, data, t_in, now)
        return PassResult(self.process(port, data, t_in, now), [])

    def _output_records(self, result: PassResult) -> list[bytes]:
        notices = (_encode_notice(notice) for notice in self.take_notices())
        waiting = (self._enqueue(packet) for packet in result.waiting)
        return [*(_encode_record(port, frame) for port, frame in result.outputs), *waiting, *notices]

    def _enqueue(self, waiting: WaitingPacket) -> bytes:
        packet_id = next(self._ids)
        self._queues.setdefault((waiting.port, waiting.priority), {})[packet_id] = waiting
        head = np.zeros(1, QUEUE_HEAD)
        head["port"], head["priority"], head["length"] = waiting.port, waiting.priority, waiting.length
        return _encode_record(WAITING, head.tobytes() + packet_id.to_bytes(_PACKET_ID_BYTES, "little"))

    def _dequeue(self, record: bytes) -> WaitingPacket:
        """Remove and return a record's packet; the ports have dropped the earlier packets of its queue."""
        packet_id = int.from_bytes(record[QUEUE_HEAD_BYTES:][:_PACKET_ID_BYTES], "little")
        queue = next(queue for queue in self._queues.values() if packet_id in queue)
        for dropped_id in [queued_id for queued_id in queue if queued_id < packet_id]:
            self.report_dropped(queue.pop(dropped_id), "the queue of its port was full")
        return queue.pop(packet_id)


def _with_lock(method: Callable[_P, _R], lock: AbstractContextManager[object]) -> Callable[_P, _R]:
    @wraps(method)
    def method_with_lock(*arguments: _P.args, **keywords: _P.kwargs) -> _R:
        with lock:
            return method(*arguments, **keywords)

    return method_with_lock


def _read_depths(record: bytes) -> QueueDepths:
    head = np.frombuffer(record, QUEUE_HEAD, 1)[0]
    return QueueDepths(int(head["enq_qdepth"]), int(head["deq_qdepth"]))


def _encode_record(kind: int, data: bytes) -> bytes:
    return (record_head(kind, len(data)) + data).ljust(record_bytes(len(data)), b"\0")


def _encode_notice(notice: Notice) -> bytes:
    if isinstance(notice, DigestMessage):
        return _encode_record(DIGEST | notice.digest, json.dumps(notice.values).encode())
    return _encode_record(LOG | notice.failed, json.dumps(notice.text).encode())
