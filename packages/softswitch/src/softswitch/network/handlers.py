"""Calls of compiled handlers: state machines of hosts that take frames, send frames, and wake themselves.

`compiled_handlers.py` makes them of functions of users.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from nativekit.compile import carray, compiled, int64, intrinsic
from nativekit.libc import memcpy
from nativekit.llvm import Context, Generated, Kind, Signature, TypingContext, Value, Values
from nativekit.memory import pointer
from softswitch.native import call_address
from softswitch.network.events import push_event
from softswitch.network.links import address_of, free_frame, new_frame
from softswitch.network.queueing import send_from_host
from softswitch.network.state import ABSENT, WAKES, NetworkState

HANDLER_SIGNATURE = types.int64(*[types.intp] * 6)
"""Arguments: address and items of the state, address and bytes of the frame, now, and the address of
the output, which has OUT_CAPACITY bytes.

A handler returns when it wants to be called without a frame (a length of 0), in ns; a negative number for
never; or `RAISED`.
"""
RAISED = -(1 << 62)
"""Returned by a handler that has raised an exception."""
WORD_BYTES = 8
"""The output begins with a word, the bytes that are used of it, itself included.

Each frame follows as a word with its length, and its bytes, which end at a multiple of a word.
"""


@intrinsic
def _call(
    _typing: TypingContext, function: Kind, state: Kind, items: Kind, frame: Kind, length: Kind, now: Kind,
    out: Kind,
) -> Generated:  # fmt: skip
    def code(context: Context, builder: ir.IRBuilder, _signature: Signature, values: Values) -> Value:
        return call_address(context, builder, HANDLER_SIGNATURE, values)

    return HANDLER_SIGNATURE.return_type(types.intp, *HANDLER_SIGNATURE.args), code


@compiled
def call_handler(net: NetworkState, h: int, frame: int, length: int, now: int) -> None:
    """Call the handler of host `h` with the frame at an address, send its frames, and set its next wake."""
    header, host = net.header, net.hosts[h]
    used = carray(pointer(header.out), 1, np.int64)
    used[0] = WORD_BYTES
    at = _call(host.handler, host.handler_state, host.handler_items, frame, length, now, header.out)
    if at == RAISED:
        header.failed_host, header.failed_length = h, ABSENT
        return
    _send_frames(net, h, used[0], now)
    schedule_wake(net, h, at)


@compiled
def _send_frames(net: NetworkState, h: int, end: int, now: int) -> None:
    header, at = net.header, WORD_BYTES
    while at < end:
        length = int64(carray(pointer(header.out + at), 1, np.int64)[0])
        if not 0 < length <= header.frame_room or header.free == 0:
            header.failed_host, header.failed_length = h, length
            return
        f = new_frame(net, length, ABSENT, now)
        memcpy(address_of(net, f), header.out + at + WORD_BYTES, length)
        send_from_host(net, net.hosts[h].interface, f, now)
        at += WORD_BYTES + (length + WORD_BYTES - 1) // WORD_BYTES * WORD_BYTES


@compiled
def schedule_wake(net: NetworkState, h: int, at: int) -> None:
    """Have the handler of host `h` called at `at`, in place of the time that was set before."""
    host = net.hosts[h]
    host.wake_at = at
    # An event that is too early is kept, so that handlers which postpone a time-out add no events.
    if at >= 0 and (host.wake_frame == ABSENT or at < host.wake_event_at):
        host.wake_event_at = max(at, net.header.now)
        # Each event has a frame, since no more events than frames can wait.
        host.wake_frame = new_frame(net, 0, ABSENT, 0)
        push_event(net, host.wake_event_at, WAKES, h, host.wake_frame)


@compiled
def wake(net: NetworkState, h: int, f: int, now: int) -> None:
    """Call the handler of host `h` if its time has come; frame `f` is that of the event."""
    host = net.hosts[h]
    free_frame(net, f)
    if host.wake_frame != f:
        return  # there was an earlier event in its place
    host.wake_frame = ABSENT
    if host.wake_at > now:
        schedule_wake(net, h, host.wake_at)
    elif host.wake_at >= 0:
        call_handler(net, h, address_of(net, f), 0, now)
