"""Where the kernel runs a program on what comes in by an interface."""

from __future__ import annotations

import struct
from enum import Enum

from softswitch.kernel import bpf
from softswitch.kernel.frame import Frame, Skb, XdpFrame

# XDP_FLAGS_* of linux/if_link.h
_GENERIC, _DRIVER = 2, 4


class Hook(Enum):
    """tcx; XDP in the driver, for real NICs; generic XDP, which any interface has."""

    TCX = "tcx"
    XDP = "xdp"
    XDP_GENERIC = "xdp-generic"

    @property
    def frame(self) -> type[Frame]:
        """What programs are called with."""
        return Skb if self is Hook.TCX else XdpFrame

    @property
    def of_tap(self) -> Hook:
        """That of the CPU port, whose driver takes few frames to XDP."""
        return Hook.XDP_GENERIC if self is Hook.XDP else self

    @property
    def hint(self) -> str:
        """What to add to an error of `attach`."""
        return "; a driver may have no XDP: --hook xdp-generic does without" if self is Hook.XDP else ""

    def attach(self, program: int, interface: int) -> int:
        """A link to an interface, by index; it lives as long as its file descriptor. Raises BpfError."""
        if self is Hook.TCX:
            return bpf.attach(program, interface, bpf.TCX_INGRESS)
        return bpf.attach(program, interface, bpf.XDP_HOOK, _DRIVER if self is Hook.XDP else _GENERIC)

    def entry(self, programs: int) -> int:
        """A program that goes on with the one in the map (`bpf.put`); where there is none the frame is lost.

        The kernel takes both for one: what it tells of this one (`bpf.usage`) is of all frames that came.
        """
        code = [
            struct.pack("<BBhiq", 0x18, 0x12, 0, programs, 0),  # r2: the map, by its file descriptor
            struct.pack("<BBhi", 0xB4, 3, 0, 0),  # r3: its first program
            struct.pack("<BBhi", 0x85, 0, 0, 12),  # tail call
            struct.pack("<BBhi", 0xB4, 0, 0, self.frame.lost),
            struct.pack("<BBhi", 0x95, 0, 0, 0),  # exit
        ]
        return bpf.load(self.frame.kind, b"".join(code), "port")

    def constant(self, result: int, name: str) -> int:
        """File descriptor of a program that does nothing but return a result."""
        code = bytes.fromhex("b4000000") + result.to_bytes(4, "little") + bytes.fromhex("9500000000000000")
        return bpf.load(self.frame.kind, code, name)
