"""Lowering of a whole v1model program: its parser, controls, checksums and deparser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from softswitch import ir
from softswitch.p4 import operands, tree, types
from softswitch.p4.constants import MemberValue
from softswitch.p4.diagnostics import NOWHERE, SourceError, SourceFiles
from softswitch.p4.direct_meters import with_direct_colours
from softswitch.p4.flow import Item, Label, Leave, Loop, Part, Step, Unit
from softswitch.p4.frames import Body, Frame, NestedLowering, frame_bindings
from softswitch.p4.graph import GraphBuilder
from softswitch.p4.lower_branches import CONDITION_IN_DEPARSER
from softswitch.p4.lower_calls import control_body, lower_call
from softswitch.p4.lower_checksums import lower_checksums
from softswitch.p4.lower_parser import StatesBuilder
from softswitch.p4.lower_statements import lower_statement
from softswitch.p4.lower_tables import apply_table
from softswitch.p4.lowering_state import LoweringState
from softswitch.p4.objects import CallableObject, ExternObject, PackageObject
from softswitch.p4.operand_values import leaves_of
from softswitch.p4.operands import Operand, Scalar
from softswitch.p4.renumber import in_json_order
from softswitch.p4.scopes import Facts
from softswitch.p4.simplified import simplified
from softswitch.p4.storage import HeaderLayout
from softswitch.p4.unify import fields_of
from softswitch.p4.value_sets import add_value_sets, finished_value_sets
from softswitch.v1model import STANDARD_METADATA

_BLOCKS = ("p", "vr", "ig", "eg", "ck", "dep")
_NESTED = NestedLowering(lower_statement, lower_call, apply_table)


@dataclass(frozen=True, slots=True)
class Lowered:
    """A program for the switch, and what its JSON and P4Info need beside it."""

    program: ir.Program
    state: LoweringState
    blocks: dict[str, CallableObject]


def lower_program(program: tree.Program, facts: Facts, sources: SourceFiles) -> Lowered:
    state = LoweringState(facts, sources)
    storage = state.storage
    blocks = _blocks(program, state)
    for kind, numbers in (
        ("counter", state.counters), ("meter", state.meters), ("register", state.registers)
    ):  # fmt: skip
        for each in state.elaborator.externs(kind):
            numbers[each] = len(numbers)
    headers, metadata, standard = _arguments(blocks["p"], state)
    parser_frame = _frame(state, blocks["p"], [None, headers, metadata, standard], "parser")
    parser = StatesBuilder(storage)
    add_value_sets(blocks["p"], parser_frame)
    start = parser.add(blocks["p"], parser_frame)
    verify_frame = _frame(state, blocks["vr"], [headers, metadata], "checksum")
    verify = lower_checksums(verify_frame)
    if verify_frame.items:
        text = "expected fields and constants in these checksums, nothing computed"
        raise SourceError(blocks["vr"].declaration.position, text)
    names: set[str] = set()
    ingress = _control(state, blocks["ig"], [headers, metadata, standard], "ingress", names, [])
    # What a checksum needs that is no field is computed at the end of egress.
    update_frame = _frame(state, blocks["ck"], [headers, metadata], "checksum")
    update = lower_checksums(update_frame)
    egress = _control(state, blocks["eg"], [headers, metadata, standard], "egress", names, update_frame.items)
    deparser_body = _deparser(_frame(state, blocks["dep"], [None, headers], "deparser"))
    pad_metadata(storage.layouts)
    states = parser.finish()
    made = ir.Program(
        headers=storage.finish(), stacks=tuple(storage.stacks), unions=tuple(storage.unions),
        errors={name: i for i, name in enumerate(facts.errors)}, parser=states, start_state=start,
        value_sets=finished_value_sets(state.value_sets, states), verify=verify,
        actions=tuple(state.actions), ingress=ingress, egress=egress, update=update,
        deparser_body=deparser_body, deparser=tuple(state.emitted),
        counters=tuple(ir.Counter(each.path, each.integer("size")) for each in state.counters),
        meters=tuple(
            ir.Meter(each.path, each.integer("size"), counts_bytes=each.counts_bytes) for each in state.meters
        ),
        registers=tuple(
            ir.Register(each.path, each.integer("size"), _register_width(each)) for each in state.registers
        ),
        profiles=_finished_profiles(state), calculations=tuple(state.calculations),
        field_lists=tuple(state.field_lists), digests=tuple(state.digests), messages=tuple(state.messages),
        field_index=field_index(storage.layouts),
    )  # fmt: skip
    made = with_direct_colours(made, state.tables)
    made = simplified(made, leaves_of(headers, parser_frame) | leaves_of(metadata, parser_frame))
    return Lowered(in_json_order(made), state, blocks)


# -- the package


def _blocks(program: tree.Program, state: LoweringState) -> dict[str, CallableObject]:
    state.elaborator.make_globals(program)
    found = state.facts.globals.names.get("main", [])
    main = next((each for each in found if isinstance(each, tree.Instance)), None)
    if main is None:
        raise SourceError(NOWHERE, "expected `V1Switch(...) main;`, there is no instance `main`")
    package = state.elaborator.globals[main]
    if not isinstance(package, PackageObject) or package.declaration.name != "V1Switch":
        kind = str(state.facts.declared.get(main, "")).partition("<")[0]
        raise SourceError(
            main, f"expected the package V1Switch of v1model, got {kind}, which softswitch does not run"
        )
    blocks: dict[str, CallableObject] = {}
    for name in _BLOCKS:
        block = package.arguments.get(name)
        if not isinstance(block, CallableObject):
            raise SourceError(main, f"expected a parser or a control as `{name}` of V1Switch")
        blocks[name] = block
    return blocks


def _register_width(found: ExternObject) -> int:
    given = found.type.arguments[0]
    kind = types.representation(given)
    if kind == types.BOOL:
        return 1
    if not isinstance(kind, types.Bits):
        raise SourceError(found.node, f"expected bits as the cells of a register, got {given}")
    return kind.width


def _arguments(parser: CallableObject, state: LoweringState) -> tuple[Operand, Operand, Operand]:
    """Make the headers, the metadata and the standard metadata, which all blocks share."""
    _, hdr, meta, standard = parser.declaration.parameters
    declared = [
        types.substitute(state.facts.declared[each], parser.substitution) for each in (hdr, meta, standard)
    ]
    storage = state.storage
    headers = storage.make(declared[0], "", hdr)
    metadata = storage.make(declared[1], meta.name, meta)
    state.metadata = declared[1], metadata
    index = storage.metadata(STANDARD_METADATA, "standard_metadata")
    given = declared[2]
    assert isinstance(given, types.Struct)
    made: dict[str, Operand] = {}
    for name, kind in fields_of(given, state.facts).items():
        ref = storage.add_field(index, storage.field_type(kind, name, standard))
        made[name] = Scalar(ref, kind)
        state.standard[name] = ref
    for field in given.declaration.fields:
        if (alias := field.annotation("alias")) is not None:
            storage.layouts[index].aliases[alias.text] = field.name
    return headers, metadata, operands.Struct(made, given)


def _frame(
    state: LoweringState, found: CallableObject, values: Sequence[Operand | None], body: Body
) -> Frame:
    """Return the frame of a block of the package with the operands of its parameters."""
    own: dict[tree.Declaration, object] = dict(zip(found.declaration.parameters, values, strict=True))
    bindings = frame_bindings(found, own)
    return Frame(state, _NESTED, body, found, bindings, found.substitution, [], Label("return"))


# -- controls


def _control(
    state: LoweringState, found: CallableObject, values: list[Operand], name: str, names: set[str],
    after: list[Item],
) -> ir.Control:  # fmt: skip
    frame = _frame(state, found, values, "control")
    part = Part(frame.return_label, frame.items)
    control_body(frame)
    names.update(state.tables)
    builder = GraphBuilder(
        name, state.tables, state.actions, state.add_message, names,
        make_field=lambda: state.storage.scalar(types.Bits(8), "$place", found.declaration),
    )  # fmt: skip
    return builder.build([part], after)


def _finished_profiles(state: LoweringState) -> tuple[ir.ActionProfile, ...]:
    profiles: list[ir.ActionProfile] = []
    for found, tables in state.profiles:
        selector = None
        if found.kind == "action_selector":
            algorithm = found.arguments.get("algorithm")
            assert isinstance(algorithm, MemberValue)
            inputs = state.tables[tables[0]].selector_inputs
            selector = state.add_calculation(found.path, algorithm.name, list(inputs), found.node)
        profiles.append(ir.ActionProfile(found.path, found.integer("size"), selector))
    return tuple(profiles)


# -- the deparser


def _deparser(frame: Frame) -> tuple[ir.Statement, ...]:
    control_body(frame)
    return tuple(_plain(frame.items))


def _plain(items: list[Item]) -> list[ir.Statement]:
    statements: list[ir.Statement] = []
    for item in items:
        match item:
            case Step(statement, position):
                if isinstance(statement, ir.Extract | ir.Advance | ir.Verify):
                    raise SourceError(position, "expected no operation of a parser in a deparser")
                statements.append(statement)
            case Part() | Unit() | Loop():
                statements += _plain(item.items)
            case Leave():
                raise SourceError(NOWHERE, CONDITION_IN_DEPARSER)
            case _:
                raise SourceError(item, CONDITION_IN_DEPARSER)
    return statements


def pad_metadata(layouts: list[HeaderLayout]) -> None:
    """Fill up instances of metadata to whole bytes, as BMv2 needs it."""
    for layout in layouts:
        bits = sum(each.width for each in layout.fields if not each.varbit)
        if layout.metadata and bits % 8:
            layout.fields.append(ir.FieldType("$padding", 8 - bits % 8))


def field_index(layouts: list[HeaderLayout]) -> dict[tuple[str, str], ir.FieldRef]:
    """Return the fields by header and name, and by their aliases."""
    found = {
        (layout.name, field.name): ir.FieldRef(h, i)
        for h, layout in enumerate(layouts)
        for i, field in enumerate(layout.fields)
    }
    for layout in layouts:
        for alias, name in layout.aliases.items():
            header, _, field = alias.partition(".")
            found[header, field] = found[layout.name, name]
    return found
