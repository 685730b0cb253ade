"""Resolve the names of a BMv2 JSON."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, TypeVar

from softswitch import ir
from softswitch.errors import ProgramError, UnsupportedConstruct

Json = dict[str, Any]  # the type of a value depends on its key
VALIDITY_FIELD = "$valid$"  # BMv2's hidden field of each header
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Names(dict[K, V]):
    # Values by name; a name that is declared twice or not at all raises ProgramError.

    def __init__(self, kind: str, items: Iterable[tuple[K, V]] = ()) -> None:
        super().__init__()
        self._kind = kind
        for name, value in items:
            if name in self:
                raise ProgramError(f"expected one {kind} `{_dotted_name(name)}`, there are several")
            self[name] = value

    def __missing__(self, name: K) -> V:
        raise ProgramError(f"expected a declared {self._kind}, got `{_dotted_name(name)}`")


def _dotted_name(name: object) -> str:
    return ".".join(map(str, name)) if isinstance(name, tuple) else str(name)


def source_line(item: Json) -> str:
    info = item.get("source_info")
    return f"{info.get('filename', '')}:{info.get('line', 0)}" if isinstance(info, dict) else ""


def source_text(item: Json) -> str:
    info = item.get("source_info")
    return str(info.get("source_fragment", "")) if isinstance(info, dict) else ""


class Scope:
    def __init__(self, document: Json) -> None:
        self.document = document
        self.messages: list[str] = []
        types = Names(
            "header type", ((item["name"], tuple(_load_fields(item))) for item in document["header_types"])
        )
        self.headers = tuple(
            ir.Header(item["name"], types[item["header_type"]], bool(item["metadata"]))
            for item in document["headers"]
        )
        for stack in document["header_stacks"]:
            types[stack["header_type"]]  # raises ProgramError if the type is not declared
        for union in document["header_union_types"]:
            for _, header_type in union["headers"]:
                types[header_type]  # raises ProgramError, too
        self.header_index = Names("header", ((h.name, i) for i, h in enumerate(self.headers)))
        self.field_index = Names(
            "field",
            (
                ((header.name, f.name), ir.FieldRef(h, i))
                for h, header in enumerate(self.headers)
                for i, f in enumerate(header.fields)
            ),
        )
        for alias, (header, name) in document["field_aliases"]:
            alias_header, _, alias_field = alias.partition(".")
            self.field_index[alias_header, alias_field] = self.field_index[header, name]
        self.header_of_id = Names(
            "header ID", ((item["id"], self.header_index[item["name"]]) for item in document["headers"])
        )
        self.union_members = Names(
            "header union",
            (
                (item["name"], tuple(self.header_of_id[i] for i in item["header_ids"]))
                for item in document["header_unions"]
            ),
        )
        self.stacks: list[ir.Stack] = []
        self.stack_index: Names[str, int] = Names("header stack")
        self.union_stacks: Names[str, Names[str, int]] = Names("stack of header unions")
        self._declare_stacks()
        indirect_counters = [item for item in document["counter_arrays"] if not item.get("is_direct")]
        self.counters = [ir.Counter(item["name"], item["size"]) for item in indirect_counters]
        self.registers = [
            ir.Register(r["name"], r["size"], r["bitwidth"]) for r in document["register_arrays"]
        ]
        self.meters = [
            ir.Meter(item["name"], item["size"], counts_bytes=item["type"] == "bytes")
            for item in document["meter_arrays"]
            if not item.get("is_direct")
        ]
        self.counter_index = _index_names("counter array", (counter.name for counter in self.counters))
        self.register_index = _index_names("register array", (register.name for register in self.registers))
        self.meter_index = _index_names("meter array", (meter.name for meter in self.meters))
        self.action_index = _index_names("action ID", (item["id"] for item in document["actions"]))
        self.field_list_index = _index_names(
            "field list ID", (item["id"] for item in document["field_lists"])
        )
        self.digest_index = _index_names("learn list ID", (item["id"] for item in document["learn_lists"]))
        self.calculation_index = _index_names(
            "calculation", (item["name"] for item in document["calculations"])
        )
        self.value_set_index = _index_names("value set", (item["name"] for item in document["parse_vsets"]))

    def header(self, name: object) -> int:
        if not isinstance(name, str):
            raise UnsupportedConstruct(
                "a header at a computed position (which BMv2 does not load here either)"
            )
        return self.header_index[name]

    def field(self, value: object) -> ir.FieldRef:
        if not isinstance(value, list):
            raise UnsupportedConstruct("a computed field (which BMv2 does not load here either)")
        return self.field_index[value[0], value[1]]

    def stacks_of(self, name: str) -> tuple[int, ...]:
        if name in self.union_stacks:
            return tuple(self.union_stacks[name].values())
        return (self.stack_index[name],)

    def add_message(self, text: str) -> int:
        self.messages.append(text)
        return len(self.messages) - 1

    def _declare_stacks(self) -> None:
        for cursor, item in enumerate(self.document["header_stacks"]):
            self.stack_index[item["name"]] = len(self.stacks)
            elements = tuple(self.header_of_id[i] for i in item["header_ids"])
            if not elements:
                raise ProgramError(f"header stack {item['name']}: expected headers, there are none")
            self.stacks.append(ir.Stack(item["name"], elements, cursor))
        cursor_count = len(self.stacks)
        union_type_members = Names(
            "type of header unions",
            ((item["name"], item["headers"]) for item in self.document["header_union_types"]),
        )
        union_header_ids = Names(
            "header union ID", ((item["id"], item["header_ids"]) for item in self.document["header_unions"])
        )
        for cursor, item in enumerate(self.document["header_union_stacks"], cursor_count):
            if not item["header_union_ids"]:
                raise ProgramError(f"stack of header unions {item['name']}: expected unions, there are none")
            self.union_stacks[item["name"]] = Names("member of the union")
            for position, (member, _) in enumerate(union_type_members[item["union_type"]]):
                self.union_stacks[item["name"]][member] = len(self.stacks)
                elements = tuple(
                    self.header_of_id[_union_member(union_header_ids[u], position, item["name"])]
                    for u in item["header_union_ids"]
                )
                self.stacks.append(ir.Stack(f"{item['name']}.{member}", elements, cursor))


def _union_member(headers: list[int], position: int, stack: str) -> int:
    if position >= len(headers):
        expected = f"expected unions with {position + 1} headers or more, got one with {len(headers)}"
        raise ProgramError(f"stack of header unions {stack}: {expected}")
    return headers[position]


def _index_names(kind: str, names: Iterable[K]) -> Names[K, int]:
    return Names(kind, ((name, i) for i, name in enumerate(names)))


def _load_fields(header_type: Json) -> list[ir.FieldType]:
    """Load the fields of a header type; a varbit field has `max_length` bytes less the other fields."""
    fixed_bits = sum(width for _, width, *_ in header_type["fields"] if width != "*")
    fields = []
    offset = 0
    # A width of "*" marks the varbit field.
    for name, width, *signed in header_type["fields"]:
        if width == "*":
            if offset % 8 or fixed_bits % 8:
                raise UnsupportedConstruct(
                    f"varbit field `{header_type['name']}.{name}` that does not start at a whole byte"
                )
            max_bytes = header_type.get("max_length")
            if max_bytes is None or max_bytes * 8 < fixed_bits:
                raise ProgramError(
                    f"{header_type['name']}: expected a `max_length` of at least "
                    f"{-(-fixed_bits // 8)} bytes, got {max_bytes}"
                )
            fields.append(ir.FieldType(name, max_bytes * 8 - fixed_bits, varbit=True))
        else:
            fields.append(ir.FieldType(name, width, signed=any(signed)))
            offset += width
    return fields
