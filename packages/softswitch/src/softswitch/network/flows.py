"""Sources and sinks of traffic: flows that hosts send, and what is counted where they arrive."""

from __future__ import annotations

from nativekit.compile import compiled, int64
from nativekit.generic import implement
from nativekit.libc import memcpy
from softswitch.network.chance import next_exponential
from softswitch.network.events import push_event
from softswitch.network.handlers import call_handler
from softswitch.network.links import (
    LINK_HOOKS,
    LinkHooks,
    address_of,
    defer_to_python,
    free_frame,
    new_frame,
)
from softswitch.network.queueing import send_from_host
from softswitch.network.state import ABSENT, AT_HOST, POISSON, SENDS, TRACE, Flow, NetworkState


@compiled
def send_next(net: NetworkState, k: int, now: int) -> None:
    """Send the next frame of flow `k`, and schedule the one after it."""
    flow = net.flows[k]
    template = net.templates[flow.first_template + flow.sent % flow.templates]
    length = template.length
    f = new_frame(net, length, k, now)
    memcpy(address_of(net, f), int64(net.template_octets.ctypes.data) + template.offset, length)
    flow.sent += 1
    flow.sent_bytes += length
    if flow.sent < flow.count:
        push_event(net, _next_time(net, flow, now), SENDS, k, ABSENT)
    send_from_host(net, net.hosts[flow.host].interface, f, now)


@compiled
def _next_time(net: NetworkState, flow: Flow, now: int) -> int:
    if flow.kind == POISSON:
        return now + int64(next_exponential(flow) * flow.interval)
    if flow.kind == TRACE:
        return flow.begin + int64(net.times[flow.first_time + flow.sent])
    return now + flow.interval


@compiled
def arrive_at_host(net: NetworkState, h: int, f: int, now: int) -> None:
    """Count a frame that host `h` receives; its handler gets it, or Python does if it is of no flow."""
    host, frame = net.hosts[h], net.frames[f]
    host.frames += 1
    host.bytes += frame.length
    k = frame.flow
    if k != ABSENT:
        _count_receipt(net, h, k, f, now)
    if host.handler:
        call_handler(net, h, address_of(net, f), frame.length, now)
    if host.is_python or (k == ABSENT and not host.handler):
        defer_to_python(net, AT_HOST, h, f)
    else:
        free_frame(net, f)


@compiled
def _count_receipt(net: NetworkState, h: int, k: int, f: int, now: int) -> None:
    flow, frame = net.flows[k], net.frames[f]
    delay = now - frame.sent
    flow.received += 1
    flow.received_bytes += frame.length
    flow.delay += delay
    flow.min_delay, flow.max_delay = min(flow.min_delay, delay), max(flow.max_delay, delay)
    flow.last_received = now
    if flow.is_logged:
        receipt = net.receipts[net.header.receipts]
        net.header.receipts += 1
        receipt.flow, receipt.host, receipt.sent, receipt.received = k, h, frame.sent, now
        receipt.length = frame.length


@compiled
def _announce(_net: NetworkState, _i: int, _f: int) -> None: ...


implement(NetworkState, LINK_HOOKS, LinkHooks(announce=_announce))
