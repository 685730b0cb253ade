"""Access to a BPF program's frame through its context: `struct __sk_buff` of tcx, `struct xdp_md` of XDP."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from llvmlite import ir as llvm

from softswitch.codegen.loops import OpaqueVariable, repeat_while
from softswitch.errors import KernelError
from softswitch.kernel import bpf
from softswitch.kernel.program import Builder
from softswitch.kernel.target import KERNEL_POINTER, call_helper
from softswitch.llvmir import I8, I32, I64, byte_offset, integer, resize

OFFSET_MASK = (1 << 14) - 1
"""Mask of an offset in a frame: the verifier requires a bound."""
_STEP_BYTES = (64, 8, 1)  # sizes of the parts in which bytes are copied
_WORD_BYTES = 8
ETHER_TYPE_OFFSET, _ETHER_TYPE_BYTES = 12, 2
"""Offset and size of an Ethernet frame's type, or in a tagged frame of its first VLAN tag's type."""
VLAN_TAG_BYTES = 4
_VLAN_ETHER_TYPE = int.from_bytes(b"\x81\x00", sys.byteorder)  # IEEE 802.1Q, as loaded from a frame
_RARELY = [1, 1 << 20]  # weights of a branch whose condition rarely holds
_REDIRECT, _CHECK_MTU = 23, 163  # helper functions
_EmitPart = Callable[[list[llvm.Value], llvm.Value, int], None]


class KernelFrame(ABC):
    """The frame that a program was called with; failed operations branch to the block `on_failure`."""

    name: ClassVar[str]
    program_type: ClassVar[int]
    drop_code: ClassVar[int]
    pass_code: ClassVar[int]
    data: ClassVar[int]  # this and the following: offsets of fields of the context
    data_end: ClassVar[int]
    interface: ClassVar[int]

    def __init__(self, builder: Builder, on_failure: llvm.Block) -> None:
        self._builder, self.b = builder, builder.b
        self._context = builder.context
        self.on_failure = on_failure
        self._offset = OpaqueVariable(self.b, I64, name="offset")

    def field(self, offset: int) -> llvm.Value:
        """Return the current value of a 32-bit field of the context."""
        return self._builder.target.load_opaque(self.b, byte_offset(self.b, self._context, offset), I32)

    def _load_address(self, offset: int) -> llvm.Value:
        return self.b.zext(self.field(offset), I64)

    @abstractmethod
    def length(self) -> llvm.Value: ...

    @abstractmethod
    def is_segmented(self) -> llvm.Value:
        """Return whether the kernel will split the frame into several (segmentation offload)."""

    # -- operations on the whole frame

    @abstractmethod
    def make_linear(self) -> None:
        """Make all bytes contiguous and writable."""

    @abstractmethod
    def restore_vlan_tags(self, scratch: llvm.Value) -> None:
        """Insert the VLAN tags that the kernel has removed; `scratch` is memory for the first bytes."""

    @abstractmethod
    def grow_front(self, size: llvm.Value) -> None: ...

    @abstractmethod
    def set_length(self, length: llvm.Value) -> None: ...

    def send(self, interface: llvm.Value) -> llvm.Value:
        """Return the program's result that makes the kernel send the frame on an interface."""
        program_result = call_helper(self.b, _REDIRECT, I64, interface, integer(64, 0))
        return resize(self.b, program_result, 32)

    @abstractmethod
    def send_copy(self, interface: llvm.Value) -> None: ...

    def require_mtu(self, interface: llvm.Value, scratch: llvm.Value, too_large: llvm.Block) -> None:
        """Branch to `too_large` if the frame without its first VLAN tag exceeds an interface's MTU."""
        # Packet sockets have the same limit.
        b = self.b
        above_mtu, without_tag, within_mtu = (
            b.append_basic_block(name) for name in ("beyond", "without_tag", "fits_mtu")
        )
        b.cbranch(self._is_beyond_mtu(interface, 0), above_mtu, within_mtu).set_weights(_RARELY)
        b.position_at_end(above_mtu)
        self.load(scratch, integer(64, ETHER_TYPE_OFFSET + _ETHER_TYPE_BYTES))
        ether_type = b.load(byte_offset(b, scratch, ETHER_TYPE_OFFSET), typ=llvm.IntType(16), align=1)
        b.cbranch(b.icmp_unsigned("==", ether_type, integer(16, _VLAN_ETHER_TYPE)), without_tag, too_large)
        b.position_at_end(without_tag)
        b.cbranch(self._is_beyond_mtu(interface, -VLAN_TAG_BYTES), too_large, within_mtu)
        b.position_at_end(within_mtu)

    def _is_beyond_mtu(self, interface: llvm.Value, length_difference: int) -> llvm.Value:
        b = self.b
        # The helper reads a length here, where 0 is that of the frame, and writes the MTU; a positive result
        # means that the frame is too large.
        with b.goto_entry_block():
            mtu = b.alloca(I32)
        b.store(integer(32, 0), mtu)
        code = call_helper(
            b, _CHECK_MTU, I64, self._context, interface, mtu, integer(64, length_difference), integer(64, 0)
        )
        return b.icmp_signed(">", resize(b, code, 32), integer(32, 0))

    def _require_success(self, code: llvm.Value) -> None:
        b = self.b
        success = b.append_basic_block("done")
        b.cbranch(b.icmp_unsigned("==", resize(b, code, 32), integer(32, 0)), success, self.on_failure)
        b.position_at_end(success)

    # -- bytes

    def load(self, target: llvm.Value, size: llvm.Value) -> None:
        b = self.b

        def copy(addresses: list[llvm.Value], offset: llvm.Value, width: int) -> None:
            value = b.load(addresses[0], typ=llvm.IntType(width), align=1)
            b.store(value, byte_offset(b, target, offset), align=1)

        self._emit_parts(size, [integer(64, 0)], copy)

    def store(self, source: llvm.Value, size: llvm.Value) -> None:
        b = self.b

        def copy(addresses: list[llvm.Value], offset: llvm.Value, width: int) -> None:
            value = b.load(byte_offset(b, source, offset), typ=llvm.IntType(width), align=1)
            b.store(value, addresses[0], align=1)

        self._emit_parts(size, [integer(64, 0)], copy)

    def move(self, target: llvm.Value, source: llvm.Value, size: llvm.Value) -> None:
        """Move bytes towards the front; `target` and `source` are offsets in the frame."""
        b = self.b

        def copy(addresses: list[llvm.Value], _: llvm.Value, width: int) -> None:
            b.store(b.load(addresses[1], typ=llvm.IntType(width), align=1), addresses[0], align=1)

        self._emit_parts(size, [target, source], copy)

    def _emit_parts(self, size: llvm.Value, starts: list[llvm.Value], emit: _EmitPart) -> None:
        """Call `emit` per part of `size` bytes, with addresses in the frame, offset, and width in bits."""
        # Data and end are loaded again for each part, so that the verifier knows them and LLVM spills
        # neither.
        b = self.b
        self._offset.set(integer(64, 0))
        for step in _STEP_BYTES:
            loop_head, bounds_check, body, loop_end = (
                b.append_basic_block(n) for n in ("parts", "in", "part", "rest")
            )
            b.branch(loop_head)
            b.position_at_end(loop_head)
            self._builder.target.loop_guard(b)
            offset = self._offset.get()
            next_offset = b.add(offset, integer(64, step))
            b.cbranch(b.icmp_unsigned("<=", next_offset, size), bounds_check, loop_end)
            b.position_at_end(bounds_check)
            data, end = (
                b.inttoptr(self._load_address(field), KERNEL_POINTER) for field in (self.data, self.data_end)
            )
            part_addresses: list[llvm.Value] = []
            for start in starts:
                frame_offset = b.and_(b.add(start, offset), integer(64, OFFSET_MASK))
                part_addresses.append(b.gep(data, [frame_offset], source_etype=I8))
                part_end = b.gep(part_addresses[-1], [integer(64, step)], source_etype=I8)
                within_frame = b.append_basic_block("fits")
                b.cbranch(b.icmp_unsigned(">", part_end, end), loop_end, within_frame)
                b.position_at_end(within_frame)
            b.branch(body)
            b.position_at_end(body)
            width = min(step, _WORD_BYTES) * 8
            for part_offset in range(0, step, _WORD_BYTES):
                addresses = [b.gep(a, [integer(64, part_offset)], source_etype=I8) for a in part_addresses]
                emit(addresses, b.add(offset, integer(64, part_offset)), width)
            self._offset.set(next_offset)
            b.branch(loop_head)
            b.position_at_end(loop_end)


