"""Check that P4Info and program come from the same compilation."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

from softswitch import ir
from softswitch.ir import MatchKind, Program
from softswitch.p4runtime.codecs.data import widths
from softswitch.p4runtime.p4info import P4Info, TableInfo
from softswitch.p4runtime.status import Refusal, invalid


def check(p4info: P4Info, program: Program) -> None:
    """Raise Refusal if the program lacks an object of P4Info, or P4Info lacks a table."""
    for table in p4info.tables.values():
        _check_table(table, program)
    described = {table.name for table in p4info.tables.values()}
    for name, part in program.tables.items():
        # P4Info omits tables that p4c generates: those have no key, or they have constant entries.
        if part.key and not part.const_entries and name not in described:
            raise invalid(f"P4Info lacks table {name}, which the program has")
    digests = {d.name: tuple(_width(program, value) for value in d.values) for d in program.digests}
    shapes: dict[str, tuple[Mapping[str, object], Mapping[str, object]]] = {
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
            {d.name: _filled(widths(d.shape), digests.get(d.name, ())) for d in p4info.digests.values()},
            digests,
        ),
    }
    for kind, (described_shapes, actual_shapes) in shapes.items():
        for name, shape in described_shapes.items():
            if actual_shapes.get(name) != shape:
                raise _mismatch(kind, name)


def _check_table(table: TableInfo, program: Program) -> None:
    declared = program.tables.get(table.name)
    if declared is None and not table.key.fields:
        return  # p4c has inlined it
    if declared is None or [(f.width, _in_bmv2(f.kind)) for f in table.key.fields] != [
        (part.width, _in_bmv2(part.kind)) for part in declared.key
    ]:
        raise _mismatch("table", table.name)
    if declared.has_counter != table.has_counter:
        raise _mismatch("the direct counter of table", table.name)
    if (declared.meter is None) != (table.meter is None):
        raise _mismatch("the direct meter of table", table.name)
    profile = None if declared.profile is None else program.profiles[declared.profile].name
    if profile != (table.profile and table.profile.name):
        raise _mismatch("the action profile of table", table.name)
    allowed = (table.entry_actions, table.default_actions, table.group_actions)
    listed = {a.name: a.params.widths for actions in allowed for a in actions.values()}
    if listed != {program.actions[i].name: program.actions[i].parameters for i in declared.actions}:
        raise _mismatch("the actions of table", table.name)


def _mismatch(kind: str, name: str) -> Refusal:
    return invalid(f"P4Info and program differ in {kind} {name}: they come from different compilations")


def _in_bmv2(kind: MatchKind) -> MatchKind:
    return MatchKind.TERNARY if kind is MatchKind.OPTIONAL else kind


def _filled(described: tuple[int, ...], actual: tuple[int, ...]) -> tuple[int, ...]:
    pairs = zip_longest(described, actual, fillvalue=0)
    return tuple(described_width or actual_width for described_width, actual_width in pairs)


def _width(program: Program, value: ir.FieldRef | ir.SizedConstant) -> int:
    return value.width if isinstance(value, ir.SizedConstant) else program.width(value)
