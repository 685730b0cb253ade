"""Replicas of multicast groups and clone sessions, in BMv2's order under PI.

BMv2 keeps a list of nodes, one for each instance, and each sends to its ports in ascending order. PI appends
new nodes in the order of a hash table and leaves those that stay where they are (PI:
proto/frontend/src/pre_mc_mgr.cpp; BMv2: src/bm_sim/simple_pre_lag.cpp).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import invalid, unimplemented
from softswitch.pipeline import Replica
from softswitch.v1model import DROP_PORT, REPLICA_INSTANCES

MOST_INSTANCE = REPLICA_INSTANCES - 1
_BUCKETS = (13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229)
"""How a hash table of libstdc++ grows, which it does when it has as many elements as buckets."""


def copying_order(replicas: Iterable[Replica], before: Sequence[Replica] = ()) -> list[Replica]:
    """The replicas in the order in which the copies are made; `before` was that order until now."""
    ports: dict[int, list[int]] = {}
    for port, instance in replicas:
        ports.setdefault(instance, []).append(port)
    kept = [replica.instance for replica in before if replica.instance in ports]
    nodes = dict.fromkeys(kept + _iteration_order(list(ports)))
    return [Replica(port, node) for node in nodes for port in sorted(ports[node])]


def _iteration_order(keys: list[int]) -> list[int]:
    """Different numbers as libstdc++ iterates over an `unordered_map`, into which they came in this order."""
    order: list[int] = []
    pending = keys
    for buckets in _BUCKETS:
        room = buckets - len(order)
        order = _hashed(order + pending[:room], buckets)
        pending = pending[room:]
        if not pending:
            break
    return order


def _hashed(keys: Iterable[int], buckets: int) -> list[int]:
    """A new bucket goes before the others, and a new number before the others of its bucket."""
    chains: dict[int, list[int]] = {}
    for key in keys:
        chains.setdefault(key % buckets, []).append(key)
    return [key for chain in reversed(chains.values()) for key in reversed(chain)]


def decode_replicas(given: Iterable[p4r.Replica], location: str) -> list[Replica]:
    """The replicas of a message, each of which must be there once; `location` begins the errors."""
    replicas: dict[Replica, None] = {}
    for message in given:
        if message.backup_replicas:
            raise unimplemented(f"{location}: backup replicas are not supported")
        replica = Replica(_port(message, location), message.instance)
        if replica.instance > MOST_INSTANCE:
            raise invalid(f"{location}: instance {replica.instance} is above the largest, {MOST_INSTANCE}")
        if replica in replicas:
            raise invalid(f"{location}: port {replica.port}, instance {replica.instance} is given twice")
        replicas[replica] = None
    return list(replicas)


def _port(message: p4r.Replica, location: str) -> int:
    kind = message.WhichOneof("port_kind")
    if kind is None or (kind == "port" and not message.port):
        raise invalid(f"{location}: the port of a replica is missing")
    port = message.egress_port if kind == "egress_port" else int.from_bytes(message.port, "big")
    if port >= DROP_PORT:
        raise invalid(f"{location}: port {port} does not exist, ports go from 0 to {DROP_PORT - 1}")
    return port
