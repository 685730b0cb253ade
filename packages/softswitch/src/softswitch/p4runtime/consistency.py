"""Check that P4Info and program come from the same compilation."""

from __future__ import annotations

from collections.abc import Mapping

from softswitch import ir
from softswitch.ir import MatchKind, Program
from softswitch.p4runtime.codecs.data import widths
from softswitch.p4runtime.p4info import P4Info, TableInfo
from softswitch.p4runtime.status import Refusal, invalid


def check(p4info: P4Info, program: Program) -> None:
    """Raise Refusal if the program lacks an object of P4Info or has another, or P4Info lacks a table."""
    for table in p4info.tables.values():
        _check_table(table, program)
    p4info_tables = {table.name for table in p4info.tables.values()}
    for name, program_table in program.tables.items():
        # P4Info omits tables that p4c generates: those have no key, or they have constant entries.
        if program_table.key and not program_table.const_entries and name not in p4info_tables:
            raise invalid(f"P4Info lacks table {name}, which the program has")
    program_digests = {
        d.name: tuple(_value_width(program, value) for value in d.values) for d in program.digests
    }
    properties: dict[str, tuple[Mapping[str, object], Mapping[str, object]]] = {
        "counter": (
            {c.name: c.size for c in p4info.counters.values()},
            {c.name: c.size for c in program.counters},
        ),
        "meter": (
            {m.name: m.size for m in p4info.meters.values()},
            {m.name: m.size for m in program.meters},
        ),
        "register": (
            {r.name: (r.size, r.shape.width) for r in p4info.registers.values()},
            {r.name: (r.size, r.width) for r in program.registers},
        ),
        "action profile": (
            {p.name: p.has_selector for p in p4info.profiles.values()},
            {p.name: p.selector is not None for p in program.profiles},
        ),
        "value set": (
            {v.name: tuple(field.width for field in v.key.fields) for v in p4info.value_sets.values()},
            {v.name: v.widths for v in program.value_sets},
        ),
        "digest": (
            {
                d.name: _with_program_widths(widths(d.shape), program_digests.get(d.name, ()))
                for d in p4info.digests.values()
            },
            program_digests,
        ),
    }
    for kind, (p4info_properties, program_properties) in properties.items():
        for name, p4info_property in p4info_properties.items():
            if program_properties.get(name) != p4info_property:
                raise _mismatch(kind, name)


def _check_table(table: TableInfo, program: Program) -> None:
    program_table = program.tables.get(table.name)
    if program_table is None and not table.key.fields:
        return  # p4c has inlined the table
    if program_table is None or [(f.width, _bmv2_kind(f.kind)) for f in table.key.fields] != [
        (part.width, _bmv2_kind(part.kind)) for part in program_table.key
    ]:
        raise _mismatch("table", table.name)
    if program_table.has_counter != table.has_counter:
        raise _mismatch("the direct counter of table", table.name)
    if (program_table.meter is None) != (table.meter is None):
        raise _mismatch("the direct meter of table", table.name)
    profile = None if program_table.profile is None else program.profiles[program_table.profile].name
    if profile != (table.profile and table.profile.name):
        raise _mismatch("the action profile of table", table.name)
    allowed_actions = (table.entry_actions, table.default_actions, table.group_actions)
    p4info_actions = {a.name: a.params.widths for actions in allowed_actions for a in actions.values()}
    if p4info_actions != {
        program.actions[i].name: program.actions[i].parameters for i in program_table.actions
    }:
        raise _mismatch("the actions of table", table.name)


def _mismatch(kind: str, name: str) -> Refusal:
    return invalid(f"P4Info and program differ in {kind} {name}: they come from different compilations")


def _bmv2_kind(kind: MatchKind) -> MatchKind:
    return MatchKind.TERNARY if kind is MatchKind.OPTIONAL else kind


def _with_program_widths(p4info_widths: tuple[int, ...], program_widths: tuple[int, ...]) -> tuple[int, ...]:
    if len(p4info_widths) != len(program_widths):
        return p4info_widths  # the comparison then finds the difference
    pairs = zip(p4info_widths, program_widths, strict=True)
    # A translated type has width 0 in P4Info.
    return tuple(p4info_width or program_width for p4info_width, program_width in pairs)


def _value_width(program: Program, value: ir.FieldRef | ir.SizedConstant) -> int:
    return value.width if isinstance(value, ir.SizedConstant) else program.width(value)
