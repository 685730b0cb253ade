"""What LLVM IR for BPF has otherwise: memory of the arena, loops that the verifier lets end.

Nothing in the arena is followed by the verifier: loads are unknown values, any address will do. So what a
packet is kept in lies there, in an area that each CPU has for itself, and so does what changes from turn to
turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir as llvm

from softswitch.errors import KernelError
from softswitch.kernel import wide
from softswitch.kernel.arena import AREA_OF, CONSTANT_BYTES, CONSTANTS, MOST_CPUS, START_NS
from softswitch.kernel.compiler import machine
from softswitch.llvmir import I64, byte_offset, integer, null
from softswitch.target import Target

MAGIC = 0x7A11BA11
"""A comparison with this number becomes `may_goto`, for which LLVM has no word (`assembler`)."""
ARENA_MAP, RING_MAP, BUFFER_MAP = range(0x7A11BA12, 0x7A11BA15)
"""Stand for the file descriptors of maps (`notices` has the last two)."""
PLAIN = llvm.PointerType()
_Part = Callable[[llvm.Value, int], None]
_WORD = 8
_CHUNK = 8  # words that a turn of a copying loop takes
_MAP, _MAP_VALUE = 1, 2  # BPF_PSEUDO_MAP_FD, BPF_PSEUDO_MAP_VALUE

KTIME_GET_NS = 5
GET_SMP_PROCESSOR_ID = 8


class Bpf(Target):
    """The kernel. With `reads_clock` egress reads it; otherwise time is what the caller says, as in tests."""

    pointer = llvm.PointerType(addrspace=1)
    max_arguments = 5
    packet_in_memory = True
    has_prefetch = False

    def __init__(self, reads_clock: bool) -> None:
        self.reads_clock = reads_clock
        self._data = machine().target_data
        self._areas: dict[str, llvm.Value] = {}
        self._slots: dict[str, llvm.Value] = {}
        self._ways_out: dict[str, llvm.Block] = {}
        self._places: dict[str, int] = {}
        self.area_bytes = 0
        """Of each CPU's area, what is taken."""
        self.constants = bytearray()
        """What is to lie at `CONSTANTS`."""

    # -- memory

    def base(self, b: llvm.IRBuilder) -> llvm.Value:
        """Where the arena begins."""
        address = b.call(_pseudo(b.module), [integer(64, _MAP_VALUE), integer(64, ARENA_MAP)])
        return b.inttoptr(address, self.pointer)

    def map(self, b: llvm.IRBuilder, stands_for: int) -> llvm.Value:
        """A map, for a helper function."""
        return b.inttoptr(b.call(_pseudo(b.module), [integer(64, _MAP), integer(64, stands_for)]), PLAIN)

    def area(self, b: llvm.IRBuilder) -> llvm.Value:
        """Where this CPU's area begins."""
        name = b.function.name
        if name not in self._areas:
            with b.goto_entry_block():
                base = self.base(b)
                cpu = b.and_(b.zext(call_helper(b, GET_SMP_PROCESSOR_ID, llvm.IntType(32)), I64),
                             integer(64, MOST_CPUS - 1))  # fmt: skip
                slot = byte_offset(b, byte_offset(b, base, AREA_OF), b.shl(cpu, integer(64, 3)))
                self._areas[name] = byte_offset(b, base, b.load(slot, typ=I64))
        return self._areas[name]

    def reserve(self, b: llvm.IRBuilder, kind: llvm.Type, name: str = "") -> llvm.Value:
        """A part of the CPU's area, for this alone."""
        return byte_offset(b, self.area(b), self.take(self.size_of(kind, b.module)))

    def size_of(self, kind: llvm.Type, module: llvm.Module) -> int:
        """Bytes of a value."""
        size: int = kind.get_abi_size(self._data, context=module.context)
        return size

    def take(self, size: int) -> int:
        """Offset of a part of each CPU's area, for one use alone."""
        offset = self.area_bytes
        self.area_bytes += -(-size // 16) * 16
        return offset

    def load_opaque(self, b: llvm.IRBuilder, address: llvm.Value, kind: llvm.Type) -> llvm.Value:
        """A volatile load, so that LLVM too does not know what it gives."""
        load = _VolatileLoad(b.block, address, typ=kind)
        b._insert(load)
        return load

    def constant(self, b: llvm.IRBuilder, name: str, values: Sequence[int], width: int) -> llvm.Value:
        """Address of an array of constants in the arena."""
        if name not in self._places:
            self._places[name] = len(self.constants)
            for value in values:
                self.constants += value.to_bytes(width // 8, "little")
            self.constants += bytes(-len(self.constants) % 16)
            if len(self.constants) > CONSTANT_BYTES:
                raise KernelError(
                    f"the program's hash algorithms need tables of more than {CONSTANT_BYTES} bytes"
                )
        return byte_offset(b, self.base(b), CONSTANTS + self._places[name])

    def black_box(self, b: llvm.IRBuilder, value: llvm.Value) -> llvm.Value:
        """The same value, by way of the arena."""
        address = self.reserve(b, value.type)
        b.store(value, address)
        return self.load_opaque(b, address, value.type)

    def optimization_barrier(self, b: llvm.IRBuilder, value: llvm.Value) -> llvm.Value:
        """The same value, by no instruction: LLVM would take the sum of an address apart, and put what is the
        same in all turns of a loop onto a stack that is too small for it."""
        kind = llvm.FunctionType(value.type, [value.type])
        return b.asm(kind, "", "=r,0", [value], side_effect=False)

    # -- loops

    def loop_guard(self, b: llvm.IRBuilder) -> None:
        """Where the loader puts `may_goto`: a comparison that LLVM can neither know nor move.

        When the kernel ends the loop, after millions of turns, the function gives 0: the packet is lost.
        """
        name = b.function.name
        if name not in self._slots:
            with b.goto_entry_block():
                self._slots[name] = b.alloca(I64)
                b.store(integer(64, 0), self._slots[name])
            self._ways_out[name] = b.append_basic_block("ended")
            with b.goto_block(self._ways_out[name]):
                kind = b.function.function_type.return_type
                b.ret(null(kind) if isinstance(kind, llvm.PointerType) else llvm.Constant(kind, 0))
        going_on = b.append_basic_block("turn")
        seen = self.load_opaque(b, self._slots[name], I64)
        ends = b.icmp_unsigned("==", seen, integer(64, MAGIC))
        b.cbranch(ends, self._ways_out[name], going_on).set_weights([1, 1 << 20])
        b.position_at_end(going_on)

    def copy(self, b: llvm.IRBuilder, target: llvm.Value, source: llvm.Value, size: llvm.Value) -> None:
        """Copy by words, then by bytes."""

        def move(offset: llvm.Value, width: int) -> None:
            value = b.load(byte_offset(b, source, offset), typ=llvm.IntType(width), align=1)
            b.store(value, byte_offset(b, target, offset), align=1)

        self._each_part(b, size, move)

    def zero(self, b: llvm.IRBuilder, address: llvm.Value, size: llvm.Value) -> None:
        """Store 0 in all words, then bytes."""

        def clear(offset: llvm.Value, width: int) -> None:
            b.store(integer(width, 0), byte_offset(b, address, offset), align=1)

        self._each_part(b, size, clear)

    def _each_part(self, b: llvm.IRBuilder, size: llvm.Value, do: _Part) -> None:
        """Call `do` for each part of so many bytes, in loops: chunks of words, words, bytes."""
        size = self.black_box(b, size)
        start: llvm.Value = integer(64, 0)
        for step, width in ((_CHUNK * _WORD, 64), (_WORD, 64), (1, 8)):
            before, head, body, after = (
                b.block,
                *(b.append_basic_block(n) for n in ("parts", "part", "rest")),
            )
            b.branch(head)
            b.position_at_end(head)
            offset = b.phi(I64)
            offset.add_incoming(start, before)
            self.loop_guard(b)
            following = b.add(offset, integer(64, step))
            b.cbranch(b.icmp_unsigned("<=", following, size), body, after)
            b.position_at_end(body)
            for inside in range(0, step, width // 8):
                do(b.add(offset, integer(64, inside)), width)
            offset.add_incoming(following, b.block)
            b.branch(head)
            b.position_at_end(after)
            start = offset

    # -- numbers of more than a word

    def multiply(self, b: llvm.IRBuilder, left: llvm.Value, right: llvm.Value) -> llvm.Value:
        """The product modulo 2^width."""
        return b.mul(left, right) if left.type.width <= wide.WORD else wide.multiply(b, left, right)

    def quotient(self, b: llvm.IRBuilder, dividend: llvm.Value, divisor: llvm.Value) -> llvm.Value:
        """The quotient of numbers without sign."""
        if dividend.type.width <= wide.WORD:
            return b.udiv(dividend, divisor)
        return wide.divide(b, dividend, divisor)[0]

    def remainder(self, b: llvm.IRBuilder, dividend: llvm.Value, divisor: llvm.Value) -> llvm.Value:
        """The remainder of numbers without sign."""
        if dividend.type.width <= wide.WORD:
            return b.urem(dividend, divisor)
        return wide.divide(b, dividend, divisor)[1]

    def shift(self, b: llvm.IRBuilder, how: str, value: llvm.Value, amount: llvm.Value) -> llvm.Value:
        """`shl`, `lshr` or `ashr`, by less than the width."""
        if value.type.width <= wide.WORD or isinstance(amount, llvm.Constant):
            return getattr(b, how)(value, amount)
        return wide.shift(b, how, value, amount)

    def scaled(self, b: llvm.IRBuilder, number: llvm.Value, factor: llvm.Value) -> llvm.Value:
        """floor(number x factor), where `factor` is the address of a double."""
        return wide.scaled(b, number, b.load(factor, typ=I64))

    # -- time

    def clock(self, b: llvm.IRBuilder, now: llvm.Value) -> llvm.Value:
        """The kernel's clock, unless time is what the caller says."""
        return self.read_clock(b) if self.reads_clock else now

    def read_clock(self, b: llvm.IRBuilder) -> llvm.Value:
        """Time in us since the switch started."""
        start = b.load(byte_offset(b, self.base(b), START_NS), typ=I64)
        return b.udiv(b.sub(call_helper(b, KTIME_GET_NS, I64), start), integer(64, 1000))


class _VolatileLoad(llvm.LoadInstr):  # type: ignore[misc]  # llvmlite has no types
    """A load that LLVM leaves where and as it is; llvmlite has none."""

    def descr(self, buf: list[str]) -> None:
        [address] = self.operands
        buf.append(f"load volatile {self.type}, {address.type} {address.get_reference()}\n")


def call_helper(b: llvm.IRBuilder, number: int, result: llvm.Type, *arguments: llvm.Value) -> llvm.Value:
    """Call a helper function of the kernel by its number."""
    kind = llvm.FunctionType(result, [argument.type for argument in arguments])
    return b.call(b.inttoptr(integer(64, number), kind.as_pointer()), list(arguments))


def _pseudo(module: llvm.Module) -> llvm.Function:
    """LLVM's word for a 64-bit constant that the loader fills in."""
    name = "llvm.bpf.pseudo"
    if name not in module.globals:
        llvm.Function(module, llvm.FunctionType(I64, [I64, I64]), name)
    return module.globals[name]
