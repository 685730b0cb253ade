"""A queue of packets that wait for a pass; it lives for one call of the packet function."""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch.codegen.packet import Packet
from softswitch.limits import MAX_PASSES
from softswitch.llvmir import I64, byte_offset, integer

CAPACITY = MAX_PASSES
"""Packets that one call can put into a queue: each waits for a pass of its own."""
RUN_BYTES = 8


class Queue:
    """Snapshots of `packet`, each with a run of replicas (first << 32 | how many are left), or 0 for one."""

    def __init__(self, packet: Packet, memory: llvm.Value) -> None:
        self.packet, self.b = packet, packet.b
        self.memory = memory
        self.item_bytes = self.b.add(packet.size(), integer(64, RUN_BYTES))
        self.bytes = self.b.mul(self.item_bytes, integer(64, CAPACITY))
        self._head, self._tail = (self.b.alloca(I64, name=name) for name in ("head", "tail"))
        for end in (self._head, self._tail):
            self.b.store(integer(64, 0), end)

    def _at(self, end: llvm.Value) -> llvm.Value:
        return byte_offset(self.b, self.memory, self.b.mul(self.b.load(end, typ=I64), self.item_bytes))

    def is_waiting(self) -> llvm.Value:
        """An `i1`: is there a packet?"""
        b = self.b
        return b.icmp_unsigned("!=", b.load(self._head, typ=I64), b.load(self._tail, typ=I64))

    def push(self, run: llvm.Value) -> None:
        """Append the packet as it is now."""
        b = self.b
        tail = b.load(self._tail, typ=I64)
        with b.if_then(b.icmp_unsigned("<", tail, integer(64, CAPACITY))):
            item = self._at(self._tail)
            b.store(run, item, align=8)
            self.packet.copy_bytes(byte_offset(b, item, RUN_BYTES), self.packet.memory, self.packet.size())
            b.store(b.add(tail, integer(64, 1)), self._tail)

    def run(self) -> llvm.Value:
        """The run of the first packet."""
        return self.b.load(self._at(self._head), typ=I64, align=8)

    def set_run(self, run: llvm.Value) -> None:
        """Change the run of the first packet."""
        self.b.store(run, self._at(self._head), align=8)

    def restore(self) -> None:
        """Make the packet what the first one was."""
        item = byte_offset(self.b, self._at(self._head), RUN_BYTES)
        self.packet.copy_bytes(self.packet.memory, item, self.packet.size())

    def advance(self) -> None:
        """Take the first packet out."""
        self.b.store(self.b.add(self.b.load(self._head, typ=I64), integer(64, 1)), self._head)
