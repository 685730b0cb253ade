"""Write a compiled program in the JSON of behavioral-model, version 2.23 of its format.

`softswitch.load` reads the JSON back, to an equal program.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from softswitch import ir
from softswitch.p4 import tree
from softswitch.p4.bmv2_expressions import ExpressionWriter
from softswitch.p4.bmv2_names import Json, JsonNames, numbered
from softswitch.p4.bmv2_parser import ParserWriter
from softswitch.p4.bmv2_statements import StatementWriter
from softswitch.p4.bmv2_tables import TableWriter, calculation_input, input_value
from softswitch.p4.lower_program import Lowered
from softswitch.p4.objects import CallableObject, ExternObject
from softswitch.p4.storage import HeaderLayout

VERSION = [2, 23]
COMPILER = "softswitch"


_EXPANDED_LEVELS = 4
"""Levels of lists and objects that have a line for each element. Python's `json` is slow at indenting."""


def bmv2_json_text(lowered: Lowered) -> bytes:
    return "".join(_lines(bmv2_json(lowered), 0)).encode() + b"\n"


def _lines(value: object, level: int) -> Iterator[str]:
    if level == _EXPANDED_LEVELS or not value or not isinstance(value, dict | list):
        yield json.dumps(value, ensure_ascii=False)
        return
    is_object = isinstance(value, dict)
    separator = ("{" if is_object else "[") + "\n"
    for each in value:
        yield separator + "  " * (level + 1)
        if is_object:
            yield f"{json.dumps(each, ensure_ascii=False)}: "
        yield from _lines(value[each] if is_object else each, level + 1)
        separator = ",\n"
    yield "\n" + "  " * level + ("}" if is_object else "]")


def bmv2_json(lowered: Lowered) -> Json:
    return _DocumentWriter(lowered).write()