_LENGTH, _VLAN_PRESENT, _VLAN_TCI, _VLAN_PROTO, _GSO_SIZE = 0, 20, 24, 28, 176  # offsets in __sk_buff
_CLONE_REDIRECT, _VLAN_POP, _CHANGE_TAIL, _PULL_DATA, _CHANGE_HEAD = 13, 19, 38, 39, 43  # helper functions


class Skb(KernelFrame):
    """A frame at tcx, whose first VLAN tag the kernel stores outside of the bytes."""

    name, program_type, drop_code, pass_code = "tcx", bpf.SCHED_CLS, 2, 0xFFFF_FFFF  # TC_ACT_SHOT, TCX_NEXT
    interface, data, data_end = 40, 76, 80

    def length(self) -> llvm.Value:
        return self.b.zext(self.field(_LENGTH), I64)

    def is_segmented(self) -> llvm.Value:
        return self.b.icmp_unsigned("!=", self.field(_GSO_SIZE), integer(32, 0))

    def make_linear(self) -> None:
        b = self.b
        linear_bytes = b.sub(self._load_address(self.data_end), self._load_address(self.data))
        with b.if_then(b.icmp_unsigned("<", linear_bytes, self.length()), likely=False):
            self._require_success(call_helper(b, _PULL_DATA, I64, self._context, self.length()))

    def restore_vlan_tags(self, scratch: llvm.Value) -> None:
        """Insert the removed tags: popping one makes the kernel extract the next one from the frame."""
        b, end = self.b, OpaqueVariable(self.b, I64, integer(64, ETHER_TYPE_OFFSET), name="end")
        with b.if_then(self._has_tag(), likely=False):
            with repeat_while(b, self._has_tag):
                tag = byte_offset(b, scratch, end.get())
                protocol, tci = (resize(b, self.field(o), 16) for o in (_VLAN_PROTO, _VLAN_TCI))
                b.store(protocol, tag, align=1)  # already in network order
                b.store(b.bswap(tci), byte_offset(b, tag, 2), align=1)
                self._require_success(call_helper(b, _VLAN_POP, I64, self._context))
                end.set(b.add(end.get(), integer(64, VLAN_TAG_BYTES)))
            self.make_linear()
            self.load(scratch, integer(64, ETHER_TYPE_OFFSET))
            self.grow_front(b.sub(end.get(), integer(64, ETHER_TYPE_OFFSET)))
            self.store(scratch, end.get())

    def _has_tag(self) -> llvm.Value:
        return self.b.icmp_unsigned("!=", self.field(_VLAN_PRESENT), integer(32, 0))

    def grow_front(self, size: llvm.Value) -> None:
        self._require_success(call_helper(self.b, _CHANGE_HEAD, I64, self._context, size, integer(64, 0)))

    def set_length(self, length: llvm.Value) -> None:
        """Truncate the frame, or append bytes; the kernel refuses to cut off headers of a local frame."""
        self._require_success(call_helper(self.b, _CHANGE_TAIL, I64, self._context, length, integer(64, 0)))

    def send_copy(self, interface: llvm.Value) -> None:
        self._require_success(
            call_helper(self.b, _CLONE_REDIRECT, I64, self._context, interface, integer(64, 0))
        )


