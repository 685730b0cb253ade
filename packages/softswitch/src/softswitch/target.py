"""Targets of a module of LLVM IR (emitters call `target_of`): this process's CPU, or the kernel's BPF."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir as llvm

from softswitch.llvmir import I32, I64, POINTER, integer, offset_of, opaque_pointer

DOUBLE = llvm.DoubleType()
_NOT_VOLATILE = integer(1, 0)


class Target:
    """A target of code generation; this base class is a CPU, with plain pointers and without BPF's limits."""

    pointer = POINTER
    max_arguments: int | None = None  # maximum number of arguments of a function; None is unlimited
    packet_in_memory = False
    """Whether a packet in flight is always one struct in memory, for lack of registers."""
    has_prefetch = True
    """Whether `prefetch` exists and does not wait for memory."""

    def reserve(self, b: llvm.IRBuilder, kind: llvm.Type, name: str = "") -> llvm.Value:
        """Allocate memory for a value for the duration of the function."""
        return opaque_pointer(b.alloca(kind, name=name))

    def struct_size(self, b: llvm.IRBuilder, kind: llvm.Type) -> llvm.Value:
        """Return the size of a type in bytes."""
        return offset_of(b, kind, [integer(32, 1)])  # of a second value

    def load_opaque(self, b: llvm.IRBuilder, address: llvm.Value, kind: llvm.Type) -> llvm.Value:
        """Load a value of `reserve` so that the verifier cannot infer it from what was stored."""
        return b.load(address, typ=kind)

    def prefetch(self, b: llvm.IRBuilder, address: llvm.Value) -> None:
        kind = llvm.FunctionType(llvm.VoidType(), [POINTER, I32, I32, I32])
        prefetch = b.module.declare_intrinsic("llvm.prefetch", [POINTER], kind)
        for_reading, in_all_caches, of_data = integer(32, 0), integer(32, 3), integer(32, 1)
        b.call(prefetch, [address, for_reading, in_all_caches, of_data])

    def black_box(self, b: llvm.IRBuilder, value: llvm.Value) -> llvm.Value:
        """Return the value so that the verifier cannot infer it, and need not track its possible values."""
        return value

    def optimization_barrier(self, b: llvm.IRBuilder, value: llvm.Value) -> llvm.Value:
        """Return the value, which LLVM then computes as a whole, to save registers for its constant part."""
        return value

    def set_apart(self, b: llvm.IRBuilder, address: llvm.Value) -> llvm.Value:
        """Return an address of which LLVM does not know that it is beside another.

        It would add to two neighbouring words as to a vector, and take longer to build it than to add twice.
        """
        return opaque_pointer(
            b.asm(llvm.FunctionType(I64.as_pointer(), [I64.as_pointer()]), "", "=r,0", [address], False)
        )

    def loop_guard(self, b: llvm.IRBuilder) -> None:
        """Emit a check for an iteration of a loop without an evident bound: none here; BPF's may end it."""

    def copy(self, b: llvm.IRBuilder, target: llvm.Value, source: llvm.Value, size: llvm.Value) -> None:
        """Copy memory that does not overlap."""
        memcpy = b.module.declare_intrinsic("llvm.memcpy", [POINTER, POINTER, I64])
        b.call(memcpy, [target, source, size, _NOT_VOLATILE])

    def zero(self, b: llvm.IRBuilder, address: llvm.Value, size: llvm.Value) -> None:
        memset = b.module.declare_intrinsic("llvm.memset", [POINTER, I64])
        b.call(memset, [address, integer(8, 0), size, _NOT_VOLATILE])

    def constant(self, b: llvm.IRBuilder, name: str, values: Sequence[int], width: int) -> llvm.Value:
        """Return the address of an array of constants, created at the name's first use in the module."""
        if name not in b.module.globals:
            array = llvm.ArrayType(llvm.IntType(width), len(values))
            variable = llvm.GlobalVariable(b.module, array, name)
            variable.global_constant = True
            variable.linkage = "internal"
            variable.initializer = llvm.Constant(array, list(values))
            opaque_pointer(variable)
        return b.module.globals[name]

    def multiply(self, b: llvm.IRBuilder, left: llvm.Value, right: llvm.Value) -> llvm.Value:
        return b.mul(left, right)

    def quotient(self, b: llvm.IRBuilder, dividend: llvm.Value, divisor: llvm.Value) -> llvm.Value:
        return b.udiv(dividend, divisor)

    def remainder(self, b: llvm.IRBuilder, dividend: llvm.Value, divisor: llvm.Value) -> llvm.Value:
        return b.urem(dividend, divisor)

    def shift(self, b: llvm.IRBuilder, operation: str, value: llvm.Value, amount: llvm.Value) -> llvm.Value:
        """Emit `shl`, `lshr` or `ashr` by less than the width."""
        return getattr(b, operation)(value, amount)

    def multiply_by_double(
        self, b: llvm.IRBuilder, number: llvm.Value, factor_address: llvm.Value
    ) -> llvm.Value:
        """Return floor(number x factor), where the factor is a double at an address."""
        product = b.fmul(b.sitofp(number, DOUBLE), b.load(factor_address, typ=DOUBLE))
        return b.fptoui(product, I64)

    def clock(self, b: llvm.IRBuilder, now: llvm.Value) -> llvm.Value:
        """Return the time in µs at the beginning of egress; `now` is when the packet function was called."""
        return now


NATIVE = Target()


class Module(llvm.Module):  # type: ignore[misc]  # llvmlite has no types
    def __init__(self, name: str, target: Target) -> None:
        super().__init__(name)
        self.target = target


def target_of(module: llvm.Module) -> Target:
    """Return the target of a module; numba's modules are for this CPU."""
    return module.target if isinstance(module, Module) else NATIVE


def pass_words(b: llvm.IRBuilder, words: Sequence[llvm.Value], preceding_count: int) -> list[llvm.Value]:
    """Return words as arguments after other arguments; in memory if there would be too many."""
    target = target_of(b.module)
    if not _uses_memory(target, len(words), preceding_count):
        return list(words)
    array = llvm.ArrayType(I64, len(words))
    with b.goto_entry_block():
        memory = target.reserve(b, array)
    for position, word in enumerate(words):
        b.store(word, _element(b, memory, position), align=8)
    return [memory]


def word_parameter_types(target: Target, count: int, preceding_count: int) -> list[llvm.Type]:
    return [target.pointer] if _uses_memory(target, count, preceding_count) else [I64] * count


def receive_words(
    b: llvm.IRBuilder, arguments: Sequence[llvm.Value], count: int, preceding_count: int
) -> list[llvm.Value]:
    if not _uses_memory(target_of(b.module), count, preceding_count):
        return list(arguments)
    [memory] = arguments
    return [b.load(_element(b, memory, position), typ=I64, align=8) for position in range(count)]


def _uses_memory(target: Target, count: int, preceding_count: int) -> bool:
    return target.max_arguments is not None and preceding_count + count > target.max_arguments


def _element(b: llvm.IRBuilder, memory: llvm.Value, position: int) -> llvm.Value:
    return b.gep(memory, [integer(64, position)], inbounds=True, source_etype=I64)
