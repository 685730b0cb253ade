"""Replicas of multicast groups and clone sessions, in the order of BMv2 with PI as its P4Runtime server.

BMv2 has a list of nodes, one for each instance, and each node sends to its ports in ascending order. PI
appends new nodes in the order of a hash table, and does not move those that remain (PI:
proto/frontend/src/pre_mc_mgr.cpp; BMv2: src/bm_sim/simple_pre_lag.cpp).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from softswitch.p4runtime.codecs.translation import Translation
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import invalid, unimplemented
from softswitch.pipeline import Replica
from softswitch.v1model import DROP_PORT, REPLICA_INSTANCES

MAX_INSTANCE = REPLICA_INSTANCES - 1
_BUCKET_COUNTS = (13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229)
"""Sizes of a hash table of libstdc++, which grows when it has as many elements as buckets."""


def order_replicas(replicas: Iterable[Replica], old_order: Sequence[Replica] = ()) -> list[Replica]:
    """Return the replicas in the order in which copies are sent; `old_order` is the previous order."""
    ports: dict[int, list[int]] = {}
    for port, instance in replicas:
        ports.setdefault(instance, []).append(port)
    old_nodes = [replica.instance for replica in old_order if replica.instance in ports]
    nodes = dict.fromkeys(old_nodes + _iteration_order(list(ports)))
    return [Replica(port, node) for node in nodes for port in sorted(ports[node])]


def _iteration_order(keys: list[int]) -> list[int]:
    """Return the order in which libstdc++ iterates over an `unordered_map` after inserting distinct keys."""
    order: list[int] = []
    pending_keys = keys
    for bucket_count in _BUCKET_COUNTS:
        free_buckets = bucket_count - len(order)  # keys that fit before the table grows
        order = _hash_order(order + pending_keys[:free_buckets], bucket_count)
        pending_keys = pending_keys[free_buckets:]
        if not pending_keys:
            break
    return order


def _hash_order(keys: Iterable[int], bucket_count: int) -> list[int]:
    chains: dict[int, list[int]] = {}
    for key in keys:
        chains.setdefault(key % bucket_count, []).append(key)
    # A new bucket goes to the front of the list, and a new key to the front of its bucket.
    return [key for chain in reversed(chains.values()) for key in reversed(chain)]


def decode_replicas(
    messages: Iterable[p4r.Replica], location: str, port_translation: Translation | None = None
) -> list[Replica]:
    replicas: dict[Replica, None] = {}
    for message in messages:
        if message.backup_replicas:
            raise unimplemented(f"{location}: backup replicas are not supported")
        replica = Replica(_decode_port(message, location, port_translation), message.instance)
        if replica.instance > MAX_INSTANCE:
            raise invalid(f"{location}: instance {replica.instance} is above the largest, {MAX_INSTANCE}")
        if replica in replicas:
            raise invalid(f"{location}: port {replica.port}, instance {replica.instance} is given twice")
        replicas[replica] = None
    return list(replicas)


def _decode_port(message: p4r.Replica, location: str, port_translation: Translation | None) -> int:
    kind = message.WhichOneof("port_kind")
    if kind is None or (kind == "port" and not message.port):
        raise invalid(f"{location}: the port of a replica is missing")
    if kind == "egress_port":
        port = message.egress_port
    else:
        port = (
            int.from_bytes(message.port, "big")
            if port_translation is None
            else port_translation.decode(message.port, location)
        )
    if port >= DROP_PORT:
        raise invalid(f"{location}: port {port} does not exist, ports go from 0 to {DROP_PORT - 1}")
    return port