_ADJUST_HEAD, _ADJUST_TAIL = 44, 65  # helper functions


class XdpFrame(KernelFrame):
    """A frame at the driver, or before the traffic control layer (generic XDP). It cannot be copied."""

    name, program_type, drop_code, pass_code = "xdp", bpf.XDP, 1, 2  # XDP_DROP, XDP_PASS
    data, data_end, interface = 0, 4, 12

    def length(self) -> llvm.Value:
        length = self.b.sub(self._load_address(self.data_end), self._load_address(self.data))
        # Without `black_box`, LLVM adds to the pointers one by one, which the verifier refuses.
        return self._builder.target.black_box(self.b, length)

    def is_segmented(self) -> llvm.Value:
        """Return false: drivers segment no received frames."""
        return llvm.Constant(llvm.IntType(1), 0)

    def make_linear(self) -> None:
        """Do nothing: the frame is contiguous."""

    def restore_vlan_tags(self, _scratch: llvm.Value) -> None:
        """Do nothing: removed tags are not visible to XDP."""

    def grow_front(self, size: llvm.Value) -> None:
        """Insert bytes before the first, in the headroom of some 200 B."""
        self._require_success(call_helper(self.b, _ADJUST_HEAD, I64, self._context, self.b.neg(size)))

    def set_length(self, length: llvm.Value) -> None:
        length_change = self.b.trunc(self.b.sub(length, self.length()), I32)
        self._require_success(
            call_helper(self.b, _ADJUST_TAIL, I64, self._context, self.b.sext(length_change, I64))
        )

    def send_copy(self, interface: llvm.Value) -> None:
        """Raise KernelError: the kernel has no helper function that copies XDP frames."""
        raise KernelError("XDP cannot send one frame to several ports (clone, multicast): use tcx")
