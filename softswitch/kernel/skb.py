"""A frame that a `SCHED_CLS` program is called with (`struct __sk_buff`)."""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch.kernel import bpf
from softswitch.kernel.frame import Frame
from softswitch.kernel.target import call_helper
from softswitch.llvmir import I64, byte_offset, integer, resize

# Offsets in struct __sk_buff
_LENGTH, _VLAN_PRESENT, _VLAN_TCI, _VLAN_PROTO, _GSO_SIZE = 0, 20, 24, 28, 176
# Helper functions
_CLONE_REDIRECT, _VLAN_POP, _REDIRECT, _CHANGE_TAIL, _PULL_DATA, _CHANGE_HEAD = 13, 19, 23, 38, 39, 43
VLAN_TAG = 4


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

    def take_tags(self) -> None:
        """There may be two."""
        for _ in range(2):
            with self.b.if_then(self._has_tag(), likely=False):
                self._check(call_helper(self.b, _VLAN_POP, I64, self._context))

    def _has_tag(self) -> llvm.Value:
        return self.b.icmp_unsigned("!=", self.field(_VLAN_PRESENT), integer(32, 0))

    def grow_front(self, size: llvm.Value) -> None:
        """Its checksum's place moves along."""
        self._check(call_helper(self.b, _CHANGE_HEAD, I64, self._context, size, integer(64, 0)))

    def set_length(self, length: llvm.Value) -> None:
        """By the kernel, which may cut no local frame to less than its transport header."""
        self._check(call_helper(self.b, _CHANGE_TAIL, I64, self._context, length, integer(64, 0)))

    def send(self, interface: llvm.Value) -> llvm.Value:
        """The kernel does so when the program has ended."""
        result = call_helper(self.b, _REDIRECT, I64, interface, integer(64, 0))
        return resize(self.b, result, 32)

    def send_copy(self, interface: llvm.Value) -> None:
        """At once."""
        self._check(call_helper(self.b, _CLONE_REDIRECT, I64, self._context, interface, integer(64, 0)))

    def load(self, target: llvm.Value, size: llvm.Value) -> llvm.Value:
        """With the tag put back where it was."""
        b = self.b
        tag = b.select(self._has_tag(), integer(64, VLAN_TAG), integer(64, 0))
        self._load(byte_offset(b, target, tag), size)
        with b.if_then(b.icmp_unsigned("!=", tag, integer(64, 0)), likely=False):
            addresses = [
                b.load(byte_offset(b, target, VLAN_TAG + at), typ=llvm.IntType(width), align=1)
                for at, width in ((0, 64), (8, 32))
            ]
            for at, part in zip((0, 8), addresses, strict=True):
                b.store(part, byte_offset(b, target, at), align=1)
            protocol, tci = (resize(b, self.field(o), 16) for o in (_VLAN_PROTO, _VLAN_TCI))
            b.store(protocol, byte_offset(b, target, 12), align=1)  # in network order as it is
            b.store(b.bswap(tci), byte_offset(b, target, 14), align=1)
        return tag
