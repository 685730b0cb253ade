"""A frame that a `SCHED_CLS` program is called with (`struct __sk_buff`)."""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch.codegen.loops import Tally, repeat_while
from softswitch.kernel import bpf
from softswitch.kernel.frame import TYPE, VLAN_TAG, Frame
from softswitch.kernel.target import call_helper
from softswitch.llvmir import I64, byte_offset, integer, resize

# Offsets in struct __sk_buff
_LENGTH, _VLAN_PRESENT, _VLAN_TCI, _VLAN_PROTO, _GSO_SIZE = 0, 20, 24, 28, 176
# Helper functions
_CLONE_REDIRECT, _VLAN_POP, _CHANGE_TAIL, _PULL_DATA, _CHANGE_HEAD = 13, 19, 38, 39, 43


class Skb(Frame):
    """A frame of the traffic control layer, with what the kernel holds beside its bytes."""

    name, kind, lost, passed = "tcx", bpf.SCHED_CLS, 2, 0xFFFF_FFFF  # TC_ACT_SHOT, TCX_NEXT
    interface, data, data_end = 40, 76, 80

    def length(self) -> llvm.Value:
        """From the context, as the rest may lie elsewhere."""
        return self.b.zext(self.field(_LENGTH), I64)

    def is_many(self) -> llvm.Value:
        """By the size of its segments."""
        return self.b.icmp_unsigned("!=", self.field(_GSO_SIZE), integer(32, 0))

    def make_linear(self) -> None:
        """Pull what lies elsewhere."""
        b = self.b
        linear = b.sub(self._address(self.data_end), self._address(self.data))
        with b.if_then(b.icmp_unsigned("<", linear, self.length()), likely=False):
            self._check(call_helper(b, _PULL_DATA, I64, self._context, self.length()))

    def put_tags_back(self, room: llvm.Value) -> None:
        """It holds one. When that is taken off, the next comes out of the frame in its place."""
        b, end = self.b, Tally(self.b, I64, integer(64, TYPE), name="end")
        with b.if_then(self._has_tag(), likely=False):
            with repeat_while(b, self._has_tag):
                tag = byte_offset(b, room, end.get())
                protocol, tci = (resize(b, self.field(o), 16) for o in (_VLAN_PROTO, _VLAN_TCI))
                b.store(protocol, tag, align=1)  # in network order as it is
                b.store(b.bswap(tci), byte_offset(b, tag, 2), align=1)
                self._check(call_helper(b, _VLAN_POP, I64, self._context))
                end.set(b.add(end.get(), integer(64, VLAN_TAG)))
            self.make_linear()
            self.load(room, integer(64, TYPE))
            self.grow_front(b.sub(end.get(), integer(64, TYPE)))
            self.store(room, end.get())

    def _has_tag(self) -> llvm.Value:
        return self.b.icmp_unsigned("!=", self.field(_VLAN_PRESENT), integer(32, 0))

    def grow_front(self, size: llvm.Value) -> None:
        """Its checksum's place moves along."""
        self._check(call_helper(self.b, _CHANGE_HEAD, I64, self._context, size, integer(64, 0)))

    def set_length(self, length: llvm.Value) -> None:
        """By the kernel, which may cut no local frame to less than its transport header."""
        self._check(call_helper(self.b, _CHANGE_TAIL, I64, self._context, length, integer(64, 0)))

    def send_copy(self, interface: llvm.Value) -> None:
        """At once."""
        self._check(call_helper(self.b, _CLONE_REDIRECT, I64, self._context, interface, integer(64, 0)))
