"""BPF programs of P4 programs: the packet function that `codegen` generates, called by a front end."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.cache import cached_object, source_key_parts
from softswitch.codegen.output import OutputWriter
from softswitch.codegen.pipeline import MakeOutput, emit_process
from softswitch.codegen.traffic import needs_queues, work_bytes
from softswitch.kernel import compiler
from softswitch.kernel.arena import CLOCK, LOCK, STATE
from softswitch.kernel.assembler import ENTRY_SECTION, compile_module
from softswitch.kernel.target import KERNEL_POINTER, Bpf
from softswitch.llvmir import I32, I64, byte_offset, integer
from softswitch.memory.layout import Layout
from softswitch.memory.process import PACKET_FUNCTION_NAME
from softswitch.memory.words import WORD_BYTES
from softswitch.target import Module

_HEADER = struct.Struct("<QQQ")  # sizes of area, state and constants in bytes; then the constants


@dataclass(frozen=True)
class Code:
    instructions: bytes
    cpu_area_bytes: int  # memory of each CPU (`Bpf.area`)
    state_bytes: int
    constants: bytes

    def pack(self) -> bytes:
        header = _HEADER.pack(self.cpu_area_bytes, self.state_bytes, len(self.constants))
        return header + self.constants + self.instructions

    @staticmethod
    def unpack(data: bytes) -> Code:
        cpu_area_bytes, state_bytes, constant_bytes = _HEADER.unpack_from(data)
        begin, end = _HEADER.size, _HEADER.size + constant_bytes
        return Code(data[end:], cpu_area_bytes, state_bytes, data[begin:end])


def cached_code(program: ir.Program, options: Mapping[str, object], build: Callable[[], Code]) -> Code:
    key_parts = source_key_parts(compiler.VERSION, options, program, program.field_index)
    return Code.unpack(cached_object(key_parts, lambda: build().pack()))


class Builder:
    """Builder of the function that the kernel calls; it returns `drop_code` to drop the packet."""

    def __init__(self, name: str, drop_code: int, reads_clock: bool) -> None:
        self.target = Bpf(reads_clock)
        self.module = Module(name, self.target)
        self.function = llvm.Function(self.module, llvm.FunctionType(I32, [KERNEL_POINTER]), name)
        self.function.section = ENTRY_SECTION
        self.context = self.function.args[0]
        self.b = llvm.IRBuilder(self.function.append_basic_block("entry"))
        self.drop_code = integer(32, drop_code)
        self.base = self.target.base(self.b)
        self.state_bytes = 0

    def address_at(self, offset: int) -> llvm.Value:
        return byte_offset(self.b, self.base, offset)

    def word(self, offset: int) -> llvm.Value:
        return self.b.load(self.address_at(offset), typ=I64)

    def clock(self) -> tuple[llvm.Value, llvm.Value]:
        """Return the frame's time of arrival and the current time in µs; they are equal, except in tests."""
        if not self.target.reads_clock:
            return self.word(CLOCK), self.word(CLOCK + WORD_BYTES)
        now = self.target.read_clock(self.b)
        return now, now

    def add_program(
        self,
        program: ir.Program,
        layout: Layout,
        priority_queues: int,
        make_output: MakeOutput = OutputWriter,
    ) -> None:
        packet = emit_process(self.module, program, layout, priority_queues, make_output)
        function = self.module.globals[PACKET_FUNCTION_NAME]
        function.linkage = "internal"
        function.attributes.add("alwaysinline")
        # The working memory, which only programs with queues need, follows all other state: at `layout.work`.
        self.state_bytes = layout.work * WORD_BYTES
        if needs_queues(program):
            self.state_bytes += work_bytes(self.target.size_of(packet.type, self.module))

    def process(self, *arguments: llvm.Value) -> llvm.Value:
        with self.locked():
            return self.b.call(
                self.module.globals[PACKET_FUNCTION_NAME], [self.address_at(STATE), *arguments]
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the spin lock, which excludes other CPUs and the control plane's writes."""
        # Softirqs do not nest on a CPU, so the holder always runs, and spinning is short. If the loop
        # lasts too long, the kernel ends it, and the packet is dropped.
        b = self.b
        spin, retry, acquired = (b.append_basic_block(name) for name in ("spin", "retry", "acquired"))
        b.branch(spin)
        b.position_at_end(spin)
        old_lock_value = b.atomic_rmw("xchg", self.address_at(LOCK), integer(64, 1), "acquire")
        b.cbranch(b.icmp_unsigned("==", old_lock_value, integer(64, 0)), acquired, retry)
        b.position_at_end(retry)
        self.target.loop_guard(b)
        b.branch(spin)
        b.position_at_end(acquired)
        yield
        b.atomic_rmw("xchg", self.address_at(LOCK), integer(64, 0), "release")

    def finish(self) -> Code:
        code, cpu_area_bytes = compile_module(str(self.module), self.target.area_bytes)
        return Code(code, cpu_area_bytes, self.state_bytes, bytes(self.target.constants))
