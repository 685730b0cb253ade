"""A frame in the kernel's hands (`struct __sk_buff`): its bytes to and from the arena, and its length."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir as llvm

from softswitch.codegen.loops import Tally
from softswitch.kernel.program import Builder
from softswitch.kernel.target import PLAIN, call_helper
from softswitch.llvmir import I8, I32, I64, byte_offset, integer, resize

# Offsets in struct __sk_buff
LENGTH, VLAN_PRESENT, VLAN_TCI, VLAN_PROTO, INTERFACE, DATA, DATA_END, GSO_SIZE = (
    0, 20, 24, 28, 40, 76, 80, 176,
)  # fmt: skip
# Helper functions
_CLONE_REDIRECT, _VLAN_POP, _REDIRECT, _CHANGE_TAIL, _PULL_DATA, _CHANGE_HEAD = 13, 19, 23, 38, 39, 43

OFFSET_MASK = (1 << 14) - 1
"""The verifier wants to see that an offset in a frame has a bound."""
_STEPS = (64, 8, 1)
_Do = Callable[[list[llvm.Value], llvm.Value, int], None]
VLAN_TAG = 4


class Skb:
    """The frame that a `SCHED_CLS` program was called with; what fails goes to the block `failed`."""

    def __init__(self, builder: Builder, failed: llvm.Block) -> None:
        self._builder, self.b = builder, builder.b
        self._context = builder.context
        self.failed = failed
        self._offset = Tally(self.b, I64, name="offset")

    def field(self, offset: int) -> llvm.Value:
        """A field of 32 bits, as it is now."""
        return self._builder.target.load_unfollowed(self.b, byte_offset(self.b, self._context, offset), I32)

    def length(self) -> llvm.Value:
        """Bytes of the frame, as a word."""
        return self.b.zext(self.field(LENGTH), I64)

    def _address(self, offset: int) -> llvm.Value:
        return self.b.zext(self.field(offset), I64)

    # -- changes of the whole

    def make_linear(self) -> None:
        """Have all bytes in one piece that can be written."""
        b = self.b
        linear = b.sub(self._address(DATA_END), self._address(DATA))
        with b.if_then(b.icmp_unsigned("<", linear, self.length()), likely=False):
            self._check(call_helper(b, _PULL_DATA, I64, self._context, self.length()))

    def take_tags(self) -> None:
        """Forget VLAN tags that the kernel holds beside the bytes; one that it finds behind comes after."""
        for _ in range(2):
            with self.b.if_then(self._has_tag(), likely=False):
                self._check(call_helper(self.b, _VLAN_POP, I64, self._context))

    def _has_tag(self) -> llvm.Value:
        return self.b.icmp_unsigned("!=", self.field(VLAN_PRESENT), integer(32, 0))

    def grow_front(self, size: llvm.Value) -> None:
        """Put so many bytes before the first."""
        self._check(call_helper(self.b, _CHANGE_HEAD, I64, self._context, size, integer(64, 0)))

    def set_length(self, length: llvm.Value) -> None:
        """Cut the frame, or put bytes behind the last."""
        self._check(call_helper(self.b, _CHANGE_TAIL, I64, self._context, length, integer(64, 0)))

    def _check(self, code: llvm.Value) -> None:
        b = self.b
        good = b.append_basic_block("done")
        b.cbranch(b.icmp_unsigned("==", resize(b, code, 32), integer(32, 0)), good, self.failed)
        b.position_at_end(good)

    def send(self, interface: llvm.Value) -> llvm.Value:
        """The program's result that sends it by an interface."""
        result = call_helper(self.b, _REDIRECT, I64, interface, integer(64, 0))
        return resize(self.b, result, 32)

    def send_copy(self, interface: llvm.Value) -> None:
        """Send a copy, as it is now."""
        self._check(call_helper(self.b, _CLONE_REDIRECT, I64, self._context, interface, integer(64, 0)))

    # -- bytes

    def load(self, target: llvm.Value, size: llvm.Value) -> llvm.Value:
        """Copy the first bytes to the arena, with the VLAN tag that the kernel holds; the tag's bytes."""
        b = self.b
        tag = b.select(self._has_tag(), integer(64, VLAN_TAG), integer(64, 0))
        start = byte_offset(b, target, tag)

        def copy(frames: list[llvm.Value], offset: llvm.Value, width: int) -> None:
            value = b.load(frames[0], typ=llvm.IntType(width), align=1)
            b.store(value, byte_offset(b, start, offset), align=1)

        self._each_part(size, [integer(64, 0)], copy)
        with b.if_then(b.icmp_unsigned("!=", tag, integer(64, 0)), likely=False):
            addresses = [
                b.load(byte_offset(b, target, VLAN_TAG + at), typ=llvm.IntType(width), align=1)
                for at, width in ((0, 64), (8, 32))
            ]
            for at, part in zip((0, 8), addresses, strict=True):
                b.store(part, byte_offset(b, target, at), align=1)
            protocol, tci = (resize(b, self.field(o), 16) for o in (VLAN_PROTO, VLAN_TCI))
            b.store(protocol, byte_offset(b, target, 12), align=1)  # in network order as it is
            b.store(b.bswap(tci), byte_offset(b, target, 14), align=1)
        return tag

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
            self._builder.target.guard(b)
            offset = self._offset.get()
            following = b.add(offset, integer(64, step))
            b.cbranch(b.icmp_unsigned("<=", following, size), inside, after)
            b.position_at_end(inside)
            data, end = (b.inttoptr(self._address(field), PLAIN) for field in (DATA, DATA_END))
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
