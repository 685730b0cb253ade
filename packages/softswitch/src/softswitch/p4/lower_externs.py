"""Lowering of v1model's externs: its functions, and the methods of its objects."""

from __future__ import annotations

from collections.abc import Callable

from softswitch import ir
from softswitch.p4 import operands, tree, types
from softswitch.p4.constants import MemberValue
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.frames import Frame
from softswitch.p4.lower_statements import StatementLowering
from softswitch.p4.objects import CallableObject, ExternObject
from softswitch.p4.operands import Operand, Scalar
from softswitch.p4.scopes import Target
from softswitch.p4.unify import fields_of
from softswitch.v1model import Standard

FieldValue = ir.FieldRef | ir.SizedConstant


class ExternLowering(StatementLowering):
    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self.counters: dict[ExternObject, int] = {}
        self.meters: dict[ExternObject, int] = {}
        self.registers: dict[ExternObject, int] = {}
        self.calculations: list[ir.Calculation] = []
        self.field_lists: list[ir.FieldList] = []
        self.digests: list[ir.FieldList] = []
        self.digest_types: list[tuple[types.Type, tree.Node]] = []
        self.messages: list[str] = []
        self.anonymous: dict[tuple[tree.Call, CallableObject], CallableObject | ExternObject] = {}
        self.metadata_type: types.Type = types.UNKNOWN
        self.metadata: Operand | None = None
        self.standard: dict[str, ir.FieldRef] = {}
        self._preserved: dict[int, int] = {}

    # -- functions

    def extern_function(self, call: tree.Call, target: Target, frame: Frame) -> Operand | None:
        lower = _FUNCTIONS.get(target.name)
        if lower is None:
            raise SourceError(call.position, f"the function `{target.name}` is not supported by softswitch")
        return lower(self, call, target, frame)

    def extern_method(
        self, call: tree.Call, target: Target, found: CallableObject | ExternObject | None, frame: Frame
    ) -> Operand | None:
        if found is None:
            return self.packet_method(call, target, frame)
        if not isinstance(found, ExternObject):
            raise SourceError(call.position, "expected an instance of an extern")
        lower = _METHODS.get((found.kind, target.name))
        if lower is None:
            raise SourceError(
                call.position, f"`{target.name}` of the extern {found.kind} is not supported by softswitch"
            )
        return lower(self, call, target, found, frame)

    def packet_method(self, call: tree.Call, target: Target, frame: Frame) -> Operand | None:
        raise SourceError(call.position, f"expected `{target.name}` of a packet in a parser or deparser")

    # -- arguments

    def argument(self, target: Target, name: str) -> tree.Expression | None:
        for parameter, argument in zip(target.parameters, target.arguments, strict=True):
            if parameter.name == name and argument is not None:
                return argument.value
        return None

    def wanted(self, target: Target, name: str, frame: Frame) -> types.Type:
        parameter = next(each for each in target.parameters if each.name == name)
        known = {v: types.substitute(t, frame.substitution) for v, t in target.substitution.items()}
        given = types.substitute(frame.facts.declared[parameter], known)
        return types.Bits(32) if given == types.INT else given

    def number(self, target: Target, name: str, frame: Frame) -> ir.Expression:
        expression = self.argument(target, name)
        assert expression is not None
        return self.scalar(expression, frame, self.wanted(target, name, frame))

    def output(
        self, target: Target, name: str, frame: Frame, emit: Callable[[ir.LValue], None], node: tree.Node
    ) -> None:
        """Emit a statement that stores to the variable of an argument, or to a copy of it."""
        expression = self.argument(target, name)
        wanted = self.wanted(target, name, frame)
        if expression is not None and not isinstance(expression, tree.Slice):
            operand = self.lower(expression, frame)
            if isinstance(operand, Scalar) and isinstance(operand.expression, ir.FieldRef | ir.ElementField):
                emit(operand.expression)
                return
        storage = self.storage.scalar(wanted, "tmp", node)
        emit(storage)
        if expression is not None:
            self.assign_to(expression, Scalar(storage, wanted), frame)

    def data(self, target: Target, name: str, frame: Frame, node: tree.Node) -> list[FieldValue]:
        """Return the fields and constants of an argument; what is neither is stored in a field before."""
        expression = self.argument(target, name)
        assert expression is not None
        wanted = self.wanted(target, name, frame)
        operand = self.lower(expression, frame, None if wanted == types.UNKNOWN else wanted)
        values: list[FieldValue] = []
        for each in self.flat(operand, node):
            match each.expression:
                case ir.FieldRef():
                    values.append(each.expression)
                case ir.Constant(value):
                    kind = types.representation(each.type)
                    width = kind.width if isinstance(kind, types.Bits) else 1 if kind == types.BOOL else 32
                    values.append(ir.SizedConstant(value & ((1 << width) - 1), width))
                case _:
                    values.append(self.saved(each, frame, node))
        return values

    def member_name(self, target: Target, name: str, frame: Frame) -> str:
        expression = self.argument(target, name)
        value = frame.evaluator.value(expression) if expression is not None else None
        if not isinstance(value, MemberValue):
            position = expression.position if expression is not None else target.parameters[0].position
            raise SourceError(position, f"expected a member of an enum as `{name}`, known when compiling")
        return value.name

    def location(self, node: tree.Node) -> str:
        return f"{node.position.file}:{node.position.line}"

    def add_calculation(
        self, name: str, algorithm: str, inputs: list[FieldValue], node: tree.Node, has_payload: bool = False
    ) -> int:
        self.calculations.append(
            ir.Calculation(name, algorithm, tuple(inputs), has_payload, self.location(node))
        )
        return len(self.calculations) - 1

    # -- lists of fields

    def add_field_list(self, values: list[FieldValue]) -> int:
        used = {each.id for each in self.field_lists}
        number = next(i for i in range(1, len(used) + 2) if i not in used)
        self.field_lists.append(ir.FieldList(number, f"fl{number}", tuple(values)))
        return len(self.field_lists) - 1

    def preserved_list(self, number: int, node: tree.Node) -> int:
        """Return the list of the metadata fields with `@field_list(number)`."""
        if number not in self._preserved:
            values: list[FieldValue] = []
            if self.metadata is not None:
                values = list(self._annotated(self.metadata_type, self.metadata, number, node))
            self.field_lists.append(ir.FieldList(number, f"fl{number}", tuple(values)))
            self._preserved[number] = len(self.field_lists) - 1
        return self._preserved[number]

    def _annotated(
        self, given: types.Type, operand: Operand, number: int, node: tree.Node
    ) -> list[FieldValue]:
        base = types.base_of(given)
        if not isinstance(base, types.Struct) or not isinstance(operand, operands.Struct):
            return []
        found: list[FieldValue] = []
        kinds = fields_of(base, self.facts)
        for field in base.declaration.fields:
            part = operand.fields[field.name]
            annotations = [each for each in field.annotations if each.name == "field_list"]
            if any(number in each.integers for each in annotations):
                expressions = [each.expression for each in self.flat(part, node)]
                found += [each for each in expressions if isinstance(each, ir.FieldRef)]
            else:
                found += self._annotated(kinds[field.name], part, number, node)
        return found

    def standard_field(self, name: Standard) -> ir.FieldRef:
        return self.standard[name.value]

    def add_message(self, text: str) -> int:
        self.messages.append(text)
        return len(self.messages) - 1

    # -- functions of v1model

    def mark_to_drop(self, call: tree.Call, target: Target, frame: Frame) -> None:
        expression = self.argument(target, "standard_metadata")
        spec, group = self.standard_field(Standard.EGRESS_SPEC), self.standard_field(Standard.MCAST_GRP)
        if expression is not None:
            operand = self.lower(expression, frame)
            if isinstance(operand, operands.Struct):
                fields = operand.fields
                parts = [fields[each.value] for each in (Standard.EGRESS_SPEC, Standard.MCAST_GRP)]
                refs = [each.expression for each in parts if isinstance(each, Scalar)]
                [spec, group] = [each for each in refs if isinstance(each, ir.FieldRef)]
        frame.emit(ir.MarkToDrop(spec, group), call.position)

    def hash(self, call: tree.Call, target: Target, frame: Frame) -> None:
        algorithm = self.member_name(target, "algo", frame)
        base = self.number(target, "base", frame)
        inputs = self.data(target, "data", frame, call)
        size = self.number(target, "max", frame)
        index = self.add_calculation(f"calc_{len(self.calculations)}", algorithm, inputs, call)
        self.output(
            target,
            "result",
            frame,
            lambda place: frame.emit(ir.Hash(place, base, index, size), call.position),
            call,
        )

    def random(self, call: tree.Call, target: Target, frame: Frame) -> None:
        low, high = (self.number(target, name, frame) for name in ("lo", "hi"))
        self.output(
            target,
            "result",
            frame,
            lambda place: frame.emit(ir.Random(place, low, high), call.position),
            call,
        )

    def digest(self, call: tree.Call, target: Target, frame: Frame) -> None:
        expression = self.argument(target, "data")
        assert expression is not None
        given = types.base_of(self.wanted(target, "data", frame))
        values = self.data(target, "data", frame, call)
        name = str(given) if isinstance(given, types.Struct) else f"digest_{len(self.digests)}"
        known = [
            i for i, each in enumerate(self.digests) if each.name == name and each.values == tuple(values)
        ]
        if known:
            frame.emit(ir.Digest(known[0]), call.position)
            return
        self.digests.append(ir.FieldList(len(self.digests) + 1, name, tuple(values)))
        self.digest_types.append((given, call))
        frame.emit(ir.Digest(len(self.digests) - 1), call.position)

    def clone(self, call: tree.Call, target: Target, frame: Frame) -> None:
        self.member_name(target, "type", frame)
        session = self.number(target, "session", frame)
        if target.name == "clone_preserving_field_list":
            fields = self._preserved_of(call, target, frame)
        elif target.name == "clone3":
            fields = self.add_field_list(self.data(target, "data", frame, call))
        else:
            fields = self._empty_list()
        frame.emit(ir.Clone(session, fields), call.position)

    def _preserved_of(self, call: tree.Call, target: Target, frame: Frame) -> int:
        expression = self.argument(target, "index")
        assert expression is not None
        return self.preserved_list(frame.evaluator.integer(expression), call)

    def _empty_list(self) -> int:
        for i, each in enumerate(self.field_lists):
            if not each.values and i not in self._preserved.values():
                return i
        return self.add_field_list([])

    def repeat(self, call: tree.Call, target: Target, frame: Frame) -> None:
        """Lower the functions that process a packet again."""
        is_preserving = target.name.endswith("preserving_field_list")
        if is_preserving:
            fields = self._preserved_of(call, target, frame)
        else:
            fields = self.add_field_list(self.data(target, "data", frame, call))
        made = ir.Resubmit if target.name.startswith("resubmit") else ir.Recirculate
        frame.emit(made(fields), call.position)

    def truncate(self, call: tree.Call, target: Target, frame: Frame) -> None:
        frame.emit(ir.Truncate(self.number(target, "length", frame)), call.position)

    def check(self, call: tree.Call, target: Target, frame: Frame) -> None:
        message = f"{target.name} failed ({self.location(call)}): the packet is dropped"
        condition = self.number(target, "check", frame)
        frame.emit(ir.Assert(condition, self.add_message(message)), call.position)

    def log(self, call: tree.Call, target: Target, frame: Frame) -> None:
        expression = self.argument(target, "msg")
        text = frame.evaluator.value(expression) if expression is not None else None
        if not isinstance(text, str):
            raise SourceError(call.position, "expected a string as the message, known when compiling")
        values: tuple[ir.Expression, ...] = ()
        if (data := self.argument(target, "data")) is not None:
            wanted = self.wanted(target, "data", frame)
            operand = self.lower(data, frame, wanted)
            values = tuple(each.expression for each in self.flat(operand, call))
        frame.emit(ir.LogMessage(self.add_message(text), values), call.position)

    def verify(self, call: tree.Call, target: Target, frame: Frame) -> None:
        if frame.body != "parser":
            raise SourceError(call.position, "expected `verify` in a parser")
        condition, error = (self.number(target, name, frame) for name in ("check", "toSignal"))
        frame.emit(ir.Verify(condition, error), call.position)

    def static_assert(self, call: tree.Call, _target: Target, frame: Frame) -> Operand:
        return self.constant_operand(bool(frame.evaluator.value(call)), types.BOOL, call)

    # -- methods of v1model's objects

    def count(self, call: tree.Call, target: Target, found: ExternObject, frame: Frame) -> None:
        frame.emit(
            ir.Count(number_of(self.counters, found), self.number(target, "index", frame)), call.position
        )

    def count_directly(self, *_arguments: object) -> None:
        """Do nothing: a table counts its hits by itself."""

    def execute_meter(self, call: tree.Call, target: Target, found: ExternObject, frame: Frame) -> None:
        index, meter = self.number(target, "index", frame), number_of(self.meters, found)
        self.output(
            target,
            "result",
            frame,
            lambda place: frame.emit(ir.ExecuteMeter(meter, index, place), call.position),
            call,
        )

    def read_meter(self, call: tree.Call, target: Target, found: ExternObject, frame: Frame) -> None:
        """Lower a read of a direct meter: the table stores the colour before its action runs."""
        colour = frame.direct_meters.get(found)
        if colour is None:
            raise SourceError(
                call.position,
                f"expected the direct meter of the table that runs this action, got {found.path}",
            )
        expression = self.argument(target, "result")
        assert expression is not None
        wanted = self.wanted(target, "result", frame)
        self.assign_to(expression, Scalar(colour, wanted), frame)

    def read_register(self, call: tree.Call, target: Target, found: ExternObject, frame: Frame) -> None:
        index, register = self.number(target, "index", frame), number_of(self.registers, found)
        self.output(
            target, "result", frame,
            lambda place: frame.emit(ir.RegisterRead(place, register, index), call.position), call,
        )  # fmt: skip

    def write_register(self, call: tree.Call, target: Target, found: ExternObject, frame: Frame) -> None:
        index, value = self.number(target, "index", frame), self.number(target, "value", frame)
        frame.emit(ir.RegisterWrite(number_of(self.registers, found), index, value), call.position)


