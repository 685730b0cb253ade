"""Frames and links: bandwidth, propagation delay, drop-tail queues with ECN marks, faults, and outages.

Workers of a rack share a port of the P4 switch, behind a switch of the rack that only forwards. Prefetch
hints for frames under way change the speed of the simulation and nothing else.
"""

from __future__ import annotations

from foundation.protocol.addressing import HOSTS_PER_BLOCK
from hotline_agents.interface import SERVER_OPS, WORKER_OPS
from hotline_simulator.state import (
    ABSENT,
    AT_HOST,
    AT_SWITCH,
    FROM_RACK,
    OUTAGE_BEGINS,
    OUTAGE_ENDS,
    Frame,
    Link,
    Outage,
    World,
)
from nativekit.compile import compiled, int64
from nativekit.libc import memcpy
from nativekit.records import Octets
from nativekit.reference import row
from softswitch.network.chance import next_random
from softswitch.network.events import push_event
from softswitch.queues.fifo import WIRE_OVERHEAD

_IPV4, _TOS, _IPV4_LENGTH, _CHECKSUM, _SOURCE_IP, DESTINATION_IP = 14, 15, 16, 24, 26, 30
_UDP, _SOURCE_PORT, DESTINATION_PORT, _UDP_LENGTH, _UDP_CHECKSUM = 34, 34, 36, 38, 40
"""Offsets in a frame: headers and their fields; `_TOS` has the ECN bits, `_CHECKSUM` is IPv4's."""
_MAC_BYTES, _IP_BYTES, _PORT_BYTES = 6, 4, 2
_IPV4_AND_UDP_BYTES, _UDP_BYTES = 28, 8
_ECN_BITS = 3  # all of them set mean *congestion experienced*
_PICOSECONDS_PER_NS = 1000
prefetch_request_index, prefetch_request_values = SERVER_OPS.prefetch_index, SERVER_OPS.prefetch_values
prefetch_answer_index, prefetch_answer_values = WORKER_OPS.prefetch_index, WORKER_OPS.prefetch_values


@compiled
def new_frame(world: World) -> int:
    header = world.header
    header.free -= 1
    return int64(world.free[header.free])


@compiled
def free_frame(world: World, f: int) -> None:
    header = world.header
    world.free[header.free] = f
    header.free += 1


@compiled
def defer_to_python(world: World, a: int, f: int) -> None:
    """Defer frame `f` to Python, which acts for host `a`, or for the controller if `a` is ABSENT."""
    header = world.header
    world.deferred[header.deferred, 0], world.deferred[header.deferred, 1] = a, f
    header.deferred += 1


@compiled
def address_of(frame: Frame) -> int:
    return int64(frame.head.ctypes.data)


@compiled
def send_over_link(world: World, link: Link, f: int, now: int, kind: int, target: int) -> None:
    """Queue frame `f` on a link at `now`; unless it is lost, add the event of its arrival."""
    frame = world.frames[f]
    length = frame.length
    link.frames += 1
    link.bytes += length
    begin = max(link.free_at, now)
    per_byte = link.picoseconds_per_byte
    queued_bytes = 0 if per_byte == 0 else (begin - now) * _PICOSECONDS_PER_NS // per_byte
    if queued_bytes + length > link.limit:
        link.dropped += 1
        link.dropped_bytes += length
        free_frame(world, f)
        return
    link.longest_queue = max(link.longest_queue, queued_bytes + length)
    link.waited += begin - now
    if queued_bytes > link.ecn_threshold and mark_congestion(frame.head):
        link.marked += 1
    departure = begin + (length + WIRE_OVERHEAD) * per_byte // _PICOSECONDS_PER_NS
    link.free_at = departure
    link.carried += departure - begin
    arrival = departure + link.delay
    if link.down_count:
        _lose_frame(world, link, f)
        return
    if link.impaired:
        if next_random(world.header) < link.loss:
            _lose_frame(world, link, f)
            return
        if next_random(world.header) < link.duplication:
            g = new_frame(world)
            copy = world.frames[g]
            memcpy(address_of(copy), address_of(frame), length)
            copy.length = length
            link.doubled += 1
            link.doubled_bytes += length
            push_event(world, arrival, kind, target, g)
        if next_random(world.header) < link.reordering:
            link.delayed += 1
            arrival += int64(next_random(world.header) * link.max_extra_delay_ns)
    push_event(world, arrival, kind, target, f)


@compiled
def _lose_frame(world: World, link: Link, f: int) -> None:
    link.lost += 1
    link.lost_bytes += world.frames[f].length
    free_frame(world, f)


@compiled
def mark_congestion(head: Octets) -> bool:
    """Set ECN's *congestion experienced*; return False if the packet is not ECN-capable (RFC 3168)."""
    ecn_bits = int64(head[_TOS]) & _ECN_BITS
    if ecn_bits == 0:
        return False
    if ecn_bits != _ECN_BITS:
        head[_TOS] |= _ECN_BITS
        # RFC 1624: HC' = ~(~HC + ~m + m') where m is the 16-bit word that contains the ECN bits.
        old = int64(head[_TOS - 1]) << 8 | int64(head[_TOS]) & ~_ECN_BITS | ecn_bits
        new = int64(head[_TOS - 1]) << 8 | int64(head[_TOS])
        total = (~(int64(head[_CHECKSUM]) << 8 | int64(head[_CHECKSUM + 1])) & 0xFFFF) + (~old & 0xFFFF) + new
        _store_checksum(head, total)
    return True


