"""A frame as the context of a BPF program shows it, at tcx (`struct __sk_buff`) or XDP (`struct xdp_md`)."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from llvmlite import ir as llvm

from softswitch.codegen.loops import Tally, repeat_while
from softswitch.errors import KernelError
from softswitch.kernel import bpf
from softswitch.kernel.program import Builder
from softswitch.kernel.target import PLAIN, call_helper
from softswitch.llvmir import I8, I32, I64, byte_offset, integer, resize

OFFSET_MASK = (1 << 14) - 1
"""The verifier wants to see that an offset in a frame has a bound."""
_STEPS = (64, 8, 1)
TYPE, _TYPE_BYTES = 12, 2
"""Where an Ethernet frame has its type, or its first VLAN tag."""
VLAN_TAG = 4
_TAGGED = int.from_bytes(b"\x81\x00", sys.byteorder)
_REDIRECT, _CHECK_MTU = 23, 163  # helper functions
_Do = Callable[[list[llvm.Value], llvm.Value, int], None]


class Frame(ABC):
    """The frame that a program was called with; what fails goes to the block `failed`."""

    name: ClassVar[str]
    kind: ClassVar[int]
    """The program's."""
    lost: ClassVar[int]
    """The program's result that drops it."""
    passed: ClassVar[int]
    """The program's result that leaves it to whoever comes next."""
    data: ClassVar[int]
    data_end: ClassVar[int]
    interface: ClassVar[int]
    """Offsets in the context."""

    def __init__(self, builder: Builder, failed: llvm.Block) -> None:
        self._builder, self.b = builder, builder.b
        self._context = builder.context
        self.failed = failed
        self._offset = Tally(self.b, I64, name="offset")

    def field(self, offset: int) -> llvm.Value:
        """A field of 32 bits, as it is now."""
        return self._builder.target.load_opaque(self.b, byte_offset(self.b, self._context, offset), I32)

    def _address(self, offset: int) -> llvm.Value:
        return self.b.zext(self.field(offset), I64)

    @abstractmethod
    def length(self) -> llvm.Value:
        """Bytes of the frame, as a word."""

    @abstractmethod
    def is_many(self) -> llvm.Value:
        """Whether it is to become several frames yet (segmentation offload)."""

    # -- changes of the whole

    @abstractmethod
    def make_linear(self) -> None:
        """Have all bytes in one piece that can be written."""

    @abstractmethod
    def put_tags_back(self, room: llvm.Value) -> None:
        """Have VLAN tags in the frame again that the kernel holds beside it; `room` is for the front."""

    @abstractmethod
    def grow_front(self, size: llvm.Value) -> None:
        """Put so many bytes before the first."""

    @abstractmethod
    def set_length(self, length: llvm.Value) -> None:
        """Cut the frame, or put bytes behind the last."""

    def send(self, interface: llvm.Value) -> llvm.Value:
        """The program's result that has the kernel send it by an interface."""
        result = call_helper(self.b, _REDIRECT, I64, interface, integer(64, 0))
        return resize(self.b, result, 32)

    @abstractmethod
    def send_copy(self, interface: llvm.Value) -> None:
        """Send a copy, as it is now."""

    def require_mtu(self, interface: llvm.Value, room: llvm.Value, too_large: llvm.Block) -> None:
        """Go on where an interface's MTU allows the frame, a VLAN tag apart, as packet sockets have it."""
        b = self.b
        tagged, again, fits = (b.append_basic_block(name) for name in ("beyond", "without_tag", "fits_mtu"))
        b.cbranch(self._is_beyond_mtu(interface, 0), tagged, fits).set_weights([1, 1 << 20])
        b.position_at_end(tagged)
        self.load(room, integer(64, TYPE + _TYPE_BYTES))
        kind = b.load(byte_offset(b, room, TYPE), typ=llvm.IntType(16), align=1)
        b.cbranch(b.icmp_unsigned("==", kind, integer(16, _TAGGED)), again, too_large)
        b.position_at_end(again)
        b.cbranch(self._is_beyond_mtu(interface, -VLAN_TAG), too_large, fits)
        b.position_at_end(fits)

    def _is_beyond_mtu(self, interface: llvm.Value, more: int) -> llvm.Value:
        b = self.b
        with b.goto_entry_block():
            mtu = b.alloca(I32)
        b.store(integer(32, 0), mtu)
        code = call_helper(
            b, _CHECK_MTU, I64, self._context, interface, mtu, integer(64, more), integer(64, 0)
        )
        return b.icmp_signed(">", resize(b, code, 32), integer(32, 0))

    def _check(self, code: llvm.Value) -> None:
        b = self.b
        good = b.append_basic_block("done")
        b.cbranch(b.icmp_unsigned("==", resize(b, code, 32), integer(32, 0)), good, self.failed)
        b.position_at_end(good)

    # -- bytes

    def load(self, target: llvm.Value, size: llvm.Value) -> None:
        """Copy the first bytes to the arena."""
        b = self.b

        def copy(frames: list[llvm.Value], offset: llvm.Value, width: int) -> None:
            value = b.load(frames[0], typ=llvm.IntType(width), align=1)
            b.store(value, byte_offset(b, target, offset), align=1)

        self._each_part(size, [integer(64, 0)], copy)

    def store(self, source: llvm.Value, size: llvm.Value) -> None:
        """Copy bytes of the arena over the first ones."""
        b = self.b

        def copy(frames: list[llvm.Value], offset: llvm.Value, width: int) -> None:
            value = b.load(byte_offset(b, source, offset), typ=llvm.IntType(width), align=1)
            b.store(value, frames[0], align=1)

        self._each_part(size, [integer(64, 0)], copy)

    def move(self, to: llvm.Value, of: llvm.Value, size: llvm.Value) -> None:
        """Move bytes to the front, by offsets in the frame."""
        b = self.b

        def copy(frames: list[llvm.Value], _: llvm.Value, width: int) -> None:
            b.store(b.load(frames[1], typ=llvm.IntType(width), align=1), frames[0], align=1)

        self._each_part(size, [to, of], copy)

    def _each_part(self, size: llvm.Value, starts: list[llvm.Value], do: _Do) -> None:
        """Call `do` with addresses in the frame, for each part of so many bytes, in order.

        Data and end are loaded anew for each part: the verifier knows them so, and LLVM spills none of them.
        """
        b = self.b
        self._offset.set(integer(64, 0))
        for step in _STEPS:
            head, inside, body, after = (b.append_basic_block(n) for n in ("parts", "in", "part", "rest"))
            b.branch(head)
            b.position_at_end(head)
            self._builder.target.loop_guard(b)
            offset = self._offset.get()
            following = b.add(offset, integer(64, step))
            b.cbranch(b.icmp_unsigned("<=", following, size), inside, after)
            b.position_at_end(inside)
            data, end = (b.inttoptr(self._address(field), PLAIN) for field in (self.data, self.data_end))
            frames: list[llvm.Value] = []
            for start in starts:
                at = b.and_(b.add(start, offset), integer(64, OFFSET_MASK))
                frames.append(b.gep(data, [at], source_etype=I8))
                beyond = b.gep(frames[-1], [integer(64, step)], source_etype=I8)
                fits = b.append_basic_block("fits")
                b.cbranch(b.icmp_unsigned(">", beyond, end), after, fits)
                b.position_at_end(fits)
            b.branch(body)
            b.position_at_end(body)
            width = min(step, 8) * 8
            for part in range(0, step, 8):
                parts = [b.gep(frame, [integer(64, part)], source_etype=I8) for frame in frames]
                do(parts, b.add(offset, integer(64, part)), width)
            self._offset.set(following)
            b.branch(head)
            b.position_at_end(after)


