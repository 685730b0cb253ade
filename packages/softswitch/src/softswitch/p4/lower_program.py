"""Lowering of a whole v1model program: its parser, controls, checksums and deparser."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch import ir
from softswitch.p4 import arithmetic, operands, tree, types
from softswitch.p4.constants import MemberValue
from softswitch.p4.diagnostics import NOWHERE, SourceError
from softswitch.p4.flow import Item, Label, Part, Step
from softswitch.p4.frames import Frame, frame_bindings
from softswitch.p4.graph import GraphBuilder
from softswitch.p4.lower_externs import number_of
from softswitch.p4.lower_parser import ParserLowering
from softswitch.p4.lower_statements import CONDITION_IN_DEPARSER
from softswitch.p4.objects import CallableObject, ExternObject, PackageObject
from softswitch.p4.operands import Operand, Scalar
from softswitch.p4.renumber import in_json_order
from softswitch.p4.scopes import Target
from softswitch.p4.storage import HeaderLayout
from softswitch.p4.unify import fields_of
from softswitch.v1model import STANDARD_METADATA

_BLOCKS = ("p", "vr", "ig", "eg", "ck", "dep")


@dataclass(frozen=True, slots=True)
class Lowered:
    """A program for the switch, and what its JSON and P4Info need beside it."""

    program: ir.Program
    lowering: ProgramLowering
    layouts: list[HeaderLayout]
    hidden_actions: frozenset[int]
    blocks: dict[str, CallableObject]


class ProgramLowering(ParserLowering):
    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self._node_names: set[str] = set()
        self._checksums: list[ir.Checksum] = []

    def lower_program(self, program: tree.Program) -> Lowered:
        blocks = self._blocks(program)
        self._number_externs()
        parser = blocks["p"]
        headers, metadata, standard = self._arguments(parser)
        parser_frame = self.parser_frame(parser, self._bound(parser, [None, headers, metadata, standard]))
        start = self.lower_parser(parser, parser_frame)
        verify = self._checksum_control(blocks["vr"], [headers, metadata])
        hidden: set[int] = set()
        names: set[str] = set()
        ingress = self._control(blocks["ig"], [headers, metadata, standard], "ingress", hidden, names, [])
        # What a checksum needs that is no field is computed at the end of egress.
        before: list[Item] = []
        update = self._checksum_control(blocks["ck"], [headers, metadata], before)
        egress = self._control(blocks["eg"], [headers, metadata, standard], "egress", hidden, names, before)
        deparser_body = self._deparser(blocks["dep"], [None, headers])
        layouts = self.storage.layouts
        pad_metadata(layouts)
        made = ir.Program(
            headers=self.storage.finish(), stacks=tuple(self.storage.stacks),
            unions=tuple(self.storage.unions),
            errors={name: i for i, name in enumerate(self.facts.errors)},
            parser=tuple(state for state in self.states if state is not None), start_state=start,
            value_sets=self.finished_value_sets(), verify=verify, actions=tuple(self.actions),
            ingress=ingress, egress=egress, update=update, deparser_body=deparser_body,
            deparser=tuple(self.emitted),
            counters=tuple(ir.Counter(each.path, each.integer("size")) for each in self.counters),
            meters=tuple(
                ir.Meter(each.path, each.integer("size"), counts_bytes=_counts_bytes(each))
                for each in self.meters
            ),
            registers=tuple(
                ir.Register(each.path, each.integer("size"), self.register_width(each))
                for each in self.registers
            ),
            profiles=self._finished_profiles(), calculations=tuple(self.calculations),
            field_lists=tuple(self.field_lists), digests=tuple(self.digests), messages=tuple(self.messages),
            field_index=field_index(layouts),
        )  # fmt: skip
        return Lowered(in_json_order(made), self, layouts, frozenset(hidden), blocks)

    # -- the package

    def _blocks(self, program: tree.Program) -> dict[str, CallableObject]:
        self.elaborator.make_globals(program)
        found = self.facts.globals.names.get("main", [])
        main = next((each for each in found if isinstance(each, tree.Instance)), None)
        if main is None:
            raise SourceError(NOWHERE, "expected `V1Switch(...) main;`, there is no instance `main`")
        package = self.elaborator.globals[main]
        if not isinstance(package, PackageObject) or package.declaration.name != "V1Switch":
            kind = str(self.facts.declared.get(main, "")).partition("<")[0]
            raise SourceError(
                main.position,
                f"expected the package V1Switch of v1model, got {kind}, which softswitch does not run",
            )
        blocks: dict[str, CallableObject] = {}
        for name in _BLOCKS:
            block = package.arguments.get(name)
            if not isinstance(block, CallableObject):
                raise SourceError(main.position, f"expected a parser or a control as `{name}` of V1Switch")
            blocks[name] = block
        return blocks

    def _number_externs(self) -> None:
        for kind, numbers in (
            ("counter", self.counters),
            ("meter", self.meters),
            ("register", self.registers),
        ):
            for each in self.elaborator.externs(kind):
                number_of(numbers, each)

    def register_width(self, found: ExternObject) -> int:
        given = found.type.arguments[0]
        kind = types.representation(given)
        if kind == types.BOOL:
            return 1
        if not isinstance(kind, types.Bits):
            raise SourceError(found.node.position, f"expected bits as the cells of a register, got {given}")
        return kind.width

    def _arguments(self, parser: CallableObject) -> tuple[Operand, Operand, Operand]:
        """Make the headers, the metadata and the standard metadata, which all blocks share."""
        _, hdr, meta, standard = parser.declaration.parameters
        declared = [
            types.substitute(self.facts.declared[each], parser.substitution) for each in (hdr, meta, standard)
        ]
        headers = self.storage.make(declared[0], "", hdr)
        metadata = self.storage.make(declared[1], meta.name, meta)
        self.metadata_type, self.metadata = declared[1], metadata
        index = self.storage.metadata(STANDARD_METADATA, "standard_metadata")
        given = declared[2]
        assert isinstance(given, types.Struct)
        made: dict[str, Operand] = {}
        for name, kind in fields_of(given, self.facts).items():
            ref = self.storage.add_field(index, self.storage.field_type(kind, name, standard))
            made[name] = Scalar(ref, kind)
            self.standard[name] = ref
        for field in given.declaration.fields:
            if (alias := field.annotation("alias")) is not None:
                self.storage.layouts[index].aliases[alias.text] = field.name
        return headers, metadata, operands.Struct(made, given)

    def _bound(self, found: CallableObject, values: list[Operand | None]) -> dict[tree.Declaration, object]:
        return dict(zip(found.declaration.parameters, values, strict=True))

    def _frame(self, found: CallableObject, values: list[Operand | None], body: str) -> Frame:
        bindings = frame_bindings(found, self._bound(found, values))
        return Frame(self.facts, body, found, bindings, found.substitution, [], Label("return"))  # type: ignore[arg-type]  # one of the names

    def plain_enums(self) -> list[tree.Enum]:
        """Return the enums of the program itself that have no type."""
        declared = [each for found in self.facts.globals.names.values() for each in found]
        enums = [each for each in declared if isinstance(each, tree.Enum) and each.underlying is None]
        return [each for each in enums if not each.position.file.endswith("v1model.p4")]

    # -- controls

    def _control(
        self, found: CallableObject, values: list[Operand], name: str, hidden: set[int], names: set[str],
        after: list[Item],
    ) -> ir.Control:  # fmt: skip
        frame = self._frame(found, [*values], "control")
        declaration = found.declaration
        assert isinstance(declaration, tree.Control)
        part = Part(frame.return_label, frame.items)
        self.control_body(declaration, frame)
        names.update(self.tables)
        builder = GraphBuilder(
            name, self.tables, self.actions, self.add_message, hidden, names,
            make_field=lambda: self.storage.scalar(types.Bits(8), "place", declaration),
        )  # fmt: skip
        return builder.build([part], after)

    def _finished_profiles(self) -> tuple[ir.ActionProfile, ...]:
        profiles: list[ir.ActionProfile] = []
        for found, tables in self.profiles:
            selector = None
            if found.kind == "action_selector":
                algorithm = found.arguments.get("algorithm")
                assert isinstance(algorithm, MemberValue)
                inputs = self.tables[tables[0]].selector_inputs
                selector = self.add_calculation(found.path, algorithm.name, list(inputs), found.node)
            profiles.append(ir.ActionProfile(found.path, found.integer("size"), selector))
        return tuple(profiles)

    # -- checksums

    def _checksum_control(
        self, found: CallableObject, values: list[Operand], before: list[Item] | None = None
    ) -> tuple[ir.Checksum, ...]:
        """Return the checksums of a control; `before` takes what has to run before them."""
        frame = self._frame(found, [*values], "checksum")
        declaration = found.declaration
        assert isinstance(declaration, tree.Control)
        self._checksums = []
        for local in declaration.locals:
            if isinstance(local, tree.Variable):
                self.variable(local, frame)
        self._checksum_block(declaration.body, ir.Constant(1), frame)
        if frame.items and before is None:
            raise SourceError(
                declaration.position, "expected fields and constants in these checksums, nothing computed"
            )
        if before is not None:
            before += frame.items
        return tuple(self._checksums)

    def _checksum_block(self, block: tree.Statement, condition: ir.Expression, frame: Frame) -> None:
        statements = block.statements if isinstance(block, tree.Block) else [block]
        for statement in statements:
            match statement:
                case tree.CallStatement(call=call):
                    self._checksum(call, condition, frame)
                case tree.Conditional():
                    holds = self.scalar(statement.condition, frame)
                    self._checksum_block(statement.then, arithmetic.logical("&&", condition, holds), frame)
                    if statement.otherwise is not None:
                        inverse = arithmetic.logical("&&", condition, arithmetic.negation(holds))
                        self._checksum_block(statement.otherwise, inverse, frame)
                case tree.Block():
                    self._checksum_block(statement, condition, frame)
                case tree.Empty() | tree.Constant():
                    pass
                case _:
                    raise SourceError(
                        statement.position, "expected only calls of checksum functions in this control"
                    )

    def _checksum(self, call: tree.Call, condition: ir.Expression, frame: Frame) -> None:
        target: Target = frame.facts.calls[call]
        names = (
            "verify_checksum",
            "update_checksum",
            "verify_checksum_with_payload",
            "update_checksum_with_payload",
        )
        if target.name not in names:
            raise SourceError(call.position, "expected only calls of checksum functions in this control")
        holds = arithmetic.logical("&&", condition, self.number(target, "condition", frame))
        algorithm = self.member_name(target, "algo", frame)
        inputs = self.data(target, "data", frame, call)
        expression = self.argument(target, "checksum")
        assert expression is not None
        operand = self.lower(expression, frame)
        if not isinstance(operand, Scalar) or not isinstance(operand.expression, ir.FieldRef):
            raise SourceError(expression.position, "expected a field as the checksum")
        has_payload = target.name.endswith("payload")
        name = f"calc_{len(self.calculations)}"
        index = self.add_calculation(name, algorithm, inputs, call, has_payload)
        self._checksums.append(ir.Checksum(operand.expression, index, holds))

    # -- the deparser

    def _deparser(self, found: CallableObject, values: list[Operand | None]) -> tuple[ir.Statement, ...]:
        frame = self._frame(found, values, "deparser")
        declaration = found.declaration
        assert isinstance(declaration, tree.Control)
        self.control_body(declaration, frame)
        return tuple(self._plain(frame.items))

    def _plain(self, items: list[Item]) -> list[ir.Statement]:
        statements: list[ir.Statement] = []
        for item in items:
            match item:
                case Step(statement, position):
                    if isinstance(statement, ir.Extract | ir.Advance | ir.Verify):
                        raise SourceError(position, "expected no operation of a parser in a deparser")
                    statements.append(statement)
                case _ if hasattr(item, "items"):
                    statements += self._plain(item.items)
                case _:
                    position = getattr(item, "position", NOWHERE)
                    raise SourceError(position, CONDITION_IN_DEPARSER)
        return statements

    def emit_header(self, call: tree.Call, target: Target, frame: Frame) -> Operand | None:
        if frame.body != "deparser" or target.name != "emit":
            raise SourceError(call.position, f"expected `{target.name}` of a packet in a parser or deparser")
        expression = self.argument(target, "hdr")
        assert expression is not None
        self._emit_operand(self.lower(expression, frame), call)
        return None

    def _emit_operand(self, operand: Operand, call: tree.Call) -> None:
        match operand:
            case operands.Header(reference) if isinstance(reference, int):
                self.emitted.append(reference)
            case operands.Struct() | operands.Stack() | operands.Union():
                for part in self.parts(operand, call):
                    if not isinstance(part, Scalar):
                        self._emit_operand(part, call)
            case _:
                raise SourceError(call.position, "expected a header to emit")


def _counts_bytes(meter: ExternObject) -> bool:
    kind = meter.arguments.get("type")
    return isinstance(kind, MemberValue) and kind.name == "bytes"


def pad_metadata(layouts: list[HeaderLayout]) -> None:
    """Fill up instances of metadata to whole bytes, as BMv2 needs it."""
    for layout in layouts:
        bits = sum(each.width for each in layout.fields if not each.varbit)
        if layout.metadata and bits % 8:
            layout.fields.append(ir.FieldType("_padding", 8 - bits % 8))


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
