"""Resolve the names of a BMv2 JSON."""

from __future__ import annotations

from typing import Any

from softswitch import ir
from softswitch.errors import UnsupportedConstruct

Json = dict[str, Any]  # whose values depend on the key


def source_line(item: Json) -> str:
    """Return `file:line` if p4c recorded it, else an empty string."""
    info = item.get("source_info")
    return f"{info['filename']}:{info['line']}" if info else ""


def source_text(item: Json) -> str:
    return str(item.get("source_info", {}).get("source_fragment", ""))


class Scope:
    """Headers, stacks, externs and lists of a program by name, and the messages that it logs."""

    def __init__(self, text: Json) -> None:
        self.text = text
        self.messages: list[str] = []
        self.headers = _headers(text)
        self.header_index = {header.name: i for i, header in enumerate(self.headers)}
        self.field_index = {
            (header.name, f.name): ir.FieldRef(h, i)
            for h, header in enumerate(self.headers)
            for i, f in enumerate(header.fields)
        }
        for alias, (header, name) in text.get("field_aliases", []):
            if (header, name) in self.field_index:
                first, _, second = alias.partition(".")
                self.field_index[first, second] = self.field_index[header, name]
        self.header_of_id = {item["id"]: self.header_index[item["name"]] for item in text["headers"]}
        self.union_members = {
            item["name"]: tuple(self.header_of_id[i] for i in item["header_ids"])
            for item in text.get("header_unions", [])
        }
        self.stacks: list[ir.Stack] = []
        self.stack_index: dict[str, int] = {}
        self.union_stacks: dict[str, dict[str, int]] = {}
        self._declare_stacks()
        indirect = [item for item in text["counter_arrays"] if not item.get("is_direct")]
        self.counters = [ir.Counter(item["name"], item["size"]) for item in indirect]
        self.registers = [ir.Register(r["name"], r["size"], r["bitwidth"]) for r in text["register_arrays"]]
        self.meters = [
            ir.Meter(item["name"], item["size"], item["type"] == "bytes")
            for item in text["meter_arrays"]
            if not item.get("is_direct")
        ]
        self.counter_index = {counter.name: i for i, counter in enumerate(self.counters)}
        self.register_index = {register.name: i for i, register in enumerate(self.registers)}
        self.meter_index = {meter.name: i for i, meter in enumerate(self.meters)}
        self.action_index = {item["id"]: i for i, item in enumerate(text["actions"])}
        self.field_list_index = {item["id"]: i for i, item in enumerate(text["field_lists"])}
        self.digest_index = {item["id"]: i for i, item in enumerate(text["learn_lists"])}
        self.calculation_index = {item["name"]: i for i, item in enumerate(text["calculations"])}
        self.value_set_index = {item["name"]: i for i, item in enumerate(text.get("parse_vsets", []))}

    def header(self, name: object) -> int:
        if not isinstance(name, str):
            raise UnsupportedConstruct("a header at a computed position (nor does BMv2 load it here)")
        return self.header_index[name]

    def field(self, value: object) -> ir.FieldRef:
        """Return the field that `[header, field]` names."""
        if not isinstance(value, list):
            raise UnsupportedConstruct("a computed field (nor does BMv2 load it here)")
        return self.field_index[value[0], value[1]]

    def stacks_of(self, name: str) -> tuple[int, ...]:
        """Return the stack of this name, or all parts of a stack of unions."""
        if name in self.union_stacks:
            return tuple(self.union_stacks[name].values())
        return (self.stack_index[name],)

    def message(self, text: str) -> int:
        """Add a message to log, and return its number."""
        self.messages.append(text)
        return len(self.messages) - 1

    def _declare_stacks(self) -> None:
        for cursor, item in enumerate(self.text["header_stacks"]):
            self.stack_index[item["name"]] = len(self.stacks)
            elements = tuple(self.header_of_id[i] for i in item["header_ids"])
            self.stacks.append(ir.Stack(item["name"], elements, cursor))
        cursors = len(self.stacks)
        members = {item["name"]: item["headers"] for item in self.text.get("header_union_types", [])}
        by_id = {item["id"]: item["header_ids"] for item in self.text.get("header_unions", [])}
        for cursor, item in enumerate(self.text.get("header_union_stacks", []), cursors):
            self.union_stacks[item["name"]] = {}
            for position, (member, _) in enumerate(members[item["union_type"]]):
                self.union_stacks[item["name"]][member] = len(self.stacks)
                elements = tuple(self.header_of_id[by_id[u][position]] for u in item["header_union_ids"])
                self.stacks.append(ir.Stack(f"{item['name']}.{member}", elements, cursor))


def _headers(text: Json) -> tuple[ir.Header, ...]:
    types = {item["name"]: tuple(_fields(item)) for item in text["header_types"]}
    return tuple(
        ir.Header(item["name"], types[item["header_type"]], bool(item["metadata"]))
        for item in text["headers"]
    )


def _fields(item: Json) -> list[ir.FieldType]:
    """Load the fields of a header type; a varbit field gets what the others leave of `max_length` bytes."""
    fixed = sum(width for _, width, *_ in item["fields"] if width != "*")
    fields = []
    before = 0
    for name, width, *signed in item["fields"]:
        if width == "*":
            if before % 8 or fixed % 8:
                raise UnsupportedConstruct(
                    f"varbit field `{item['name']}.{name}` that does not start at a whole byte"
                )
            fields.append(ir.FieldType(name, item["max_length"] * 8 - fixed, varbit=True))
        else:
            fields.append(ir.FieldType(name, width, signed=any(signed)))
            before += width
    return fields
