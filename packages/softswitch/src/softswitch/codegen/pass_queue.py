"""A queue of packets that wait for a pass (ingress or egress) during one call of the packet function."""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch.codegen.loops import OpaqueVariable
from softswitch.codegen.packet import Packet
from softswitch.limits import MAX_PASSES
from softswitch.llvmir import I64, byte_offset, integer

QUEUE_CAPACITY = MAX_PASSES
"""Maximum number of packets that one call can put into a queue; each takes one pass."""
RUN_BYTES = 8


class PassQueue:
    """Snapshots of `packet`, each with its run: next replica << 32 | replicas left, or 0 for one packet."""

    def __init__(self, packet: Packet, memory: llvm.Value) -> None:
        self.packet, self.b = packet, packet.b
        self.memory = memory
        self.item_bytes = self.b.add(packet.size(), integer(64, RUN_BYTES))
        self.bytes = self.b.mul(self.item_bytes, integer(64, QUEUE_CAPACITY))
        self._head, self._tail = (OpaqueVariable(self.b, I64, name=name) for name in ("head", "tail"))

    def _item_address(self, position: OpaqueVariable) -> llvm.Value:
        return byte_offset(self.b, self.memory, self.b.mul(position.get(), self.item_bytes))

    def has_packets(self) -> llvm.Value:
        b = self.b
        return b.icmp_unsigned("!=", self._head.get(), self._tail.get())

    def push(self, run: llvm.Value) -> None:
        b = self.b
        tail = self._tail.get()
        with b.if_then(b.icmp_unsigned("<", tail, integer(64, QUEUE_CAPACITY))):
            item = self._item_address(self._tail)
            b.store(run, item, align=8)
            self.packet.copy_bytes(byte_offset(b, item, RUN_BYTES), self.packet.memory, self.packet.size())
            self._tail.set(b.add(tail, integer(64, 1)))

    def run(self) -> llvm.Value:
        return self.b.load(self._item_address(self._head), typ=I64, align=8)

    def set_run(self, run: llvm.Value) -> None:
        self.b.store(run, self._item_address(self._head), align=8)

    def restore(self) -> None:
        item = byte_offset(self.b, self._item_address(self._head), RUN_BYTES)
        self.packet.copy_bytes(self.packet.memory, item, self.packet.size())

    def advance(self) -> None:
        self._head.set(self.b.add(self._head.get(), integer(64, 1)))