def number_of(numbers: dict[ExternObject, int], found: ExternObject) -> int:
    """Return the number of an object; one that a call makes gets the next."""
    return numbers.setdefault(found, len(numbers))


_FUNCTIONS: dict[str, Callable[..., Operand | None]] = {
    "mark_to_drop": ExternLowering.mark_to_drop,
    "hash": ExternLowering.hash,
    "random": ExternLowering.random,
    "digest": ExternLowering.digest,
    "clone": ExternLowering.clone,
    "clone3": ExternLowering.clone,
    "clone_preserving_field_list": ExternLowering.clone,
    "resubmit": ExternLowering.repeat,
    "resubmit_preserving_field_list": ExternLowering.repeat,
    "recirculate": ExternLowering.repeat,
    "recirculate_preserving_field_list": ExternLowering.repeat,
    "truncate": ExternLowering.truncate,
    "assert": ExternLowering.check,
    "assume": ExternLowering.check,
    "log_msg": ExternLowering.log,
    "verify": ExternLowering.verify,
    "static_assert": ExternLowering.static_assert,
}
_METHODS: dict[tuple[str, str], Callable[..., Operand | None]] = {
    ("counter", "count"): ExternLowering.count,
    ("direct_counter", "count"): ExternLowering.count_directly,
    ("meter", "execute_meter"): ExternLowering.execute_meter,
    ("direct_meter", "read"): ExternLowering.read_meter,
    ("register", "read"): ExternLowering.read_register,
    ("register", "write"): ExternLowering.write_register,
}
