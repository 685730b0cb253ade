"""Storage of a packet in flight: fields and validity of headers, stack positions, and scalars.

Each is an `alloca` that LLVM promotes to a register. Where packets are copied (`traffic`), or the target
keeps them in memory, all slots but those of local fields (`ir.local_fields`) are one struct. A stack is an
array of structs, one of the fields of each element, and arrays of validity and of lengths, since elements
are accessed at computed positions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.llvmir import I8, I32, integer, offset_of, opaque_pointer
from softswitch.target import target_of

# A packet's scalars by name; `frame`, the address of the frame that arrived, is another one.
SCALARS = {
    "ingress_length": I32,
    "cursor": I32,  # bytes that the parser consumed
    "length": I32,  # as BMv2 updates it in add_header and remove_header
    "port": I32,  # on which the frame arrived
    "egress_port": I32,
    "truncated_length": I32,  # maximum length in bytes, set by truncate
    "clone_session": I32,  # plus 1; 0 is none
    "clone_list": I32,  # number of the field list of the clone
    "resubmit_list": I32,  # plus 1, as the next two; 0 is none
    "recirculate_list": I32,
    "digest": I32,
}
NOT_TRUNCATED = (1 << 32) - 1
"""`truncated_length` of a packet that is not truncated."""


class Storage:
    """Slots of a packet in the function that `b` builds.

    With `in_struct`, all but those of local fields are in a struct at `memory`.
    """

    def __init__(self, b: llvm.IRBuilder, program: ir.Program, in_struct: bool) -> None:
        self.b = b
        self.program = program
        self.in_struct = in_struct
        self._stack_position = {
            header: (stack, position)
            for stack, declared in enumerate(program.stacks)
            for position, header in enumerate(declared.headers)
        }
        self._kinds: list[llvm.Type] = []
        self._struct_kinds: list[llvm.Type] = []
        self._struct_positions: dict[int, int] = {}  # of slots, by number
        # Metadata come first, so that `clear_metadata` zeros one range.
        metadata = [h for h, header in enumerate(program.headers) if header.metadata]
        headers = [h for h, header in enumerate(program.headers) if not header.metadata]
        fields = {h: self._declare_fields(h) for h in metadata}
        self._first_header_position = len(self._struct_kinds)
        fields |= {h: self._declare_fields(h) for h in headers if h not in self._stack_position}
        stacks = [self._declare_stack(stack) for stack in program.stacks]
        cursors = 1 + max((s.cursor for s in program.stacks), default=-1)
        next_index = [self._declare(I32) for _ in range(cursors)]
        self._scalar_kinds = {"frame": target_of(b.module).pointer, **SCALARS}
        scalars = {name: self._declare(kind) for name, kind in self._scalar_kinds.items()}
        self.type = llvm.LiteralStructType(self._struct_kinds)
        if in_struct:
            self.memory = target_of(b.module).reserve(b, self.type)
        else:
            self._struct_positions.clear()
        slots = [self._slot_address(number, kind) for number, kind in enumerate(self._kinds)]
        self._fields = {h: [slots[n] for n in numbers] for h, numbers in fields.items()}
        self._stacks = [[slots[n] for n in numbers] for numbers in stacks]
        self._next_index = [slots[n] for n in next_index]
        self._scalars = {name: slots[n] for name, n in scalars.items()}

    def _declare(self, kind: llvm.Type, is_local: bool = False) -> int:
        number = len(self._kinds)
        self._kinds.append(kind)
        if not is_local:
            self._struct_positions[number] = len(self._struct_kinds)
            self._struct_kinds.append(kind)
        return number

    def _declare_fields(self, header: int) -> list[int]:
        local_fields = self.program.local_fields
        return [
            self._declare(kind, ir.FieldRef(header, field) in local_fields)
            for field, kind in enumerate((*self._field_types(header), *self._types_after_fields(header)))
        ]

    def _declare_stack(self, stack: ir.Stack) -> list[int]:
        element = llvm.LiteralStructType(self._field_types(stack.headers[0]))
        kinds = (element, *self._types_after_fields(stack.headers[0]))
        return [self._declare(llvm.ArrayType(kind, len(stack.headers))) for kind in kinds]

    def _field_types(self, header: int) -> list[llvm.Type]:
        return [
            llvm.ArrayType(I8, f.width // 8) if f.varbit else llvm.IntType(f.stored_bits)
            for f in self.program.headers[header].fields
        ]

    def _field_type(self, ref: ir.FieldRef) -> llvm.Type:
        return self._field_types(ref.header)[ref.field]

    def _types_after_fields(self, header: int) -> list[llvm.Type]:
        """Return the types of the slots after those of fields: validity, and the length of a varbit field."""
        return [I8] if self.program.headers[header].varbit_position is None else [I8, I32]

    def _slot_address(self, number: int, kind: llvm.Type) -> llvm.Value:
        if number in self._struct_positions:
            indices = [integer(32, 0), integer(32, self._struct_positions[number])]
            return self.b.gep(self.memory, indices, inbounds=True, source_etype=self.type)
        slot = opaque_pointer(self.b.alloca(kind))
        self.b.store(llvm.Constant(kind, None), slot)
        return slot

    @contextmanager
    def in_registers(
        self, fields: Collection[ir.FieldRef], stack_cursors: Collection[int], scalars: Collection[str]
    ) -> Iterator[Callable[[], None]]:
        """Keep these slots in variables, from here on, of what is emitted inside.

        Yield a function that stores them in the packet again, as each branch to other code has to do first.
        The kernel's verifier knows nothing of their first values, so it does not follow each of a loop.
        """
        places: list[tuple[dict[Any, llvm.Value] | list[llvm.Value], Any, llvm.Type]] = [
            *((self._fields[ref.header], ref.field, self._field_type(ref)) for ref in fields),
            *((self._next_index, number, I32) for number in stack_cursors),
            *((self._scalars, name, self._scalar_kinds[name]) for name in scalars),
        ]
        slots = [table[key] for table, key, _ in places]
        for (table, key, kind), slot in zip(places, slots, strict=True):
            with self.b.goto_entry_block():
                variable = opaque_pointer(self.b.alloca(kind))
            self.b.store(target_of(self.b.module).load_opaque(self.b, slot, kind), variable)
            table[key] = variable
        variables = [table[key] for table, key, _ in places]

        def store() -> None:
            for (_, _, kind), slot, variable in zip(places, slots, variables, strict=True):
                self.b.store(self.b.load(variable, typ=kind), slot)

        yield store
        for (table, key, _), slot in zip(places, slots, strict=True):
            table[key] = slot

    # -- the whole struct, if there is one

    def size(self) -> llvm.Value:
        return target_of(self.b.module).struct_size(self.b, self.type)

    def clear(self) -> None:
        self._zero(self.size())

    def clear_metadata(self) -> None:
        indices = [integer(32, 0), integer(32, self._first_header_position)]
        self._zero(offset_of(self.b, self.type, indices))

    def clear_local_fields(self) -> None:
        """Zero the local fields, which are no part of the struct, as a control finds them."""
        for ref in self.program.local_fields:
            bits = self.program.type_of(ref).stored_bits
            self.b.store(integer(bits, 0), self._fields[ref.header][ref.field])

    def _zero(self, size: llvm.Value) -> None:
        target_of(self.b.module).zero(self.b, self.memory, size)

    def begin(self, frame: llvm.Value, length: llvm.Value, port: llvm.Value) -> None:
        values = {"frame": frame, "ingress_length": length, "length": length, "port": port}
        for name, value in values.items():
            self.set(name, value)
        self.set("truncated_length", integer(32, NOT_TRUNCATED))

    def get(self, name: str) -> llvm.Value:
        return self.b.load(self._scalars[name], typ=self._scalar_kinds[name])

    def set(self, name: str, value: llvm.Value) -> None:
        self.b.store(value, self._scalars[name])
