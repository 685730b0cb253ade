"""A v1model switch that runs a checked syntax tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from softswitch.p4 import tree, types
from softswitch.p4.scopes import CallTarget, Facts
from switch_harness.p4_interpreter import values
from switch_harness.p4_interpreter.externs import DROP_PORT
from switch_harness.p4_interpreter.instances import (
    Activation,
    Bound,
    ExitSignal,
    Instance,
    PacketIn,
    PacketOut,
    ParserReject,
    ReturnSignal,
)
from switch_harness.p4_interpreter.parsers import Parsers, joined
from switch_harness.p4_interpreter.tables import TableEntry
from switch_harness.p4_interpreter.values import Cell, Fill, Storage, Struct, Value


class TreeSwitch(Parsers):
    """A switch with registers and counters, whose undefined values read as the bits of a fill."""

    def __init__(
        self, program: tree.Program, facts: Facts, fill_seed: int = 0,
        entries: Mapping[str, Sequence[TableEntry]] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(facts, Fill(fill_seed))
        self.entries = entries or {}
        nothing = Activation(None, {})
        for declaration in program.declarations:
            if isinstance(declaration, tree.Instance) and declaration.name != "main":
                owner = Instance(tree.Control.__new__(tree.Control), {}, {})
                self.globals[declaration] = self.construct(declaration, facts.calls[declaration], owner)
        main = next(d for d in program.declarations if isinstance(d, tree.Instance) and d.name == "main")
        target = facts.calls[main]
        self._blocks: dict[str, Instance] = {}
        for parameter, argument in zip(target.parameters, target.arguments, strict=True):
            assert argument is not None
            assert argument.value is not None
            self._blocks[parameter.name] = self._block(argument.value, nothing)

    def _block(self, expression: tree.Expression, nothing: Activation) -> Instance:
        if isinstance(expression, tree.Call):
            owner = Instance(tree.Control.__new__(tree.Control), {}, {})
            made: Bound = self.construct(expression, self.facts.calls[expression], owner)
        else:
            made = self.bound(expression, nothing)
        assert isinstance(made, Instance)
        return made

    # -- packets

    def process(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Return the ports and frames that the switch sends because of a frame."""
        declared = [self.facts.declared[each] for each in self._blocks["p"].declaration.parameters]
        headers, metadata, standard = (values.uninitialised(each, self.facts) for each in declared[1:])
        for storage, given in ((metadata, declared[2]), (standard, declared[3])):
            values.zero(storage, given, self.facts)
        assert isinstance(standard, Struct)
        self._set(standard, ingress_port=port, packet_length=len(frame))
        packet = PacketIn(frame)
        try:
            self._run_block("p", [packet, headers, metadata, standard])
        except ParserReject as signal:
            self._set(standard, parser_error=signal.error)
        self._run_block("ig", [headers, metadata, standard])
        egress_port = self._get(standard, "egress_spec")
        if egress_port == DROP_PORT:
            return []
        self._set(standard, egress_port=egress_port, egress_spec=0)
        self._run_block("eg", [headers, metadata, standard])
        if self._get(standard, "egress_spec") == DROP_PORT:
            return []
        self._run_block("ck", [headers, metadata])
        out = PacketOut()
        self._run_block("dep", [out, headers])
        number, bits = joined(out.emitted)
        payload = frame[packet.position // 8 :]
        return [(egress_port, number.to_bytes(bits // 8, "big") + payload)]

    def _set(self, standard: Struct, **fields: int | str) -> None:
        for name, value in fields.items():
            values.store(standard.parts[name], value)

    def _get(self, standard: Struct, name: str) -> int:
        cell = standard.parts[name]
        assert isinstance(cell, Cell)
        value = self.defined(cell.value, types.Bits(9))
        assert isinstance(value, int)
        return value

    def _run_block(self, name: str, arguments: list[PacketIn | PacketOut | Storage]) -> None:
        found = self._blocks[name]
        names: dict[tree.Declaration, Bound] = dict(zip(found.declaration.parameters, arguments, strict=True))
        with suppress(ExitSignal, ReturnSignal):
            self.run_callable(found, Activation(found, found.substitution, None, names))

    def extern_function(self, target: CallTarget, activation: Activation) -> Value:
        if target.name != "update_checksum":
            return super().extern_function(target, activation)
        given = {p.name: a.value for p, a in zip(target.parameters, target.arguments, strict=True) if a}
        condition, data, checksum = given["condition"], given["data"], given["checksum"]
        assert condition is not None
        assert data is not None
        assert checksum is not None
        if self.holds(condition, activation):
            kind = self.type_of(data, activation)
            number, bits = joined(self.bits_of(self.evaluate(data, activation), kind))
            place = self.place(checksum, activation)
            values.store(place, ones_complement_checksum(number, bits))
        return None

    # -- state

    @property
    def registers(self) -> dict[str, list[int]]:
        """Return the values of each register by its name in the source, without signs."""
        return self._cells("register")

    @property
    def counters(self) -> dict[str, list[int]]:
        return self._cells("counter")

    def _cells(self, kind: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for each in self.externs:
            if each.kind == kind:
                bits = types.representation(each.element)
                width = bits.width if isinstance(bits, types.Bits) else 64
                found[each.name] = [each.cells.get(i, 0) & ((1 << width) - 1) for i in range(each.size)]
        return found


def ones_complement_checksum(number: int, bits: int) -> int:
    """Return the Internet checksum of bits, which are filled up with zeros to whole words of 16 bits."""
    number <<= -bits % 16
    total = 0
    while number:
        total += number & 0xFFFF
        number >>= 16
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
