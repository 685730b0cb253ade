"""Frames of RPCs, the cables and racks that they cross, and outages.

Workers of a rack share a port of the P4 switch, behind a switch of the rack that only forwards. Prefetch
hints for frames under way change the speed of the simulation and nothing else.
"""

from __future__ import annotations

from foundation.protocol.addressing import HOSTS_PER_BLOCK
from foundation.protocol.rpc import RPC, Rpc
from hotline_agents.interface import SERVER_OPS, WORKER_OPS
from hotline_simulator.state import HEAD_BYTES, OUTAGE_BEGINS, OUTAGE_ENDS, Outage, World
from nativekit.compile import carray, compiled, int64
from nativekit.generic import implement
from nativekit.memory import pointer
from nativekit.records import Octets
from nativekit.reference import row
from softswitch.network.events import push_event
from softswitch.network.links import (
    LINK_HOOKS,
    LinkHooks,
    address_of,
    free_frame,
    octets_at,
    send,
    store_checksum,
)
from softswitch.network.state import ABSENT

_IPV4, _IPV4_LENGTH, _CHECKSUM, _SOURCE_IP, DESTINATION_IP = 14, 16, 24, 26, 30
_UDP, _SOURCE_PORT, DESTINATION_PORT, _UDP_LENGTH, _UDP_CHECKSUM = 34, 34, 36, 38, 40
"""Offsets in a frame: headers and their fields; `_CHECKSUM` is IPv4's."""
_MAC_BYTES, _IP_BYTES, _PORT_BYTES = 6, 4, 2
_IPV4_AND_UDP_BYTES, _UDP_BYTES = 28, 8
prefetch_request_index, prefetch_request_values = SERVER_OPS.prefetch_index, SERVER_OPS.prefetch_values
prefetch_answer_index, prefetch_answer_values = WORKER_OPS.prefetch_index, WORKER_OPS.prefetch_values


@compiled
def head_of(world: World, f: int) -> Octets:
    """Return the headers before the datagram of frame `f`."""
    return octets_at(address_of(world, f), HEAD_BYTES)


@compiled
def rpc_of(world: World, f: int) -> Rpc:
    """Return the datagram of frame `f`."""
    rpc: Rpc = carray(pointer(address_of(world, f) + HEAD_BYTES), 1, RPC)[0]
    return rpc


@compiled
def fill_head(head: Octets, payload_bytes: int) -> None:
    # Set IPv4's length and checksum, and UDP's length; UDP's checksum 0 means that there is none.
    total = int64(0)
    ip_bytes, udp_bytes = _IPV4_AND_UDP_BYTES + payload_bytes, _UDP_BYTES + payload_bytes
    head[_IPV4_LENGTH], head[_IPV4_LENGTH + 1] = ip_bytes >> 8, ip_bytes & 0xFF
    head[_CHECKSUM] = head[_CHECKSUM + 1] = 0
    for k in range(_IPV4, _UDP, 2):
        total += int64(head[k]) << 8 | int64(head[k + 1])
    store_checksum(head, total)
    head[_UDP_LENGTH], head[_UDP_LENGTH + 1] = udp_bytes >> 8, udp_bytes & 0xFF
    head[_UDP_CHECKSUM] = head[_UDP_CHECKSUM + 1] = 0


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
    for link in (world.links[outage.host], world.links[_hosts(world) + outage.host]):
        link.delay += sign * outage.extra_delay_ns
        link.down_count += sign * outage.drops_frames


@compiled
def _hosts(world: World) -> int:
    return world.header.workers + world.header.servers


@compiled
def _announce(world: World, i: int, f: int) -> None:
    """Prefetch the index of the keys of frame `f`, which leaves the P4 switch for an agent."""
    a = world.interfaces[world.interfaces[i].peer].host
    if a == ABSENT:
        return
    s = a - world.header.workers
    if s >= 0:
        prefetch_request_index(row(world.servers, s), rpc_of(world, f))
    else:
        prefetch_answer_index(row(world.workers, a), rpc_of(world, f))


implement(World, LINK_HOOKS, LinkHooks(announce=_announce))


@compiled
def prefetch_arrived(world: World, a: int, f: int) -> None:
    """Prefetch the values of the keys of frame `f`, which is in the inbox of agent `a`."""
    s = a - world.header.workers
    if s >= 0:
        prefetch_request_values(row(world.servers, s), rpc_of(world, f))
    else:
        prefetch_answer_values(row(world.workers, a), rpc_of(world, f))


@compiled
def forward(world: World, i: int, f: int, now: int) -> None:
    """Forward frame `f`, which has arrived at interface `i` of a rack's switch, up or down."""
    hosts, workers_per_rack = _hosts(world), world.header.workers_per_rack
    if i < 2 * hosts:
        send(world, 2 * hosts + (i - hosts) // workers_per_rack, f, now)
        return
    # The second byte of the address is the block of workers, the fourth the number in it, from 1.
    head = head_of(world, f)
    w = HOSTS_PER_BLOCK * int64(head[DESTINATION_IP + 1]) + int64(head[DESTINATION_IP + 3]) - 1
    if w // workers_per_rack == i - 2 * hosts and w < world.header.workers:
        send(world, hosts + w, f, now)
    else:
        free_frame(world, f)