@compiled
def fill_head(head: Octets, payload_bytes: int) -> None:
    # Set IPv4's length and checksum, and UDP's length; UDP's checksum 0 means that there is none.
    total = int64(0)
    ip_bytes, udp_bytes = _IPV4_AND_UDP_BYTES + payload_bytes, _UDP_BYTES + payload_bytes
    head[_IPV4_LENGTH], head[_IPV4_LENGTH + 1] = ip_bytes >> 8, ip_bytes & 0xFF
    head[_CHECKSUM] = head[_CHECKSUM + 1] = 0
    for k in range(_IPV4, _UDP, 2):
        total += int64(head[k]) << 8 | int64(head[k + 1])
    _store_checksum(head, total)
    head[_UDP_LENGTH], head[_UDP_LENGTH + 1] = udp_bytes >> 8, udp_bytes & 0xFF
    head[_UDP_CHECKSUM] = head[_UDP_CHECKSUM + 1] = 0


@compiled
def _store_checksum(head: Octets, total: int) -> None:
    total = (total & 0xFFFF) + (total >> 16)
    total = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    head[_CHECKSUM], head[_CHECKSUM + 1] = total >> 8, total & 0xFF


@compiled
def swap_endpoints(head: Octets, request: Octets) -> None:
    for k in range(len(head)):
        head[k] = request[k]
    for k in range(_MAC_BYTES):
        head[k], head[_MAC_BYTES + k] = request[_MAC_BYTES + k], request[k]
    for k in range(_IP_BYTES):
        head[_SOURCE_IP + k], head[DESTINATION_IP + k] = (
            request[DESTINATION_IP + k],
            request[_SOURCE_IP + k],
        )
    for k in range(_PORT_BYTES):
        head[_SOURCE_PORT + k] = request[DESTINATION_PORT + k]
        head[DESTINATION_PORT + k] = request[_SOURCE_PORT + k]


@compiled
def begin_outage(world: World, k: int, now: int) -> None:
    outage = world.outages[k]
    _apply_outage(world, outage, 1)
    push_event(world, now + outage.duration_ns, OUTAGE_ENDS, k, ABSENT)
    if outage.period_ns:
        push_event(world, now + outage.period_ns, OUTAGE_BEGINS, k, ABSENT)


@compiled
def end_outage(world: World, k: int) -> None:
    _apply_outage(world, world.outages[k], -1)


@compiled
def _apply_outage(world: World, outage: Outage, sign: int) -> None:
    # Outages of a cable may overlap: each adds its own change, and removes only its own.
    for link in (world.up[outage.host], world.down[outage.host]):
        link.delay += sign * outage.extra_delay_ns
        link.down_count += sign * outage.drops_frames


@compiled
def prefetch_departed(world: World, a: int, f: int) -> None:
    """Prefetch the index of the keys of frame `f`, which has left the switch for agent `a`."""
    s = a - world.header.workers
    if s >= 0:
        prefetch_request_index(row(world.servers, s), world.frames[f].rpc)
    else:
        prefetch_answer_index(row(world.workers, a), world.frames[f].rpc)


@compiled
def prefetch_arrived(world: World, a: int, f: int) -> None:
    """Prefetch the values of the keys of frame `f`, which is in the inbox of agent `a`."""
    s = a - world.header.workers
    if s >= 0:
        prefetch_request_values(row(world.servers, s), world.frames[f].rpc)
    else:
        prefetch_answer_values(row(world.workers, a), world.frames[f].rpc)


@compiled
def count_delivery(link: Link, frame: Frame) -> None:
    link.delivered += 1
    link.delivered_bytes += frame.length


@compiled
def forward_up(world: World, w: int, f: int, now: int) -> None:
    count_delivery(world.up[w], world.frames[f])
    send_over_link(world, world.racks_up[w // world.header.workers_per_rack], f, now, AT_SWITCH, w)


@compiled
def forward_down(world: World, r: int, f: int, now: int) -> None:
    frame, workers_per_rack = world.frames[f], world.header.workers_per_rack
    count_delivery(world.racks_down[r], frame)
    # The second byte of the address is the block of workers, the fourth the number in it, from 1.
    w = HOSTS_PER_BLOCK * int64(frame.head[DESTINATION_IP + 1]) + int64(frame.head[DESTINATION_IP + 3]) - 1
    if w // workers_per_rack == r and w < world.header.workers:
        send_over_link(world, world.down[w], f, now, AT_HOST, w)
    else:
        free_frame(world, f)


@compiled
def send_to_port(world: World, port: int, f: int, now: int) -> None:
    """Send frame `f` from the P4 switch out of a port; drop it if no host is there."""
    host, workers_per_rack = int64(world.host_at_port[port]), world.header.workers_per_rack
    if host == ABSENT:
        free_frame(world, f)
    elif workers_per_rack and host < world.header.workers:
        send_over_link(
            world, world.racks_down[host // workers_per_rack], f, now, FROM_RACK, host // workers_per_rack
        )
    else:
        prefetch_departed(world, host, f)
        send_over_link(world, world.down[host], f, now, AT_HOST, host)
