"""One packet in flight: access to its fields and headers, and conversion of headers to and from bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.expressions import Arithmetic
from softswitch.codegen.loops import require
from softswitch.codegen.storage import Storage
from softswitch.codegen.wire import load_fields, runs, store_fields
from softswitch.llvmir import I8, I32, I64, byte_offset, integer, resize, sign_extend
from softswitch.target import target_of
from softswitch.v1model import Standard

MAX_VALIDITIES = 8  # that fill a word


class Instance(NamedTuple):
    """A header, or an element of a stack; if `position` is computed, `header` is the stack's first."""

    header: int
    stack: int | None = None
    position: llvm.Value | None = None


class Packet(Storage):
    """The packet that a function handles; `parameters` are the run-time data of the action being compiled.

    With `in_struct`, the packet's fields are in one struct in memory (`Storage`).
    """

    def __init__(self, b: llvm.IRBuilder, program: ir.Program, in_struct: bool) -> None:
        super().__init__(b, program, in_struct)
        self.arithmetic = Arithmetic(b, self)
        self.parameters: list[llvm.Value] = []
        self.too_short_block: llvm.Block | None = None

    # -- instances

    def instance(self, header: int) -> Instance:
        if header in self._stack_position:
            stack, position = self._stack_position[header]
            return Instance(header, stack, integer(32, position))
        return Instance(header)

    @contextmanager
    def instance_at(self, ref: ir.HeaderRef) -> Iterator[Instance]:
        """Yield the header; code emitted inside runs only if a computed position is in its stack."""
        if isinstance(ref, int):
            yield self.instance(ref)
            return
        position, is_in_stack = self._element_position(ref)
        with self.b.if_then(is_in_stack):
            yield Instance(self.program.stacks[ref.stack].headers[0], ref.stack, position)

    def _element_position(self, element: ir.Element) -> tuple[llvm.Value, llvm.Value]:
        """Return an element's position (0 if outside the stack), and an `i1`: whether it is in the stack."""
        size = len(self.program.stacks[element.stack].headers)
        index = self.arithmetic.exact_modulo(element.index, 64)
        width = max(index.type.width, size.bit_length() + 1)
        index = resize(self.b, index, width)
        is_in_stack = self.b.icmp_unsigned("<", index, integer(width, size))
        position = self.b.select(is_in_stack, resize(self.b, index, 32), integer(32, 0))
        return position, is_in_stack

    def _slot(self, instance: Instance, number: int) -> llvm.Value:
        if instance.stack is None:
            return self._fields[instance.header][number]
        fields, *after_fields = self._stacks[instance.stack]
        types, size = self._field_types(instance.header), len(self.program.stacks[instance.stack].headers)
        indices = [integer(32, 0), instance.position]
        if number < len(types):
            array = llvm.ArrayType(llvm.LiteralStructType(types), size)
            indices.append(integer(32, number))
            return self.b.gep(fields, indices, inbounds=True, source_etype=array)
        array = llvm.ArrayType(self._slot_type(instance.header, number), size)
        return self.b.gep(after_fields[number - len(types)], indices, inbounds=True, source_etype=array)

    def _slot_type(self, header: int, number: int) -> llvm.Type:
        return (*self._field_types(header), *self._types_after_fields(header))[number]

    # The slots that follow those of fields, as in `_types_after_fields`.

    def _validity_slot(self, instance: Instance) -> llvm.Value:
        return self._slot(instance, len(self.program.headers[instance.header].fields))

    def _length_slot(self, instance: Instance) -> llvm.Value:
        return self._slot(instance, len(self.program.headers[instance.header].fields) + 1)

    # -- leaves of expressions (`expressions.Sources`)

    def type_of(self, ref: ir.LValue) -> ir.FieldType:
        return self.program.type_of(ref)

    def load(self, ref: ir.LValue) -> llvm.Value:
        return resize(self.b, self.load_stored(ref), self.program.width(ref))

    def load_stored(self, ref: ir.LValue) -> llvm.Value:
        kind = llvm.IntType(self.type_of(ref).stored_bits)
        if isinstance(ref, ir.FieldRef):
            return self.b.load(self._slot(self.instance(ref.header), ref.field), typ=kind)
        position, is_in_stack = self._element_position(ref.element)
        header = self.program.stacks[ref.element.stack].headers[0]
        value = self.b.load(self._slot(Instance(header, ref.element.stack, position), ref.field), typ=kind)
        return self.b.select(is_in_stack, value, llvm.Constant(kind, 0))

    def is_valid(self, header: int) -> llvm.Value:
        return self.is_valid_at(self.instance(header))

    def is_valid_at(self, instance: Instance) -> llvm.Value:
        if self.program.headers[instance.header].metadata:
            return integer(1, 1)
        return self.b.icmp_unsigned("!=", self.b.load(self._validity_slot(instance), typ=I8), integer(8, 0))

    def has_valid(self, headers: Sequence[int]) -> llvm.Value:
        """Return an `i1`: whether a header is valid, or one of `MAX_VALIDITIES` neighbours in a stack."""
        if len(headers) == 1:
            return self.is_valid(headers[0])
        validities = self.b.load(
            self._validity_slot(self.instance(headers[0])), typ=llvm.IntType(8 * len(headers)), align=1
        )
        return self.b.icmp_unsigned("!=", validities, llvm.Constant(validities.type, 0))

    def last_index(self, stack: int) -> llvm.Value:
        next_index = self.next_index(self.program.stacks[stack].cursor)
        return self.b.sub(self.b.zext(next_index, I64), integer(64, 1))

    def parameter(self, index: int) -> llvm.Value:
        return self.parameters[index]

    def lookahead(self, offset: int, width: int) -> llvm.Value:
        b = self.b
        assert self.too_short_block is not None
        cursor = self.get("cursor")
        needed_bytes = -(-(offset + width) // 8)
        remaining = b.sub(self.get("ingress_length"), cursor)
        self.require(b.icmp_unsigned(">=", remaining, integer(32, needed_bytes)), self.too_short_block)
        address = byte_offset(b, self.get("frame"), b.zext(cursor, I64))
        # Whole bytes are loaded, and the bits before and after the wanted ones are dropped.
        bits_before, bits_after = offset % 8, -(offset + width) % 8
        widths = [part for part in (bits_before, width, bits_after) if part]
        wanted_positions = [1 if bits_before else 0]
        (value,) = load_fields(b, byte_offset(b, address, offset // 8), widths, wanted_positions)
        return value

    def require(self, condition: llvm.Value, otherwise: llvm.Block) -> None:
        require(self.b, condition, otherwise)

    # -- stores and validity

    def store(self, ref: ir.LValue, value: llvm.Value) -> None:
        """Store an unsigned value of any width, or a sign-extended value of the field's stored width."""
        declared = self.type_of(ref)
        if declared.width == 0:
            return
        if declared.signed and value.type.width > declared.stored_bits:
            fits = self.b.icmp_unsigned("<=", value, integer(value.type.width, declared.max_value))
            value = self._wrap_unless(fits, value, declared)
        value = resize(self.b, value, declared.stored_bits)
        if isinstance(ref, ir.FieldRef):
            self.b.store(value, self._slot(self.instance(ref.header), ref.field))
            return
        with self.instance_at(ref.element) as instance:
            self.b.store(value, self._slot(instance, ref.field))

    def assign(self, ref: ir.LValue, expression: ir.Expression) -> None:
        """Store an expression's value, modulo 2^width if the field cannot hold it."""
        declared, interval = self.type_of(ref), self.arithmetic.interval(expression)
        value = self.arithmetic.modulo(expression, declared.stored_bits)
        if declared.signed and not declared.min_value <= interval.low <= interval.high <= declared.max_value:
            fits = self.arithmetic.truth(
                ir.Binary(
                    ir.Op.BOOL_AND,
                    ir.Binary(ir.Op.GE, expression, ir.Constant(declared.min_value)),
                    ir.Binary(ir.Op.LE, expression, ir.Constant(declared.max_value)),
                )
            )
            value = self._wrap_unless(fits, value, declared)
        self.store(ref, value)

    def _wrap_unless(self, fits: llvm.Value, value: llvm.Value, declared: ir.FieldType) -> llvm.Value:
        """Return the value in the stored bits; if it does not fit, sign-extend its low `width` bits."""
        bits = declared.stored_bits
        wrapped = sign_extend(self.b, resize(self.b, value, declared.width), bits)
        return self.b.select(fits, resize(self.b, value, bits), wrapped)

    def store_standard(self, name: Standard, value: llvm.Value) -> None:
        self.store(self.program.standard_field(name), value)

    def load_standard(self, name: Standard) -> llvm.Value:
        return self.load(self.program.standard_field(name))

    def set_valid(self, instance: Instance) -> None:
        """Make an invalid header valid with all fields 0, and the packet longer (BMv2 `add_header`)."""
        with self.b.if_then(self.b.not_(self.is_valid_at(instance))):
            for number in range(len(self.program.headers[instance.header].fields)):
                kind = self._slot_type(instance.header, number)
                self.b.store(llvm.Constant(kind, None), self._slot(instance, number))
            self._make_valid(instance)
            self.set("length", self.b.add(self.get("length"), self.header_bytes(instance)))

    def set_invalid(self, instance: Instance) -> None:
        """Make a valid header invalid, and the packet shorter (BMv2 `remove_header`)."""
        with self.b.if_then(self.is_valid_at(instance)):
            self.b.store(integer(8, 0), self._validity_slot(instance))
            self.set("length", self.b.sub(self.get("length"), self.header_bytes(instance)))

    def _make_valid(self, instance: Instance) -> None:
        self.b.store(integer(8, 1), self._validity_slot(instance))
        # The other members of its header union, if any, become invalid.
        for sibling_header in self.program.siblings.get(instance.header, ()):
            sibling = self.instance(sibling_header)
            if sibling.stack is not None:
                sibling = sibling._replace(position=instance.position)
            self.b.store(integer(8, 0), self._validity_slot(sibling))

    def header_bytes(self, instance: Instance) -> llvm.Value:
        declared = self.program.headers[instance.header]
        fixed = integer(32, declared.bits // 8)
        if declared.varbit_position is None:
            return fixed
        return self.b.add(fixed, self.b.load(self._length_slot(instance), typ=I32))

    def copy(self, target: Instance, source: Instance) -> None:
        """Copy a header; an invalid source only makes the target invalid (BMv2 `assign_header`)."""
        fields = self.program.headers[target.header].fields
        with self.b.if_else(self.is_valid_at(source)) as (if_valid, if_invalid):
            with if_valid:
                for number in range(len(fields)):
                    self._copy_slot(target, source, number, number)
                if self.program.headers[target.header].varbit_position is not None:
                    self._copy_length(target, source)
                self._make_valid(target)
            with if_invalid:
                self.b.store(integer(8, 0), self._validity_slot(target))

    def _copy_slot(self, target: Instance, source: Instance, target_field: int, source_field: int) -> None:
        kind = self._slot_type(source.header, source_field)
        value = self.b.load(self._slot(source, source_field), typ=kind)
        self.b.store(value, self._slot(target, target_field))

    def copy_varbit(self, target: ir.FieldRef, source: ir.FieldRef) -> None:
        copy, original = self.instance(target.header), self.instance(source.header)
        self._copy_slot(copy, original, target.field, source.field)
        self._copy_length(copy, original)

    def _copy_length(self, target: Instance, source: Instance) -> None:
        self.b.store(self.b.load(self._length_slot(source), typ=I32), self._length_slot(target))

    def next_index(self, stack_cursor: int) -> llvm.Value:
        return self.b.load(self._next_index[stack_cursor], typ=I32)

    def set_next_index(self, stack_cursor: int, value: llvm.Value) -> None:
        self.b.store(value, self._next_index[stack_cursor])

    def shift(self, shift: ir.Shift) -> None:
        """Emit `push_front` or `pop_front` (P4_16 §8.18)."""
        # A stack of unions is one stack for each member; these share the next index.
        for stack in shift.stacks:
            header = self.program.stacks[stack].headers[0]
            slots = len(self.program.headers[header].fields) + len(self._types_after_fields(header))
            for number in range(slots):
                self._permute(Instance(header, stack), number, shift.sources)
            for position in shift.invalid_positions:
                instance = Instance(header, stack, integer(32, position))
                self.b.store(integer(8, 0), self._validity_slot(instance))
        stack_cursor = self.program.stacks[shift.stacks[0]].cursor
        new_index = self.b.add(self.next_index(stack_cursor), integer(32, shift.count))
        for comparison, bound in ((">", len(shift.sources)), ("<", 0)):
            limit = integer(32, bound)
            new_index = self.b.select(self.b.icmp_signed(comparison, new_index, limit), limit, new_index)
        self.set_next_index(stack_cursor, new_index)

    def _permute(self, element: Instance, number: int, sources: tuple[int, ...]) -> None:
        kind = self._slot_type(element.header, number)
        addresses = [
            self._slot(element._replace(position=integer(32, i)), number) for i in range(len(sources))
        ]
        old_values = [self.b.load(address, typ=kind) for address in addresses]
        for address, source in zip(addresses, sources, strict=True):
            self.b.store(old_values[source], address)

    # -- bytes

    def extract(
        self, instance: Instance, address: llvm.Value, varbit_bytes: llvm.Value | None = None
    ) -> None:
        fields = self.program.headers[instance.header].fields
        varbit = self.program.headers[instance.header].varbit_position
        leading_fields = range(len(fields)) if varbit is None else range(varbit)
        address = self._load_run(instance, address, leading_fields)
        if varbit is not None:
            size = varbit_bytes or integer(32, fields[varbit].width // 8)  # of the type, if none is given
            self.b.store(size, self._length_slot(instance))
            size = self.b.zext(size, I64)
            self.copy_bytes(self._slot(instance, varbit), address, size)
            self._load_run(instance, byte_offset(self.b, address, size), range(varbit + 1, len(fields)))
        self._make_valid(instance)

    def _load_run(self, instance: Instance, address: llvm.Value, numbers: range) -> llvm.Value:
        """Load fields of a header; store each run (`wire.runs`) before the next, for a small stack frame."""
        fields = self.program.headers[instance.header].fields
        for bits, run in runs([fields[n].width for n in numbers]):
            widths = [fields[numbers[position]].width for position in run]
            for position, value in zip(run, load_fields(self.b, address, widths), strict=True):
                wide = sign_extend(self.b, value, fields[numbers[position]].stored_bits)
                self.b.store(wide, self._slot(instance, numbers[position]))
            address = byte_offset(self.b, address, bits // 8)
        return address

    def emit(self, header: int, address: llvm.Value) -> llvm.Value:
        instance = self.instance(header)
        fields = self.program.headers[header].fields
        varbit = self.program.headers[header].varbit_position
        leading_fields = range(len(fields)) if varbit is None else range(varbit)
        address = self._store_run(instance, address, leading_fields)
        if varbit is None:
            return address
        address = self.append_varbit(ir.FieldRef(header, varbit), address)
        return self._store_run(instance, address, range(varbit + 1, len(fields)))

    def _store_run(self, instance: Instance, address: llvm.Value, numbers: range) -> llvm.Value:
        declared = self.program.headers[instance.header].fields
        for bits, run in runs([declared[n].width for n in numbers]):
            widths = [declared[numbers[position]].width for position in run]
            values = [self.load(ir.FieldRef(instance.header, numbers[position])) for position in run]
            store_fields(self.b, address, widths, values)
            address = byte_offset(self.b, address, bits // 8)
        return address

    def append_varbit(self, ref: ir.FieldRef, address: llvm.Value) -> llvm.Value:
        instance = self.instance(ref.header)
        size = self.b.zext(self.b.load(self._length_slot(instance), typ=I32), I64)
        self.copy_bytes(address, self._slot(instance, ref.field), size)
        return byte_offset(self.b, address, size)

    def copy_bytes(self, target: llvm.Value, source: llvm.Value, size: llvm.Value) -> None:
        target_of(self.b.module).copy(self.b, target, source, size)
