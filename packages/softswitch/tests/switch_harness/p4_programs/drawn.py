"""Random programs for v1model, with frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from switch_harness.p4_interpreter import TableEntry
from switch_harness.p4_programs.choices import Choices, Chooser, HypothesisChoices, SeededChoices
from switch_harness.p4_programs.declarations import width_of
from switch_harness.p4_programs.kinds import BOOL, Bits, Enum, Function, Scope
from switch_harness.p4_programs.render import dense, integer, plain
from switch_harness.p4_programs.tables import TableDrawer


@dataclass(frozen=True, slots=True)
class DrawnProgram:
    """A program in two texts that mean the same, and frames with their ports."""

    plain: str
    dense: str
    frames: tuple[tuple[int, bytes], ...]
    entries: Mapping[str, Sequence[TableEntry]] = field(default_factory=dict)
    """Entries for the control plane to add, by the names of tables in the source."""


def program_of_seed(seed: int, size: int = 30) -> DrawnProgram:
    return _drawn(SeededChoices(seed), size)


@st.composite
def drawn_programs(draw: st.DrawFn, size: int = 30) -> DrawnProgram:
    return _drawn(HypothesisChoices(draw), size)


def _drawn(choices: Choices, size: int) -> DrawnProgram:
    drawer = ProgramDrawer(choices)
    text = drawer.program(size)
    return DrawnProgram(plain(text), dense(text, Chooser(choices)), drawer.frames(), drawer.given)


_ERROR = Enum("error", ("NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "Drawn"))


class ProgramDrawer(TableDrawer):
    def program(self, size: int) -> str:
        self.size = size
        self.records, self.enums = [], []
        self._constructed: list[Function] = []
        self.given = {}
        lines = self.types()
        scope = Scope(place="function")
        lines += self.constants(scope)
        for _ in range(self.below(4)):
            lines += self.function(scope)
        lines += self.generic_function(scope)
        lines += self.sub_parser(scope)
        lines += self.parser(scope)
        for _ in range(self.below(3)):
            lines += self._nested_control(scope)
        lines += self._main_control("In", scope)
        lines += self._main_control("Out", scope)
        lines += self._ends()
        return "\n".join(lines) + "\n"

    # -- controls

    def _locals(self, scope: Scope) -> list[str]:
        lines: list[str] = []
        declared: set[str] = set()
        for _ in range(self.below(3)):
            lines += self._variable(scope, 0, declared)
        for _ in range(self.below(3)):
            lines += self.action_declaration(scope, has_data=False)
        return lines

    def _nested_control(self, scope: Scope) -> list[str]:
        inner = scope.inner(place="control", tables=[])
        parameters = self.parameters(inner, 3)
        is_constructed = self.chance(30)
        if is_constructed:
            inner.add("n", Bits(8), is_writable=False)
        name = self.name("C")
        lines = self._locals(inner)
        if self.chance(40):
            lines += self.tables(inner)
        singles = [each.name for each in scope.controls if each.is_single]
        inner.controls = list(scope.controls)
        body = self.defined(parameters, inner) + self.block(inner, 4, 2)
        is_single = any("table" in line for line in lines) or any(
            each in line for each in singles for line in body
        )
        made = Function(f"{name}.apply", parameters, None, is_single)
        if is_constructed:
            self._constructed.append(made)
        else:
            scope.controls = [*scope.controls, made]
        text = self.parameter_text(parameters)
        constructor = "(bit<8> n)" if is_constructed else ""
        return [
            f"control {name}({text}){constructor} {{",
            *self.body([*lines, "apply {", *self.body(body), "}"]),
            "}",
        ]

    def _main_control(self, name: str, scope: Scope) -> list[str]:
        inner = scope.inner(place="control", tables=[])
        inner.add("meta", self.metadata)
        inner.add("hdr.a", self.headers[0])
        inner.add("hdr.b", self.headers[1], guard="doubtful")
        inner.add("hdr.c", self.headers[1], guard="doubtful")
        inner.add("hdr.s", self.stack)
        inner.add("std.parser_error", _ERROR, is_writable=False)
        inner.add("std.ingress_port", Bits(9), is_writable=False)
        if name == "In":
            inner.add("std.packet_length", Bits(32), is_writable=False)
        lines: list[str] = []
        for _ in range(self.below(3)):
            register, kind = (
                f"{name.lower()}_{self.name('r')}",
                Bits(self.pick([8, 1, 33, 64]), self.chance(20)),
            )
            lines.append(f"register<{kind.text}>({integer(4, None)}) {register};")
            inner.registers = [*inner.registers, (register, kind, 4)]
        if self.chance(30):
            counter = f"{name.lower()}_{self.name('n')}"
            lines.append(f"counter({integer(4, None)}, CounterType.packets) {counter};")
            inner.counters = [*inner.counters, (counter, 4)]
        instances: list[Function] = []
        for each in [*scope.controls, *self._constructed]:
            if self.chance(70):
                instance = self.name("c")
                argument = integer(self.number(8), None) if each in self._constructed else ""
                lines.append(f"{each.name.removesuffix('.apply')}({argument}) {instance};")
                instances.append(Function(f"{instance}.apply", each.parameters, None, each.is_single))
        inner.controls = [*scope.controls, *instances]
        lines += self._locals(inner)
        for _ in range(self.below(3)):
            lines += self.tables(inner)
        body = ["std.egress_spec = 2;"] if name == "In" else []
        self.size = max(self.size, 8)
        body += self.block(inner, 8, 3)
        if self.chance(5):
            body += [f"if ({self.text(BOOL, inner, 2)}) {{ mark_to_drop(std); }}"]
        head = f"control {name}(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{"
        return [head, *self.body([*lines, "apply {", *self.body(body), "}"]), "}"]

    def _ends(self) -> list[str]:
        checksum: list[str] = []
        target = next((n for n, k in self.headers[1].fields if k == Bits(16)), None)
        if target is not None:
            fields = ", ".join(f"hdr.a.{name}" for name, _ in self.headers[0].fields)
            if self.chance(50):
                fields += f", hdr.a.f0 + {integer(self.below(256), 8)}"  # computed at the end of egress
            checksum = [
                f"update_checksum(hdr.b.isValid(), {{ {fields} }}, hdr.b.{target}, HashAlgorithm.csum16);"
            ]
        emitted = ["hdr.a", "hdr.b", "hdr.s", "hdr.c"]
        lines = ["control Verify(inout headers_t hdr, inout meta_t meta) { apply { } }"]
        lines += ["control Compute(inout headers_t hdr, inout meta_t meta) {", "    apply {"]
        lines += [*(f"        {line}" for line in checksum), "    }", "}"]
        lines += ["control Deparse(packet_out packet, in headers_t hdr) {", "    apply {"]
        lines += [*(f"        packet.emit({each});" for each in emitted), "    }", "}"]
        return [*lines, "V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;"]

    # -- frames

    def frames(self) -> tuple[tuple[int, bytes], ...]:
        """Return frames with many small numbers, with which states and tables compare."""
        bits = [width_of(each) for each in self.headers]
        length = (2 * sum(bits) + 8 * 40) // 8
        made: list[tuple[int, bytes]] = []
        for _ in range(4):
            size = length if self.chance(85) else self.below(length)
            filling = self.pick([0, 1, 255, None, None, None])
            data = bytearray(self.number(8) if filling is None else filling for _ in range(size))
            made.append((self.below(4), bytes(data)))
        return tuple(made)
