"""Commands of bpf(2), without libbpf."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import struct
from pathlib import Path
from typing import NamedTuple

from softswitch import libc
from softswitch.errors import KernelError

_SYSCALL = {"x86_64": 321, "aarch64": 280}

# enum bpf_cmd of linux/bpf.h
_MAP_CREATE = 0
_MAP_UPDATE = 2
_MAP_DELETE = 3
_PROG_LOAD = 5
_PIN = 6  # BPF_OBJ_PIN
_GET = 7  # BPF_OBJ_GET
_TEST_RUN = 10
_OBJECT_INFO = 15
_LINK_CREATE = 28
_ENABLE_STATS = 32
# enum bpf_map_type
HASH = 1
ARRAY = 2
PROGRAMS = 3  # BPF_MAP_TYPE_PROG_ARRAY
PERCPU_ARRAY = 6
RINGBUF = 27
ARENA = 33
# flag of _MAP_CREATE
MMAPABLE = 1 << 10
# enum bpf_prog_type
SCHED_CLS = 3
XDP = 6
TRACING = 26
# enum bpf_attach_type
RAW_TRACEPOINT = 23
FUNCTION_ENTRY = 24
XDP_HOOK = 37
TCX_INGRESS = 46

_ATTRIBUTE_BYTES = 160
_INSTRUCTION_BYTES = 8
_LOG_BYTES = 1 << 20
_SKB_CONTEXT_BYTES, _XDP_CONTEXT_BYTES = 192, 24  # struct __sk_buff, struct xdp_md
_PROGRAM_NAME_BYTES = 16
_LOG_LINES = 3  # of the verifier's log that an error shows
_LIMIT_LINE = re.compile("is too large|is too complex")
"""The verifier's line, among states of registers, if it gives up: E2BIG, "Argument list too long"."""
_FRAME_BUFFER_BYTES = 1 << 16
_LINK_INFO_BYTES = 64


class BpfError(KernelError):
    """The kernel has refused a command; the text names the command and the reason."""


def call(command: int, attribute: bytes | ctypes.Array[ctypes.c_char], operation: str) -> int:
    """Call bpf(2) with a `union bpf_attr`; raises BpfError, whose text begins with `operation`."""
    syscall_number = _SYSCALL.get(platform.machine())
    if syscall_number is None:
        raise BpfError(f"{operation}: expected a CPU of {' or '.join(_SYSCALL)}, got {platform.machine()}")
    if isinstance(attribute, bytes):
        attribute = ctypes.create_string_buffer(attribute, max(len(attribute), _ATTRIBUTE_BYTES))
    try:
        return libc.call("syscall", syscall_number, command, attribute, len(attribute))
    except OSError as error:
        raise BpfError(f"{operation}: {error.strerror}") from error


def create_map(
    map_type: int, key_bytes: int, value_bytes: int, max_entries: int, flags: int = 0, arena_address: int = 0
) -> int:
    """Return the file descriptor of a new map; `arena_address` is 0 if any will do."""
    # The last field, after those that these maps do not need, is map_extra.
    attribute = struct.pack("IIIII44xQ", map_type, key_bytes, value_bytes, max_entries, flags, arena_address)
    return call(_MAP_CREATE, attribute, f"create a BPF map of type {map_type}")


class TracingHook(NamedTuple):
    """The function or tracepoint at which a tracing program runs, by its attach type and its BTF type."""

    attach_type: int
    type_id: int


def load(program_type: int, code: bytes, name: str, hook: TracingHook | None = None) -> int:
    """Load a program and return its file descriptor; raises BpfError with the verifier's reason."""
    try:
        return _load(program_type, code, name, b"", hook)
    except BpfError as error:
        log = bytearray(_LOG_BYTES)
        try:
            return _load(program_type, code, name, log, hook)
        except BpfError:
            lines = log.split(b"\0", 1)[0].decode(errors="replace").strip().splitlines()
            limits = [line for line in lines if _LIMIT_LINE.search(line)]
            # The log's last line is statistics.
            reason = "; ".join(limits[-1:] or lines[-_LOG_LINES - 1 : -1] or lines)
            raise BpfError(f"{error}{': ' if reason else ''}{reason}") from None


