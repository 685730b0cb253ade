"""BTF is read as the kernel's documentation says, and offsets are those at which the kernel has fields."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from softswitch.errors import KernelError
from softswitch.kernel.bpf import FUNCTION_ENTRY, RAW_TRACEPOINT, TracingHook
from softswitch.kernel.btf import FILE, Btf
from switch_harness.wording import mentions

NAMES = b"\0outer\0first\0second\0inner\0bits\0run\0btf_trace_ran\0int\0"


def name(text: str) -> int:
    return NAMES.index(f"\0{text}\0".encode()) + 1 if text else 0


def a_type(kind: int, text: str, size_or_type: int, *members: bytes, flag: int = 0) -> bytes:
    information = flag << 31 | kind << 24 | len(members)
    return struct.pack("<III", name(text), information, size_or_type) + b"".join(members)


def member(text: str, number: int, bits: int) -> bytes:
    return struct.pack("<III", name(text), number, bits)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Write types: struct outer { int first; union { struct { int inner; } second; }; int bits:3; }."""
    fields = member("first", 1, 64), member("", 4, 128), member("bits", 1, 3 << 24 | 192)
    types = [
        a_type(1, "int", 4) + struct.pack("<I", 32),  # 1, with 4 bytes more
        a_type(4, "", 8, member("inner", 1, 32)),  # 2
        a_type(10, "", 2),  # 3: const
        a_type(5, "", 8, member("second", 3, 0)),  # 4
        a_type(13, "", 0, struct.pack("<II", 0, 1)),  # 5: a prototype, with 8 bytes for its argument
        a_type(4, "outer", 24, *fields, flag=1),  # 6
        a_type(12, "run", 5),  # 7
        a_type(8, "btf_trace_ran", 5),  # 8
    ]  # fmt: skip
    body = b"".join(types)
    header = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(body), len(body), len(NAMES))
    file = tmp_path / "vmlinux"
    file.write_bytes(header + body + NAMES)
    return file


def test_types_are_found_by_name(small: Path) -> None:
    kernel = Btf(small)
    assert kernel.function_hook("run") == TracingHook(FUNCTION_ENTRY, 7)
    assert kernel.tracepoint_hook("ran") == TracingHook(RAW_TRACEPOINT, 8)
    paths = {"first": 8, "second": 16, "second.inner": 20, "bits": 24}
    assert {path: kernel.offset("outer", path) for path in paths} == paths


def test_a_missing_hook_or_field_is_named_with_the_kernel_release(small: Path) -> None:
    kernel, release = Btf(small), os.uname().release
    finds: dict[str, Callable[[], object]] = {
        "the function ran": lambda: kernel.function_hook("ran"),
        "the tracepoint run": lambda: kernel.tracepoint_hook("run"),
        "struct inner": lambda: kernel.offset("inner", "first"),
        "second.first": lambda: kernel.offset("outer", "second.first"),
        # A name ends where another begins.
        "the function ru": lambda: kernel.function_hook("ru"),
    }
    for fact, find in finds.items():
        with pytest.raises(KernelError, match=mentions(fact, release)):
            find()


def test_a_missing_file_or_a_file_without_btf_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        KernelError, match=mentions("none", "No such file or directory", "CONFIG_DEBUG_INFO_BTF")
    ):
        Btf(tmp_path / "none")
    (tmp_path / "other").write_bytes(bytes(100))
    with pytest.raises(KernelError, match=mentions("other", "0xeb9f", "0x0")):
        Btf(tmp_path / "other")


def test_the_types_of_the_running_kernel_have_their_documented_offsets() -> None:
    """Documented offsets of an interface that does not change, and functions of all kernels with BPF."""
    kernel = Btf(FILE)
    for field, offset in {"saddr": 12, "daddr": 16, "protocol": 9}.items():
        assert kernel.offset("iphdr", field) == offset
    assert kernel.offset("in6_addr", "in6_u.u6_addr8") == 0
    assert kernel.offset("sockaddr_in", "sin_addr.s_addr") == 4
    assert kernel.offset("xdp_md", "ingress_ifindex") == 12
    assert kernel.function_hook("tcp_v4_rcv").type_id > 0
