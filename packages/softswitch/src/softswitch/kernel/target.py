"""The BPF target of code generation: memory in the arena, and loops that the verifier accepts.

The verifier does not track the arena: loads give unknown values, and any address is valid. So packets, and
variables of loops, are in the arena, in an area for each CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir as llvm

from softswitch.codegen.wire import pieces
from softswitch.errors import KernelError
from softswitch.kernel import wide_arithmetic
from softswitch.kernel.arena import AREA_OF, CONSTANT_BYTES, CONSTANTS, MAX_CPUS, START_NS
from softswitch.kernel.compiler import target_machine
from softswitch.llvmir import I64, byte_offset, integer, null
from softswitch.target import Target

LOOP_GUARD_MAGIC = 0x7A11BA11
"""A comparison with this number becomes `may_goto`, for which LLVM has no intrinsic (`assembler`)."""
ARENA_MAP, RING_MAP, BUFFER_MAP = range(0x7A11BA12, 0x7A11BA15)
"""Placeholders for the file descriptors of maps (`notices` creates the maps of the last two)."""
KERNEL_POINTER = llvm.PointerType()
_Part = Callable[[llvm.Value, int], None]
_WORD_BYTES = 8
_ALIGNMENT = 16  # of the parts of areas and constants, in bytes
_CHUNK_WORDS = 8  # words in each iteration of a copying loop
_CHUNK_BYTES = _CHUNK_WORDS * _WORD_BYTES
_MAX_ZEROED_BYTES = 4_096  # without a loop
_MAP, MAP_VALUE = 1, 2  # BPF_PSEUDO_MAP_FD, BPF_PSEUDO_MAP_VALUE

# Numbers of helper functions.
KTIME_GET_NS = 5
GET_SMP_PROCESSOR_ID = 8


class Bpf(Target):
    """Code for the kernel. Egress reads the kernel's clock, or without `reads_clock` takes the time `now`."""

    pointer = llvm.PointerType(addrspace=1)
    max_arguments = 5  # r1 to r5
    packet_in_memory = True
    has_prefetch = False

    def __init__(self, reads_clock: bool) -> None:
        self.reads_clock = reads_clock
        self._target_data = target_machine().target_data
        self._area_addresses: dict[str, llvm.Value] = {}
        self._guard_slots: dict[str, llvm.Value] = {}
        self._exit_blocks: dict[str, llvm.Block] = {}
        self._constant_offsets: dict[str, int] = {}
        self.area_bytes = 0
        self.constants = bytearray()

    # -- memory

    def base(self, b: llvm.IRBuilder) -> llvm.Value:
        address = b.call(_pseudo_intrinsic(b.module), [integer(64, MAP_VALUE), integer(64, ARENA_MAP)])
        return b.inttoptr(address, self.pointer)

    def map(self, b: llvm.IRBuilder, placeholder: int) -> llvm.Value:
        return b.inttoptr(
            b.call(_pseudo_intrinsic(b.module), [integer(64, _MAP), integer(64, placeholder)]), KERNEL_POINTER
        )

    def area(self, b: llvm.IRBuilder) -> llvm.Value:
        name = b.function.name
        if name not in self._area_addresses:
            with _in_entry_block(b):
                base = self.base(b)
                cpu = b.and_(b.zext(call_helper(b, GET_SMP_PROCESSOR_ID, llvm.IntType(32)), I64),
                             integer(64, MAX_CPUS - 1))  # fmt: skip
                slot = byte_offset(b, byte_offset(b, base, AREA_OF), b.shl(cpu, integer(64, 3)))
                self._area_addresses[name] = byte_offset(b, base, b.load(slot, typ=I64))
        return self._area_addresses[name]

    def reserve(self, b: llvm.IRBuilder, kind: llvm.Type, name: str = "") -> llvm.Value:
        return byte_offset(b, self.area(b), self.allocate(self.size_of(kind, b.module)))

    def size_of(self, kind: llvm.Type, module: llvm.Module) -> int:
        size: int = kind.get_abi_size(self._target_data, context=module.context)
        return size

    def struct_size(self, b: llvm.IRBuilder, kind: llvm.Type) -> llvm.Value:
        return integer(64, self.size_of(kind, b.module))

    def allocate(self, size: int) -> int:
        offset = self.area_bytes
        self.area_bytes += -(-size // _ALIGNMENT) * _ALIGNMENT
        return offset

    def load_opaque(self, b: llvm.IRBuilder, address: llvm.Value, kind: llvm.Type) -> llvm.Value:
        """Emit a volatile load, so that LLVM assumes nothing about the value."""
        load = _VolatileLoad(b.block, address, typ=kind)
        b._insert(load)
        return load

    def constant(self, b: llvm.IRBuilder, name: str, values: Sequence[int], width: int) -> llvm.Value:
        """Return the address of an array of constants in the arena; raises KernelError if it is full."""
        if name not in self._constant_offsets:
            self._constant_offsets[name] = len(self.constants)
            for value in values:
                self.constants += value.to_bytes(width // 8, "little")
            self.constants += bytes(-len(self.constants) % _ALIGNMENT)
            if len(self.constants) > CONSTANT_BYTES:
                raise KernelError(
                    f"the program's hash algorithms need tables of more than {CONSTANT_BYTES} bytes"
                )
        return byte_offset(b, self.base(b), CONSTANTS + self._constant_offsets[name])

    def black_box(self, b: llvm.IRBuilder, value: llvm.Value) -> llvm.Value:
        """Store the value in the arena and reload it, so that neither LLVM nor the verifier knows it."""
        address = self.reserve(b, value.type)
        b.store(value, address)
        return self.load_opaque(b, address, value.type)

    def optimization_barrier(self, b: llvm.IRBuilder, value: llvm.Value) -> llvm.Value:
        """Hide the value from LLVM's optimizer, without emitting an instruction."""
        # Otherwise LLVM would split the sums of addresses, and spill the parts that are constant in a loop to
        # the stack, which is too small for them.
        kind = llvm.FunctionType(value.type, [value.type])
        return b.asm(kind, "", "=r,0", [value], side_effect=False)

    def set_apart(self, b: llvm.IRBuilder, address: llvm.Value) -> llvm.Value:
        return address  # BPF has no vectors

    # -- loops

    def loop_guard(self, b: llvm.IRBuilder) -> None:
        """Insert a comparison that LLVM can neither evaluate nor move, which becomes `may_goto`."""
        # When the kernel ends the loop, after millions of iterations, the function returns 0: the packet is
        # lost.
        name = b.function.name
        if name not in self._guard_slots:
            with _in_entry_block(b):
                self._guard_slots[name] = b.alloca(I64)
                b.store(integer(64, 0), self._guard_slots[name])
            self._exit_blocks[name] = b.append_basic_block("ended")
            with b.goto_block(self._exit_blocks[name]):
                kind = b.function.function_type.return_type
                b.ret(null(kind) if isinstance(kind, llvm.PointerType) else llvm.Constant(kind, 0))
        next_iteration = b.append_basic_block("turn")
        guard_value = self.load_opaque(b, self._guard_slots[name], I64)
        has_ended = b.icmp_unsigned("==", guard_value, integer(64, LOOP_GUARD_MAGIC))
        branch = b.cbranch(has_ended, self._exit_blocks[name], next_iteration)
        branch.set_weights([1, 1 << 20])  # rarely ended
        b.position_at_end(next_iteration)

    def copy(self, b: llvm.IRBuilder, target: llvm.Value, source: llvm.Value, size: llvm.Value) -> None:
        def move(offset: llvm.Value, width: int) -> None:
            value = b.load(byte_offset(b, source, offset), typ=llvm.IntType(width), align=1)
            b.store(value, byte_offset(b, target, offset), align=1)

        self._emit_parts(b, size, move)

    def zero(self, b: llvm.IRBuilder, address: llvm.Value, size: llvm.Value) -> None:
        if isinstance(size, llvm.Constant) and size.constant <= _MAX_ZEROED_BYTES:
            for offset, width in pieces(size.constant):
                if offset % _CHUNK_BYTES == 0:
                    # LLVM would make one `memset` of all stores, and the kernel has no such function.
                    chunk = self.optimization_barrier(b, byte_offset(b, address, offset))
                b.store(integer(8 * width, 0), byte_offset(b, chunk, offset % _CHUNK_BYTES), align=1)
            return

        def clear(offset: llvm.Value, width: int) -> None:
            b.store(integer(width, 0), byte_offset(b, address, offset), align=1)

        self._emit_parts(b, size, clear)

    def _emit_parts(self, b: llvm.IRBuilder, size: llvm.Value, emit: _Part) -> None:
        """Call `emit` with offset and width in bits of each part of `size` bytes: chunks, words, bytes."""
        size = self.black_box(b, size)
        start: llvm.Value = integer(64, 0)
        for step, width in ((_CHUNK_BYTES, 64), (_WORD_BYTES, 64), (1, 8)):
            predecessor, loop_head, body, loop_end = (
                b.block,
                *(b.append_basic_block(n) for n in ("parts", "part", "rest")),
            )
            b.branch(loop_head)
            b.position_at_end(loop_head)
            offset = b.phi(I64)
            offset.add_incoming(start, predecessor)
            self.loop_guard(b)
            next_offset = b.add(offset, integer(64, step))
            b.cbranch(b.icmp_unsigned("<=", next_offset, size), body, loop_end)
            b.position_at_end(body)
            for part_offset in range(0, step, width // 8):
                emit(b.add(offset, integer(64, part_offset)), width)
            offset.add_incoming(next_offset, b.block)
            b.branch(loop_head)
            b.position_at_end(loop_end)
            start = offset

    # -- wide numbers

    def multiply(self, b: llvm.IRBuilder, left: llvm.Value, right: llvm.Value) -> llvm.Value:
        if left.type.width <= wide_arithmetic.WORD:
            return b.mul(left, right)
        return wide_arithmetic.multiply(b, left, right)

    def quotient(self, b: llvm.IRBuilder, dividend: llvm.Value, divisor: llvm.Value) -> llvm.Value:
        if dividend.type.width <= wide_arithmetic.WORD:
            return b.udiv(dividend, divisor)
        return wide_arithmetic.divide(b, dividend, divisor)[0]

    def remainder(self, b: llvm.IRBuilder, dividend: llvm.Value, divisor: llvm.Value) -> llvm.Value:
        if dividend.type.width <= wide_arithmetic.WORD:
            return b.urem(dividend, divisor)
        return wide_arithmetic.divide(b, dividend, divisor)[1]

    def shift(self, b: llvm.IRBuilder, operation: str, value: llvm.Value, amount: llvm.Value) -> llvm.Value:
        if value.type.width <= wide_arithmetic.WORD or isinstance(amount, llvm.Constant):
            return getattr(b, operation)(value, amount)
        return wide_arithmetic.shift(b, operation, value, amount)

    def multiply_by_double(
        self, b: llvm.IRBuilder, number: llvm.Value, factor_address: llvm.Value
    ) -> llvm.Value:
        return wide_arithmetic.scale_by_double(b, number, b.load(factor_address, typ=I64))

    # -- time

    def clock(self, b: llvm.IRBuilder, now: llvm.Value) -> llvm.Value:
        return self.read_clock(b) if self.reads_clock else now

    def read_clock(self, b: llvm.IRBuilder) -> llvm.Value:
        """Return the time since the switch's start, µs."""
        start = b.load(byte_offset(b, self.base(b), START_NS), typ=I64)
        return b.udiv(b.sub(call_helper(b, KTIME_GET_NS, I64), start), integer(64, 1000))


class _VolatileLoad(llvm.LoadInstr):  # type: ignore[misc]  # llvmlite has no types
    def descr(self, buf: list[str]) -> None:
        [address] = self.operands
        buf.append(f"load volatile {self.type}, {address.type} {address.get_reference()}\n")


@contextmanager
def _in_entry_block(b: llvm.IRBuilder) -> Iterator[None]:
    """Emit into the entry block: at the builder if it is there already; llvmlite would move to the end."""
    if b.block is b.function.entry_basic_block:
        yield
        return
    with b.goto_entry_block():
        yield


def call_helper(b: llvm.IRBuilder, number: int, result: llvm.Type, *arguments: llvm.Value) -> llvm.Value:
    kind = llvm.FunctionType(result, [argument.type for argument in arguments])
    return b.call(b.inttoptr(integer(64, number), kind.as_pointer()), list(arguments))


def _pseudo_intrinsic(module: llvm.Module) -> llvm.Function:
    """Return LLVM's intrinsic for a 64-bit constant that the loader fills in."""
    name = "llvm.bpf.pseudo"
    if name not in module.globals:
        llvm.Function(module, llvm.FunctionType(I64, [I64, I64]), name)
    return module.globals[name]
