"""Queues between ingress and egress: enqueue and dequeue packets, and set a timer for the next departure.

Compiled code. The clock of the queues is CLOCK_MONOTONIC, in ns.
"""

from nativekit.clocks import MONOTONIC, NS_PER_S, read_clock
from nativekit.compile import carray, compiled, int64
from nativekit.libc import memcpy, timerfd_settime
from nativekit.memory import pointer
from softswitch.memory.output import HEAD, HEAD_BYTES
from softswitch.memory.waiting import QUEUE_HEAD
from softswitch.ports.layout import NO_PORT, SwitchRecord
from softswitch.queues.fifo import next_departure, put, suspend_departures, take
from softswitch.queues.state import NEVER, NONE, Queues
from softswitch.v1model import PORT_NUMBERS

_TFD_TIMER_ABSTIME = 1


@compiled
def enqueue(switch: SwitchRecord, queues: Queues, record: int, length: int) -> None:
    head = carray(pointer(record + HEAD_BYTES), 1, QUEUE_HEAD)[0]
    number = int64(head.port)
    p = switch.index_of[number] if number < PORT_NUMBERS else NO_PORT
    if p == NO_PORT:
        switch.no_such_port += 1
    elif HEAD_BYTES + length > switch.record_bytes:
        switch.ports[p].tx_oversize += 1
    else:
        # `s` is the index of a slot, as in `queues.fifo`.
        s = put(queues, p, int64(head.priority), int64(head.length), read_clock(switch, MONOTONIC))
        if s != NONE:
            memcpy(switch.records + s * switch.record_bytes, record, HEAD_BYTES + length)


@compiled
def dequeue(switch: SwitchRecord, queues: Queues) -> int:
    """Dequeue the next packet that may depart; return its record's address, with depths filled in, or 0."""
    s = NONE if next_departure(queues) == NEVER else take(queues, read_clock(switch, MONOTONIC))
    if s == NONE:
        return 0
    p = queues.slots[s].port
    if switch.ports[p].backpressure:
        suspend_departures(queues, p)
    record: int = switch.records + s * switch.record_bytes
    queue_head = carray(pointer(record + HEAD_BYTES), 1, QUEUE_HEAD)[0]
    queue_head.enq_qdepth, queue_head.deq_qdepth = queues.slots[s].enq_qdepth, queues.slots[s].deq_qdepth
    return record


@compiled
def read_length(record: int) -> int:
    return int64(carray(pointer(record), 1, HEAD)[0].length)


@compiled
def is_due(switch: SwitchRecord, queues: Queues) -> bool:
    due_ns = next_departure(queues)
    return due_ns != NEVER and due_ns <= read_clock(switch, MONOTONIC)


@compiled
def set_timer(switch: SwitchRecord, queues: Queues) -> None:
    """Set the timer for the next departure or retry; an expired timer is readable until it is set again."""
    due_ns = min(next_departure(queues), switch.retry_at)
    if due_ns != switch.alarm:
        expiry_ns = 0 if due_ns == NEVER else max(1, due_ns)  # 0 disarms the timer
        spec = switch.itimerspec
        spec[2], spec[3] = expiry_ns // NS_PER_S, expiry_ns % NS_PER_S
        timerfd_settime(switch.timer, _TFD_TIMER_ABSTIME, spec.ctypes.data, 0)
        switch.alarm = due_ns
