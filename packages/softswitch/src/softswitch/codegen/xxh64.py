"""Emit XXH64 (xxHash specification 0.1.1, seed 0) of bytes in memory."""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch.codegen.loops import Variable, repeat_while
from softswitch.hashing import XXH_PRIMES, XXH_STRIPE_BYTES
from softswitch.llvmir import I64, byte_offset, integer, resize

# Rotations, shifts and sizes below are those of the specification.
P1, P2, P3, P4, P5 = (integer(64, prime) for prime in XXH_PRIMES)


def emit_xxh64(b: llvm.IRBuilder, data: llvm.Value, size: llvm.Value) -> llvm.Value:
    return _Xxh64(b, data, size).emit()


class _Xxh64:
    def __init__(self, b: llvm.IRBuilder, data: llvm.Value, size: llvm.Value) -> None:
        self.b, self.data, self.size = b, data, size
        self.position = Variable(b, I64)
        self.hash = Variable(b, I64, P5)

    def emit(self) -> llvm.Value:
        b = self.b
        with b.if_then(b.icmp_unsigned(">=", self.size, integer(64, XXH_STRIPE_BYTES))):
            self._mix_stripes()
        self.hash.set(b.add(self.hash.get(), self.size))
        with repeat_while(b, lambda: self._has_bytes(8)):
            mixed = b.xor(self.hash.get(), self._round(integer(64, 0), self._read_bits(64)))
            self.hash.set(b.add(b.mul(self._rotate_left(mixed, 27), P1), P4))
        with b.if_then(self._has_bytes(4)):
            mixed = b.xor(self.hash.get(), b.mul(self._read_bits(32), P1))
            self.hash.set(b.add(b.mul(self._rotate_left(mixed, 23), P2), P3))
        with repeat_while(b, lambda: self._has_bytes(1)):
            mixed = b.xor(self.hash.get(), b.mul(self._read_bits(8), P5))
            self.hash.set(b.mul(self._rotate_left(mixed, 11), P1))
        return self._avalanche()

    def _mix_stripes(self) -> None:
        b = self.b
        starts = (b.add(P1, P2), P2, integer(64, 0), b.sub(integer(64, 0), P1))
        accumulators = [Variable(b, I64, start) for start in starts]
        with repeat_while(b, lambda: self._has_bytes(XXH_STRIPE_BYTES)):
            for accumulator in accumulators:
                accumulator.set(self._round(accumulator.get(), self._read_bits(64)))
        values = [accumulator.get() for accumulator in accumulators]
        total: llvm.Value = integer(64, 0)
        for value, rotation in zip(values, (1, 7, 12, 18), strict=True):
            total = b.add(total, self._rotate_left(value, rotation))
        for value in values:
            total = b.add(b.mul(b.xor(total, self._round(integer(64, 0), value)), P1), P4)
        self.hash.set(total)

    def _avalanche(self) -> llvm.Value:
        b, value = self.b, self.hash.get()
        for shift, factor in ((33, P2), (29, P3)):
            value = b.mul(b.xor(value, b.lshr(value, integer(64, shift))), factor)
        return b.xor(value, b.lshr(value, integer(64, 32)))

    def _has_bytes(self, count: int) -> llvm.Value:
        end = self.b.add(self.position.get(), integer(64, count))
        return self.b.icmp_unsigned("<=", end, self.size)

    def _read_bits(self, bits: int) -> llvm.Value:
        address = byte_offset(self.b, self.data, self.position.get())
        value = self.b.load(address, typ=llvm.IntType(bits), align=1)
        self.position.set(self.b.add(self.position.get(), integer(64, bits // 8)))
        return resize(self.b, value, 64)

    def _round(self, accumulator: llvm.Value, value: llvm.Value) -> llvm.Value:
        total = self.b.add(accumulator, self.b.mul(value, P2))
        return self.b.mul(self._rotate_left(total, 31), P1)

    def _rotate_left(self, value: llvm.Value, rotation: int) -> llvm.Value:
        left, right = self.b.shl(value, integer(64, rotation)), self.b.lshr(value, integer(64, 64 - rotation))
        return self.b.or_(left, right)
