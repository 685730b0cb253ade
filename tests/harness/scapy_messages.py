"""RPCs as Scapy dissects and builds them, in the types of `foundation.protocol.codec`."""

from __future__ import annotations

import numpy as np

from foundation.errors import MalformedDatagram
from foundation.protocol.codec import Message
from foundation.protocol.header import Header
from hosts.scapy.packets import Address, Hotline, fault_of, packet_of

_ANY = Address("10.0.1.1", 20_001)


def parse(datagram: bytes) -> Message:
    """Decode an RPC, or a CONTROL of the controller; raises `MalformedDatagram`."""
    packet = packet_of(datagram, _ANY, _ANY)
    if (fault := fault_of(packet)) is not None:
        raise MalformedDatagram(fault)
    rpc = packet[Hotline]
    return Message(
        Header._make(int(rpc.getfieldval(name)) for name in Header._fields),
        None if rpc.keys is None else np.array(rpc.keys, np.uint64),
        None if rpc.values is None else np.array(rpc.values, np.uint32),
    )


def build(message: Message) -> bytes:
    lists = {"keys": message.keys, "values": message.values}
    present = {name: list_.tolist() for name, list_ in lists.items() if list_ is not None}
    return bytes(Hotline(**message.header._asdict(), **present))