def _load(program_type: int, code: bytes, name: str, log: bytearray | bytes, hook: TracingHook | None) -> int:
    instructions = ctypes.create_string_buffer(code, len(code))
    licence = ctypes.create_string_buffer(b"GPL")
    log_buffer = (ctypes.c_char * len(log)).from_buffer(log) if isinstance(log, bytearray) else None
    attribute = struct.pack(
        "IIQQIIQII16s4xI36xI",
        program_type,
        len(code) // _INSTRUCTION_BYTES,
        ctypes.addressof(instructions),
        ctypes.addressof(licence),
        1 if log_buffer else 0,  # log_level
        len(log),
        ctypes.addressof(log_buffer) if log_buffer else 0,
        0,  # kern_version
        0,  # prog_flags
        name.encode()[: _PROGRAM_NAME_BYTES - 1],  # the name ends in a zero byte
        hook.attach_type if hook else 0,  # expected_attach_type
        hook.type_id if hook else 0,  # attach_btf_id
    )
    return call(_PROG_LOAD, attribute, f"load BPF program {name}")


class TestRun:
    """BPF_PROG_TEST_RUN of one program, with buffers that are reused."""

    def __init__(self, program: int, program_type: int) -> None:
        self._program = program
        self._is_skb = program_type == SCHED_CLS
        self._input_buffer = ctypes.create_string_buffer(_FRAME_BUFFER_BYTES)
        self._output_buffer = ctypes.create_string_buffer(_FRAME_BUFFER_BYTES)
        self._context = ctypes.create_string_buffer(
            _SKB_CONTEXT_BYTES if self._is_skb else _XDP_CONTEXT_BYTES
        )
        self._attribute = ctypes.create_string_buffer(_ATTRIBUTE_BYTES)

    def __call__(self, frame: bytes, interface: int = 1, repeat: int = 1) -> TestRunResult:
        ctypes.memmove(self._input_buffer, frame, len(frame))
        self._prepare(len(frame), interface, repeat)
        call(_TEST_RUN, self._attribute, "run a BPF program")
        # prog_fd, retval, data_size_in, data_size_out, data_in, data_out, repeat, duration
        _, code, _, size, _, _, _, duration = struct.unpack_from("IIIIQQII", self._attribute)
        return TestRunResult(code, self._output_buffer.raw[:size], duration)

    def compiled_run(self, size: int, interface: int = 1) -> CompiledRun:
        """Return the arguments for a run by compiled code on a frame of `size` bytes; keep `self` alive."""
        self._prepare(size, interface, repeat=1)
        addresses = (ctypes.addressof(buffer) for buffer in (self._attribute, self._input_buffer))
        return CompiledRun(_SYSCALL[platform.machine()], _TEST_RUN, *addresses)

    def _prepare(self, size: int, interface: int, repeat: int) -> None:
        if self._is_skb:
            struct.pack_into("I", self._context, 40, interface)  # __sk_buff.ifindex
        else:
            # data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex
            struct.pack_into("6I", self._context, 0, 0, size, 0, interface, 0, 0)
        # prog_fd, retval, data_size_in, data_size_out, data_in, data_out, repeat, duration, ctx_size_in,
        # ctx_size_out, ctx_in, ctx_out, flags, cpu, batch_size
        struct.pack_into(
            "IIIIQQIIIIQQIII", self._attribute, 0,
            self._program, 0, size, len(self._output_buffer),
            ctypes.addressof(self._input_buffer), ctypes.addressof(self._output_buffer), repeat, 0,
            len(self._context), 0, ctypes.addressof(self._context), 0, 0, 0, 0,
        )  # fmt: skip


