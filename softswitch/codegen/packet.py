"""One packet in flight: header fields, validity, stack counters, and the frame it came from.

Fields are stack slots that LLVM turns into registers; elements of a header stack lie in arrays, since the
parser reaches them by a counter.
"""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.values import Arithmetic, integer, resize
from softswitch.codegen.wire import load_fields, store_fields

I8, I32 = llvm.IntType(8), llvm.IntType(32)


class Packet:
    """Storage of a packet in the function that `b` builds; made, and zeroed, at the builder's place."""

    def __init__(self, b: llvm.IRBuilder, program: ir.Program, frame: llvm.Value, length: llvm.Value) -> None:
        self.b = b
        self.program = program
        self.frame = frame
        self.ingress_length = length
        self.arithmetic = Arithmetic(b, self)
        self.parameters: list[llvm.Value] = []
        self._element = {
            header: (stack, position)
            for stack, declared in enumerate(program.stacks)
            for position, header in enumerate(declared.headers)
        }
        self._fields = [
            [self._slot(llvm.IntType(f.width)) for f in header.fields] if h not in self._element else []
            for h, header in enumerate(program.headers)
        ]
        self._valid = [
            self._slot(I8) if h not in self._element else None for h in range(len(program.headers))
        ]
        self._stack_fields = [
            [self._array(llvm.IntType(f.width), len(s.headers)) for f in program.headers[s.headers[0]].fields]
            for s in program.stacks
        ]
        self._stack_valid = [self._array(I8, len(s.headers)) for s in program.stacks]
        self.next_index = [self._slot(I32) for _ in program.stacks]
        self.cursor = self._slot(I32)
        self.written = self._slot(llvm.IntType(64))
        self.length = self._slot(I32)
        b.store(length, self.length)

    # -- storage

    def _slot(self, kind: llvm.Type) -> llvm.Value:
        slot = self.b.alloca(kind)
        self.b.store(llvm.Constant(kind, 0), slot)
        return slot

    def _array(self, kind: llvm.Type, size: int) -> llvm.Value:
        array = llvm.ArrayType(kind, size)
        slot = self.b.alloca(array)
        self.b.store(llvm.Constant(array, None), slot)
        return slot

    def _at(self, array: llvm.Value, position: int | llvm.Value) -> llvm.Value:
        if isinstance(position, int):
            position = integer(32, position)
        return self.b.gep(array, [integer(32, 0), position], inbounds=True)

    def _field(self, ref: ir.FieldRef) -> llvm.Value:
        if ref.header in self._element:
            stack, position = self._element[ref.header]
            return self._at(self._stack_fields[stack][ref.field], position)
        return self._fields[ref.header][ref.field]

    def _validity(self, header: int) -> llvm.Value:
        if header in self._element:
            stack, position = self._element[header]
            return self._at(self._stack_valid[stack], position)
        return self._valid[header]

    # -- leaves of expressions (values.Sources)

    def width(self, ref: ir.FieldRef) -> int:
        """Width of a field in bits."""
        return self.program.width(ref)

    def load(self, ref: ir.FieldRef) -> llvm.Value:
        """A field's value."""
        return self.b.load(self._field(ref), typ=llvm.IntType(self.width(ref)))

    def is_valid(self, header: int) -> llvm.Value:
        """A header's validity, an `i1`."""
        return self.b.icmp_unsigned("!=", self.b.load(self._validity(header), typ=I8), integer(8, 0))

    def parameter(self, index: int) -> llvm.Value:
        """Run-time data of the action being compiled."""
        return self.parameters[index]

    # -- changes

    def store(self, ref: ir.FieldRef, value: llvm.Value) -> None:
        """Store a value, cut or extended to the field's width."""
        self.b.store(resize(self.b, value, self.width(ref)), self._field(ref))

    def store_standard(self, name: str, value: llvm.Value) -> None:
        """Store a field of `standard_metadata`."""
        self.store(self.program.standard(name), value)

    def load_standard(self, name: str) -> llvm.Value:
        """Load a field of `standard_metadata`."""
        return self.load(self.program.standard(name))

    def set_valid(self, header: int) -> None:
        """Make a header valid, its fields 0 and the packet longer if it was not (BMv2 `add_header`)."""
        with self.b.if_then(self.b.not_(self.is_valid(header))):
            for index in range(len(self.program.headers[header].fields)):
                self.store(ir.FieldRef(header, index), integer(1, 0))
            self.b.store(integer(8, 1), self._validity(header))
            self._grow(self.program.headers[header].bits // 8)

    def set_invalid(self, header: int) -> None:
        """Make a header invalid and the packet shorter (BMv2 `remove_header`)."""
        with self.b.if_then(self.is_valid(header)):
            self.b.store(integer(8, 0), self._validity(header))
            self._grow(-(self.program.headers[header].bits // 8))

    def _grow(self, size: int) -> None:
        length = self.b.load(self.length, typ=I32)
        self.b.store(self.b.add(length, integer(32, size)), self.length)

    def shift(self, stack: int, count: int) -> None:
        """`push_front` (count > 0) or `pop_front` of a stack (P4_16 §8.18)."""
        size = len(self.program.stacks[stack].headers)
        header = self.program.headers[self.program.stacks[stack].headers[0]]
        arrays = [
            *zip(self._stack_fields[stack], (llvm.IntType(f.width) for f in header.fields), strict=True),
            (self._stack_valid[stack], I8),
        ]
        for array, kind in arrays:
            if abs(count) >= size:
                whole = llvm.ArrayType(kind, size)
                self.b.store(llvm.Constant(whole, None), array)
                continue
            order = range(size - 1, -1, -1) if count > 0 else range(size)
            for position in order:
                inside = 0 <= position - count < size
                moved = (
                    self.b.load(self._at(array, position - count), typ=kind)
                    if inside
                    else llvm.Constant(kind, 0)
                )
                self.b.store(moved, self._at(array, position))
        index = self.b.load(self.next_index[stack], typ=I32)
        moved_index = self.b.add(index, integer(32, count))
        if count > 0:
            past = self.b.icmp_signed(">", moved_index, integer(32, size))
            moved_index = self.b.select(past, integer(32, size), moved_index)
        else:
            below = self.b.icmp_signed("<", moved_index, integer(32, 0))
            moved_index = self.b.select(below, integer(32, 0), moved_index)
        self.b.store(moved_index, self.next_index[stack])

    # -- bytes

    def extract(self, header: int, address: llvm.Value) -> None:
        """Fill a header from bytes and make it valid."""
        widths = [f.width for f in self.program.headers[header].fields]
        for index, value in enumerate(load_fields(self.b, address, widths)):
            self.store(ir.FieldRef(header, index), value)
        self.b.store(integer(8, 1), self._validity(header))

    def extract_next(self, stack: int, address: llvm.Value) -> None:
        """Fill the next element of a stack from bytes, make it valid and step on."""
        header = self.program.headers[self.program.stacks[stack].headers[0]]
        index = self.b.load(self.next_index[stack], typ=I32)
        values = load_fields(self.b, address, [f.width for f in header.fields])
        for array, value in zip(self._stack_fields[stack], values, strict=True):
            self.b.store(value, self._at(array, index))
        self.b.store(integer(8, 1), self._at(self._stack_valid[stack], index))
        self.b.store(self.b.add(index, integer(32, 1)), self.next_index[stack])

    def emit(self, header: int, address: llvm.Value) -> None:
        """Write a header's bytes."""
        fields = self.program.headers[header].fields
        values = [self.load(ir.FieldRef(header, index)) for index in range(len(fields))]
        store_fields(self.b, address, [f.width for f in fields], values)
