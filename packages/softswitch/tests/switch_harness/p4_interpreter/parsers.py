"""The machine that runs parsers, and the deparser's packet (specification, §13 and §15)."""

from __future__ import annotations

from softswitch.p4 import tree, types
from softswitch.p4.scopes import CallTarget
from switch_harness.p4_interpreter import values
from switch_harness.p4_interpreter.instances import (
    Activation,
    Bound,
    Instance,
    PacketIn,
    PacketOut,
    ParserReject,
)
from switch_harness.p4_interpreter.tables import Tables
from switch_harness.p4_interpreter.values import Cell, Header, Stack, Storage, Struct, Value, reduced

MAX_STATES = 10_000


class Parsers(Tables):
    def run_parser(self, found: Instance, inner: Activation) -> None:
        """Run a parser from `start` to `accept`; raise `ParserReject` if it rejects."""
        assert isinstance(found.declaration, tree.Parser)
        states = {state.name: state for state in found.declaration.states}
        name = "start"
        for _ in range(MAX_STATES):
            if name == "accept":
                return
            if name == "reject":
                raise ParserReject("NoError")
            state = states[name]
            for statement in state.statements:
                self.execute(statement, inner)
            if isinstance(state.next, tree.Select):
                name = self._selected(state.next, inner)
            else:
                name = state.next or "reject"
        raise AssertionError(f"expected at most {MAX_STATES} states of {found.declaration.name}")

    def _selected(self, select: tree.Select, inner: Activation) -> str:
        kinds = [self.type_of(each, inner) for each in select.values]
        found = [self.scalar(each, inner) for each in select.values]
        for case in select.cases:
            keys = case.keys
            if len(keys) == 1 and len(found) > 1:
                if isinstance(keys[0], tree.Default):
                    return case.state
                assert isinstance(keys[0], tree.ListExpression)
                keys = keys[0].elements
            if len(keys) == 1 and isinstance(keys[0], tree.Default):
                return case.state
            pairs = zip(keys, found, kinds, strict=True)
            if all(self.in_set(key, value, kind, inner) for key, value, kind in pairs):
                return case.state
        raise ParserReject("NoMatch")

    def packet_method(self, receiver: Bound, target: CallTarget, activation: Activation) -> Value:
        arguments = [a.value for a in target.arguments if a is not None and a.value is not None]
        if isinstance(receiver, PacketOut):
            self._emit(
                receiver, self.evaluate(arguments[0], activation), self.type_of(arguments[0], activation)
            )
            return None
        assert isinstance(receiver, PacketIn)
        match target.name:
            case "extract":
                self._extract(receiver, arguments[0], activation)
            case "advance":
                count = self.integer(arguments[0], activation, types.Bits(32))
                self._check(receiver, count)
                receiver.position += count
            case "length":
                return len(receiver.frame)
            case "lookahead":
                [given] = target.substitution.values()
                given = types.substitute(given, activation.substitution)
                self._check(receiver, self._size(given))
                made = values.uninitialised(given, self.facts)
                self._read(made, given, PacketIn(receiver.frame, receiver.position))
                return values.load(made)
            case _:
                raise AssertionError(f"expected a method of a packet, got {target.name}")
        return None

    def _extract(self, packet: PacketIn, expression: tree.Expression, activation: Activation) -> None:
        header = self.place(expression, activation)
        given = self.type_of(expression, activation)
        assert isinstance(header, Header)
        self._check(packet, self._size(given))
        self._read(header, given, packet)
        if isinstance(expression, tree.Member) and expression.name == "next":
            stack = self.place(expression.base, activation)
            if isinstance(stack, Stack):
                stack.next_index += 1

    def _check(self, packet: PacketIn, bits: int) -> None:
        if packet.position + bits > 8 * len(packet.frame):
            raise ParserReject("PacketTooShort")

    def _size(self, given: types.Type) -> int:
        kinds = values.element_types(given, self.facts)
        bits = types.representation(given)
        if isinstance(bits, types.Bits):
            return bits.width
        return 1 if bits == types.BOOL else sum(map(self._size, kinds.values()))

    def _read(self, place: Storage, given: types.Type, packet: PacketIn) -> None:
        """Read storage from the packet, the most significant bit first."""
        if isinstance(place, Cell):
            width = self._size(given)
            whole = int.from_bytes(packet.frame, "big") >> (8 * len(packet.frame) - packet.position - width)
            number = whole & ((1 << width) - 1)
            packet.position += width
            bits = types.representation(given)
            is_signed = isinstance(bits, types.Bits) and bits.signed
            place.value = bool(number) if bits == types.BOOL else reduced(number, width, is_signed)
            return
        assert isinstance(place, Struct | Header)
        if isinstance(place, Header):
            place.valid = True
        for name, kind in values.element_types(given, self.facts).items():
            self._read(place.parts[name], kind, packet)

    def _emit(self, packet: PacketOut, value: Value, given: types.Type) -> None:
        given = types.base_of(given)
        match value:
            case Header(valid=valid) as header:
                if self.fill.bits(1) if valid is None else valid:
                    packet.emitted += self.bits_of(header, given)
            case Stack(elements):
                assert isinstance(given, types.Stack)
                for element in elements:
                    self._emit(packet, values.load(element), given.element)
            case Struct(parts):
                kinds = values.element_types(given, self.facts)
                for name, part in parts.items():
                    self._emit(packet, values.load(part), kinds[name])

    def bits_of(self, value: Value, given: types.Type) -> list[tuple[int, int]]:
        """Return the scalars of a value with their widths."""
        if isinstance(value, Struct | Header):
            kinds = values.element_types(given, self.facts)
            return [
                pair
                for name, part in value.parts.items()
                for pair in self.bits_of(values.load(part), kinds[name])
            ]
        width = self._size(given)
        number = self.defined(value if not isinstance(value, Stack) else None, given)
        assert isinstance(number, int)
        return [(int(number) & ((1 << width) - 1), width)]


def joined(parts: list[tuple[int, int]]) -> tuple[int, int]:
    """Return values with their widths as one, the first one in the most significant bits."""
    number, bits = 0, 0
    for value, width in parts:
        number, bits = number << width | value, bits + width
    return number, bits