class CompiledRun(NamedTuple):
    syscall_number: int
    command: int
    attribute: int  # address
    frame: int  # address


class TestRunResult(NamedTuple):
    """The result of a test run: the program's result, the frame afterwards, and the mean duration in ns."""

    code: int
    frame: bytes
    duration: int


def attach(program: int, interface: int, hook: int, flags: int = 0) -> int:
    """Attach a program to an interface's hook; closing the returned link detaches it, unless it is pinned."""
    # The zeros are fields of a `link_create` that tcx and XDP do not need.
    attribute = struct.pack("IIIIIIQ", program, interface, hook, flags, 0, 0, 0)
    return call(_LINK_CREATE, attribute, f"attach a BPF program to interface {interface}")


def attach_tracing(program: int, hook: TracingHook, name: str) -> int:
    """Attach a tracing program to its hook; closing the returned link detaches it."""
    # The zero is the target, which is for programs that trace other BPF programs.
    attribute = struct.pack("IIII", program, 0, hook.attach_type, 0)
    return call(_LINK_CREATE, attribute, f"attach a BPF program to {name}")


def store(descriptor: int, key: int, value: int, operation: str = "store a value in a BPF map") -> None:
    """Store a value in a map whose keys and values have 4 bytes."""
    key_buffer, value_buffer = (ctypes.create_string_buffer(struct.pack("I", each)) for each in (key, value))
    # map_fd, key, value, flags
    attribute = struct.pack(
        "IxxxxQQQ", descriptor, ctypes.addressof(key_buffer), ctypes.addressof(value_buffer), 0
    )
    call(_MAP_UPDATE, attribute, operation)


def set_program(program_map: int, program: int) -> None:
    """Store a program in a map of one program (`PROGRAMS`), through which entry programs tail-call it."""
    store(program_map, 0, program, "store a BPF program in a map")


def clear_program(program_map: int) -> None:
    """Remove the program from a map, so that entry programs drop their frames."""
    key = ctypes.create_string_buffer(struct.pack("I", 0))
    attribute = struct.pack("IxxxxQ", program_map, ctypes.addressof(key))
    call(_MAP_DELETE, attribute, "remove a BPF program from a map")


class Usage(NamedTuple):
    """CPU time and runs of a program since loading, counted while a `count_usage` descriptor is open."""

    ns: int
    runs: int


def usage(program: int) -> Usage:
    info = ctypes.create_string_buffer(232)  # struct bpf_prog_info
    attribute = struct.pack("IIQ", program, len(info), ctypes.addressof(info))
    call(_OBJECT_INFO, attribute, "query a BPF program")
    return Usage(*struct.unpack_from("QQ", info, 192))  # run_time_ns, run_cnt


def count_usage() -> int:
    """Make the kernel count the CPU time of all programs until the returned descriptor is closed."""
    return call(_ENABLE_STATS, struct.pack("I", 0), "measure the CPU time of BPF programs")


def linked_interface(link: int) -> int:
    """Return the index of the interface that a link is attached to; 0 if the interface was removed."""
    info = ctypes.create_string_buffer(_LINK_INFO_BYTES)
    attribute = struct.pack("IIQ", link, len(info), ctypes.addressof(info))
    call(_OBJECT_INFO, attribute, "query a BPF link")
    interface: int = struct.unpack_from("I", info, 16)[0]  # xdp.ifindex or tcx.ifindex
    return interface


def pin(path: Path, descriptor: int) -> None:
    """Pin a map, program or link in a bpffs; it then lives until its file is removed."""
    name = ctypes.create_string_buffer(os.fsencode(path))
    call(_PIN, struct.pack("QII", ctypes.addressof(name), descriptor, 0), f"pin {path}")


def open_pinned(path: Path) -> int:
    name = ctypes.create_string_buffer(os.fsencode(path))
    return call(_GET, struct.pack("QII", ctypes.addressof(name), 0, 0), f"open {path}")


def close(*descriptors: int) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
