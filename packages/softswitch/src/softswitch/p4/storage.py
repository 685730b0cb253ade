"""Storage of variables: fields of metadata for scalars, instances of headers, stacks and unions."""

from __future__ import annotations

from dataclasses import dataclass, field

from softswitch import ir
from softswitch.ir.names import SCALARS, unique_name
from softswitch.p4 import operands, tree, types
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.scopes import Facts
from softswitch.p4.unify import fields_of

STANDARD_METADATA_TYPE = "standard_metadata_t"
MAX_FIELDS = 1 << 16


@dataclass(slots=True)
class HeaderLayout:
    """A header or metadata instance while it is made; `type_name` is that of its type in BMv2's JSON."""

    name: str
    type_name: str
    fields: list[ir.FieldType] = field(default_factory=list)
    metadata: bool = False
    aliases: dict[str, str] = field(default_factory=dict)
    """Further names of fields, "header.field", with the field's own name."""


class VariableStorage:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.layouts: list[HeaderLayout] = []
        self.stacks: list[ir.Stack] = []
        self.unions: list[tuple[int, ...]] = []
        self.union_names: list[tuple[str, str]] = []
        self.union_members: list[tuple[str, ...]] = []
        self.union_stacks: list[tuple[str, str, tuple[int, ...]]] = []
        """Name, union type, and the positions in `unions`, of stacks of unions."""
        self._names: set[str] = set()
        self._group_names: set[str] = set()  # of stacks and unions
        self._field_names: dict[int, set[str]] = {}
        self._scalars: int | None = None

    # -- names

    def unique(self, name: str) -> str:
        """Return a name for a header that no other has."""
        return unique_name(name, self._names)

    # -- making storage

    def make(self, given: types.Type, name: str, node: tree.Node) -> operands.Operand:
        """Return storage for a value of a type."""
        base = types.base_of(given)
        match base:
            case types.Struct(kind="header"):
                return self.header(base, name, node)
            case types.Struct(kind="header_union"):
                return self._union(base, name, node)
            case types.Struct() if str(base) == STANDARD_METADATA_TYPE:
                return self._standard_metadata(base, name, node)
            case types.Struct() | types.StructValue():
                fields = fields_of(base, self._facts)
                made = {
                    key: self.make(each, f"{name}.{key}" if name else key, node)
                    for key, each in fields.items()
                }
                return operands.Struct(made, given)
            case types.Tuple(elements):
                made = {f"f{i}": self.make(each, f"{name}[{i}]", node) for i, each in enumerate(elements)}
                return operands.Struct(made, given)
            case types.Stack():
                return self._stack(base, name, node)
        return operands.Scalar(self.scalar(given, name, node), given)

    def scalar(self, given: types.Type, name: str, node: tree.Node) -> ir.FieldRef:
        """Return a new field of metadata for a scalar."""
        field_type = self.field_type(given, name, node)
        if field_type.varbit:
            value = ir.FieldType("$value", field_type.width, varbit=True)
            return ir.FieldRef(self._add(HeaderLayout(self.unique(name), name, [value], metadata=True)), 0)
        if self._scalars is None:
            self._scalars = self._add(HeaderLayout(SCALARS, SCALARS, metadata=True))
        return self.add_field(self._scalars, field_type)

    def add_field(self, header: int, field_type: ir.FieldType) -> ir.FieldRef:
        layout = self.layouts[header]
        names = self._field_names.setdefault(header, set())
        unique = unique_name(field_type.name, names)
        layout.fields.append(
            ir.FieldType(unique, field_type.width, signed=field_type.signed, varbit=field_type.varbit)
        )
        return ir.FieldRef(header, len(layout.fields) - 1)

    def field_type(self, given: types.Type, name: str, node: tree.Node) -> ir.FieldType:
        match types.representation(given):
            case types.Bits(width, signed):
                return ir.FieldType(name, width, signed=signed)
            case types.Varbit(width):  # BMv2 has its length in bytes
                return ir.FieldType(name, -(-width // 8) * 8, varbit=True)
            case types.BOOL:
                return ir.FieldType(name, 1)
        raise SourceError(node, f"expected a type that the switch can store, got {given}")

    def header_fields(self, given: types.Type, node: tree.Node) -> list[tuple[str, types.Type]]:
        """Return the names and types of a header's fields, those of structs in it with dots."""
        found: list[tuple[str, types.Type]] = []
        for name, each in fields_of(given, self._facts).items():
            if types.is_struct(types.base_of(each)):
                inner = self.header_fields(types.base_of(each), node)
                found += [(f"{name}.{key}", value) for key, value in inner]
            else:
                found.append((name, each))
        if len(found) > MAX_FIELDS:
            raise SourceError(node, f"expected at most {MAX_FIELDS} fields of {given}")
        return found

    def header(self, given: types.Type, name: str, node: tree.Node) -> operands.Header:
        fields = [self.field_type(each, key, node) for key, each in self.header_fields(given, node)]
        varbits = [each for each in fields if each.varbit]
        if len(varbits) > 1:
            raise SourceError(node, f"expected at most one varbit field in {given}, got {len(varbits)}")
        bits = sum(each.width for each in fields if not each.varbit)
        if bits % 8:
            padding = 8 - bits % 8
            raise SourceError(
                node,
                f"expected a header of whole bytes, {given} has {bits} bits: add {padding} to fill the last",
            )
        if varbits and sum(each.width for each in fields[: fields.index(varbits[0])]) % 8:
            raise SourceError(node, f"expected the varbit field of {given} to begin at a whole byte")
        index = self._add(HeaderLayout(self.unique(name), str(given), fields))
        return operands.Header(index, given)

    def _add(self, layout: HeaderLayout) -> int:
        self.layouts.append(layout)
        self._field_names[len(self.layouts) - 1] = {each.name for each in layout.fields}
        return len(self.layouts) - 1

    def metadata(self, name: str, type_name: str) -> int:
        """Return the index of a new instance of metadata without fields."""
        return self._add(HeaderLayout(self.unique(name), type_name, metadata=True))

    def _standard_metadata(self, given: types.Struct, name: str, node: tree.Node) -> operands.Struct:
        """Return an instance of metadata of its own, which BMv2's `mark_to_drop` needs."""
        index = self.metadata(name, STANDARD_METADATA_TYPE)
        made: dict[str, operands.Operand] = {}
        for key, each in fields_of(given, self._facts).items():
            made[key] = operands.Scalar(self.add_field(index, self.field_type(each, key, node)), each)
        return operands.Struct(made, given)

    def _union(self, given: types.Type, name: str, node: tree.Node) -> operands.Union:
        members = {
            key: self.header(types.base_of(each), f"{name}.{key}", node)
            for key, each in fields_of(given, self._facts).items()
        }
        self.unions.append(tuple(index for m in members.values() if isinstance(index := m.reference, int)))
        self.union_names.append((unique_name(name, self._group_names), str(given)))
        self.union_members.append(tuple(members))
        return operands.Union(members, given, len(self.unions) - 1)

    def _stack(self, given: types.Stack, name: str, node: tree.Node) -> operands.Stack:
        made = tuple(self.make(given.element, f"{name}[{i}]", node) for i in range(given.size))
        elements = tuple(
            each
            for each in made
            if not isinstance(each, operands.Stack | operands.HeaderValue | operands.Text)
        )
        if not elements or isinstance(elements[0], operands.Struct | operands.Scalar):
            return operands.Stack(elements, (), given)
        cursor = len({each.cursor for each in self.stacks})
        name = unique_name(name, self._group_names)
        if isinstance(elements[0], operands.Header):
            headers = tuple(e.reference for e in elements if isinstance(e, operands.Header))
            self.stacks.append(ir.Stack(name, tuple(h for h in headers if isinstance(h, int)), cursor))
            return operands.Stack(elements, (len(self.stacks) - 1,), given)
        unions = [element for element in elements if isinstance(element, operands.Union)]
        positions: list[int] = []
        for member in unions[0].members:
            headers = tuple(union.members[member].reference for union in unions)
            positions.append(len(self.stacks))
            self.stacks.append(
                ir.Stack(f"{name}.{member}", tuple(h for h in headers if isinstance(h, int)), cursor)
            )
        self.union_stacks.append((name, str(given.element), tuple(union.index for union in unions)))
        return operands.Stack(elements, tuple(positions), given)

    # -- parts

    def field_of(self, header: operands.Header, name: str, node: tree.Node) -> operands.Operand:
        """Return a field of a header, a struct if the field is one."""
        index = (
            header.reference
            if isinstance(header.reference, int)
            else self.stacks[header.reference.stack].headers[0]
        )
        found = fields_of(types.base_of(header.type), self._facts)[name]
        return self._field(header, index, name, found, node)

    def _field(
        self, header: operands.Header, index: int, name: str, given: types.Type, node: tree.Node
    ) -> operands.Operand:
        if types.is_struct(types.base_of(given)):
            inner = fields_of(types.base_of(given), self._facts)
            parts = {
                key: self._field(header, index, f"{name}.{key}", each, node) for key, each in inner.items()
            }
            return operands.Struct(parts, given)
        position = next(i for i, each in enumerate(self.layouts[index].fields) if each.name == name)
        if isinstance(header.reference, int):
            return operands.Scalar(ir.FieldRef(index, position), given)
        return operands.Scalar(ir.ElementField(header.reference, position), given)

    def is_metadata(self, header: int) -> bool:
        return self.layouts[header].metadata

    def finish(self) -> tuple[ir.Header, ...]:
        return tuple(ir.Header(each.name, tuple(each.fields), each.metadata) for each in self.layouts)