class _DocumentWriter:
    def __init__(self, lowered: Lowered) -> None:
        self._state, self._blocks = lowered.state, lowered.blocks
        self._program, self._storage = lowered.program, lowered.state.storage
        self._layouts = self._storage.layouts
        self._names = JsonNames(lowered.program, self._storage, self._state.sources)
        self._expressions = ExpressionWriter(self._names)
        self._statements = StatementWriter(self._names, self._expressions)
        self._types = _HeaderTypes(self._layouts)

    def write(self) -> Json:
        program = self._program
        parser = ParserWriter(self._names, self._expressions, self._statements)
        return {
            "header_types": self._types.written,
            "headers": self._headers(),
            "header_stacks": self._header_stacks(),
            "header_union_types": self._union_types(),
            "header_unions": self._unions(),
            "header_union_stacks": self._union_stacks(),
            "field_lists": [self._field_list(each) for each in program.field_lists],
            "errors": [[name, code] for name, code in program.errors.items()],
            "enums": self._enums(),
            "parsers": [parser.write_parser()],
            "parse_vsets": parser.write_value_sets(),
            "deparsers": [self._deparser()],
            "meter_arrays": numbered(self._meters()),
            "counter_arrays": numbered(self._counters()),
            "register_arrays": numbered(self._registers()),
            "calculations": numbered(self._calculations()),
            "learn_lists": [
                self._field_list(each, node.position.place)
                for each, (_, node) in zip(program.digests, self._state.digest_types, strict=True)
            ],
            "actions": self._actions(),
            "pipelines": self._pipelines(),
            "checksums": self._checksums(),
            "force_arith": [],
            "extern_instances": [],
            "field_aliases": [
                [alias, [layout.name, field]]
                for layout in self._layouts
                for alias, field in layout.aliases.items()
            ],
            "program": next(iter(self._state.sources.lines), ""),
            "__meta__": {"version": VERSION, "compiler": COMPILER},
        }

    # -- headers

    def _headers(self) -> list[Json]:
        return [
            {
                "name": layout.name,
                "id": number,
                "header_type": self._types.names[number],
                "metadata": layout.metadata,
                "pi_omit": True,
            }
            for number, layout in enumerate(self._layouts)
        ]

    def _header_stacks(self) -> list[Json]:
        return numbered(
            {
                "name": name.name,
                "header_type": self._types.names[stack.headers[0]],
                "size": len(stack.headers),
                "header_ids": list(stack.headers),
            }
            for name, stack in zip(self._names.stacks, self._program.stacks, strict=True)
            if not name.member
        )

    def _union_types(self) -> list[Json]:
        types: dict[str, list[list[str]]] = {}
        for (_, name), members, headers in zip(
            self._storage.union_names, self._storage.union_members, self._program.unions, strict=True
        ):
            header_types = [self._types.names[header] for header in headers]
            types.setdefault(name, [list(pair) for pair in zip(members, header_types, strict=True)])
        return numbered({"name": name, "headers": headers} for name, headers in types.items())

    def _unions(self) -> list[Json]:
        return numbered(
            {"name": name, "union_type": union_type, "header_ids": list(headers), "pi_omit": True}
            for (name, union_type), headers in zip(
                self._storage.union_names, self._program.unions, strict=True
            )
        )

    def _union_stacks(self) -> list[Json]:
        return numbered(
            {"name": name, "union_type": union_type, "size": len(unions), "header_union_ids": list(unions)}
            for name, union_type, unions in self._storage.union_stacks
        )

    def _enums(self) -> list[Json]:
        """Return the program's enums without a type, whose members are numbered in order."""
        declared = [each for found in self._state.facts.globals.names.values() for each in found]
        return [
            {"name": each.name, "entries": [[member.name, code] for code, member in enumerate(each.members)]}
            for each in declared
            if isinstance(each, tree.Enum) and each.underlying is None
            if not each.position.file.endswith("v1model.p4")
        ]

    # -- arrays

    def _meters(self) -> Iterable[Json]:
        for found, meter in zip(self._state.meters, self._program.meters, strict=True):
            yield {
                "name": meter.name,
                **self._object_info(found),
                "is_direct": False,
                "size": meter.size,
                "rate_count": 2,
                "type": "bytes" if meter.counts_bytes else "packets",
            }
        for table in self._program.tables.values():
            if table.meter is not None:
                found = self._state.direct_meters[table.name]
                yield {
                    "name": found.path,
                    **self._object_info(found),
                    "is_direct": True,
                    "rate_count": 2,
                    "type": "bytes" if table.meter.counts_bytes else "packets",
                    "size": table.size,
                    "binding": table.name,
                    "result_target": self._names.field(table.meter.target),
                }

    def _counters(self) -> Iterable[Json]:
        for found, counter in zip(self._state.counters, self._program.counters, strict=True):
            yield {"name": counter.name, **self._object_info(found), "size": counter.size, "is_direct": False}
        for table in self._program.tables.values():
            if table.has_counter:
                found = self._state.direct_counters[table.name]
                yield {
                    "name": found.path,
                    "is_direct": True,
                    "binding": table.name,
                    **self._object_info(found),
                }

    def _registers(self) -> Iterable[Json]:
        for found, register in zip(self._state.registers, self._program.registers, strict=True):
            yield {
                "name": register.name,
                **self._object_info(found),
                "size": register.size,
                "bitwidth": register.width,
            }

    def _object_info(self, found: ExternObject) -> Json:
        return self._names.source_info(found.node.position.place)

    # -- calculations and lists

    def _calculations(self) -> Iterable[Json]:
        selectors = {profile.selector for profile in self._program.profiles}
        for index, calculation in enumerate(self._program.calculations):
            if index not in selectors:
                yield {
                    "name": calculation.name,
                    **self._names.source_info(calculation.location),
                    "algo": calculation.algorithm,
                    "input": calculation_input(self._names, calculation),
                }

    def _checksums(self) -> list[Json]:
        checksums = [(each, True) for each in self._program.verify]
        checksums += [(each, False) for each in self._program.update]
        return numbered(
            {
                "name": "cksum" if number == 0 else f"cksum_{number - 1}",
                **self._names.source_info(self._program.calculations[each.calculation].location),
                "target": self._names.field(each.target),
                "type": "generic",
                "calculation": self._program.calculations[each.calculation].name,
                "verify": is_verified,
                "update": not is_verified,
                "if_cond": self._expressions.condition(each.condition),
            }
            for number, (each, is_verified) in enumerate(checksums)
        )

    def _field_list(self, values: ir.FieldList, location: str = "") -> Json:
        elements = [input_value(self._names, each) for each in values.values]
        info = self._names.source_info(location)
        return {"id": values.id, "name": values.name, **info, "elements": elements}

    # -- blocks

    def _deparser(self) -> Json:
        return {
            "name": "deparser",
            "id": 0,
            **self._block_info(self._blocks["dep"]),
            "order": [self._names.header(index) for index in self._program.deparser],
            "primitives": self._statements.body(self._program.deparser_body),
        }

    def _block_info(self, block: CallableObject) -> Json:
        return self._names.source_info(block.declaration.position.place, block.declaration.name)

    def _actions(self) -> list[Json]:
        control_of = {
            index: control.name
            for control in (self._program.egress, self._program.ingress)
            for node in control.nodes.values()
            if isinstance(node, ir.Table)
            for index in node.actions
        }
        return numbered(
            {
                "name": action.name,
                "runtime_data": [
                    {"name": name, "bitwidth": width}
                    for name, width in zip(action.parameter_names, action.parameters, strict=True)
                ],
                "primitives": self._statements.action_body(action, control_of.get(index, "ingress")),
            }
            for index, action in enumerate(self._program.actions)
        )

    def _pipelines(self) -> list[Json]:
        writer = TableWriter(self._names, self._expressions, self._state)
        return [
            writer.write_pipeline(control, number, self._block_info(self._blocks[block]))
            for number, (control, block) in enumerate(
                ((self._program.ingress, "ig"), (self._program.egress, "eg"))
            )
        ]


class _HeaderTypes:
    """The types of all headers: instances with equal fields share the type that they name."""

    def __init__(self, layouts: list[HeaderLayout]) -> None:
        self.names: list[str] = []
        """The name of each header's type."""
        self.written: list[Json] = []
        fields_of: dict[str, list[ir.FieldType]] = {}
        for layout in layouts:
            name, number = layout.type_name, 0
            while fields_of.get(name, layout.fields) != layout.fields:
                name, number = f"{layout.type_name}_{number}", number + 1
            self.names.append(name)
            if name not in fields_of:
                fields_of[name] = layout.fields
                self.written.append(_header_type(name, len(self.written), layout.fields))


def _header_type(name: str, number: int, fields: list[ir.FieldType]) -> Json:
    written: list[list[object]] = [
        [each.name, "*"] if each.varbit else [each.name, each.width, each.signed] for each in fields
    ]
    made: Json = {"name": name, "id": number, "fields": written}
    if any(each.varbit for each in fields):
        made["max_length"] = sum(each.width for each in fields) // 8
    return made


__all__ = ["bmv2_json", "bmv2_json_text"]
