"""A frame that an `XDP` program is called with (`struct xdp_md`): all of it is in one piece."""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch.kernel import bpf
from softswitch.kernel.errors import KernelError
from softswitch.kernel.frame import Frame
from softswitch.kernel.target import call_helper
from softswitch.llvmir import I32, I64

# Helper functions
_ADJUST_HEAD, _ADJUST_TAIL = 44, 65


class XdpFrame(Frame):
    """A frame at the driver, or (generic XDP) before the traffic control layer. It cannot be copied."""

    name, kind, lost, passed = "xdp", bpf.XDP, 1, 2  # XDP_DROP, XDP_PASS
    data, data_end, interface = 0, 4, 12

    def length(self) -> llvm.Value:
        """What lies between the two pointers."""
        length = self.b.sub(self._address(self.data_end), self._address(self.data))
        # Else LLVM adds to pointers one by one, which the verifier does not take.
        return self._builder.target.forget(self.b, length)

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
