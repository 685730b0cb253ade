"""Hooks at which the kernel runs a program on the frames that an interface receives."""

from __future__ import annotations

import struct
from enum import Enum

from softswitch.kernel import bpf
from softswitch.kernel.frame import KernelFrame, Skb, XdpFrame

# XDP_FLAGS_* of linux/if_link.h
_GENERIC, _DRIVER = 2, 4


class Hook(Enum):
    """A hook: tcx; XDP in the driver, for real NICs; or generic XDP, which any interface has."""

    TCX = "tcx"
    XDP = "xdp"
    XDP_GENERIC = "xdp-generic"

    @property
    def frame_type(self) -> type[KernelFrame]:
        return Skb if self is Hook.TCX else XdpFrame

    @property
    def cpu_port_hook(self) -> Hook:
        """The hook for the CPU port, a TAP device, whose driver passes few frames to XDP."""
        return Hook.XDP_GENERIC if self is Hook.XDP else self

    @property
    def hint(self) -> str:
        return "; if the driver does not support XDP, use --hook xdp-generic" if self is Hook.XDP else ""

    def attach(self, program: int, interface: int) -> int:
        """Attach a program to an interface; return the link, which lives until closed. Raises BpfError."""
        if self is Hook.TCX:
            return bpf.attach(program, interface, bpf.TCX_INGRESS)
        return bpf.attach(program, interface, bpf.XDP_HOOK, _DRIVER if self is Hook.XDP else _GENERIC)

    def load_entry_program(self, program_map: int) -> int:
        """Load a program that tail-calls the program in a map, or drops without it; return its descriptor."""
        # The kernel accounts a tail call to its caller, so `bpf.usage` includes all frames.
        code = [
            struct.pack("<BBhiq", 0x18, 0x12, 0, program_map, 0),  # r2: the map, by its file descriptor
            struct.pack("<BBhi", 0xB4, 3, 0, 0),  # r3: its first program
            struct.pack("<BBhi", 0x85, 0, 0, 12),  # tail call
            struct.pack("<BBhi", 0xB4, 0, 0, self.frame_type.drop_code),  # r0, if there is no program
            struct.pack("<BBhi", 0x95, 0, 0, 0),  # exit
        ]
        return bpf.load(self.frame_type.program_type, b"".join(code), "port")

    def load_constant_program(self, result: int, name: str) -> int:
        """Load a program that only returns a result; return its file descriptor."""
        code = [
            struct.pack("<BBhI", 0xB4, 0, 0, result),  # r0: the result
            struct.pack("<BBhi", 0x95, 0, 0, 0),  # exit
        ]
        return bpf.load(self.frame_type.program_type, b"".join(code), name)