_LENGTH, _VLAN_PRESENT, _VLAN_TCI, _VLAN_PROTO, _GSO_SIZE = 0, 20, 24, 28, 176  # offsets in __sk_buff
_CLONE_REDIRECT, _VLAN_POP, _CHANGE_TAIL, _PULL_DATA, _CHANGE_HEAD = 13, 19, 38, 39, 43  # helper functions


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


_ADJUST_HEAD, _ADJUST_TAIL = 44, 65  # helper functions


class XdpFrame(Frame):
    """A frame at the driver, or (generic XDP) before the traffic control layer. It cannot be copied."""

    name, kind, lost, passed = "xdp", bpf.XDP, 1, 2  # XDP_DROP, XDP_PASS
    data, data_end, interface = 0, 4, 12

    def length(self) -> llvm.Value:
        """What lies between the two pointers."""
        length = self.b.sub(self._address(self.data_end), self._address(self.data))
        # Else LLVM adds to pointers one by one, which the verifier does not take.
        return self._builder.target.black_box(self.b, length)

    def is_many(self) -> llvm.Value:
        """Never: the driver has the frames themselves."""
        return llvm.Constant(llvm.IntType(1), 0)

    def make_linear(self) -> None:
        """It is."""

    def put_tags_back(self, _room: llvm.Value) -> None:
        """There are none that the program could see."""

    def grow_front(self, size: llvm.Value) -> None:
        """Into the headroom, of some 200 B."""
        self._check(call_helper(self.b, _ADJUST_HEAD, I64, self._context, self.b.neg(size)))

    def set_length(self, length: llvm.Value) -> None:
        """Into the tailroom."""
        more = self.b.trunc(self.b.sub(length, self.length()), I32)
        self._check(call_helper(self.b, _ADJUST_TAIL, I64, self._context, self.b.sext(more, I64)))

    def send_copy(self, interface: llvm.Value) -> None:
        """Raises KernelError: the kernel has no call for it."""
        raise KernelError("XDP cannot send one frame to several ports (clone, multicast): use tcx")
