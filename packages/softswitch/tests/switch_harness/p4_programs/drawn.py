"""Random programs for v1model, with frames."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from switch_harness.p4_programs.choices import Choices, Chooser, HypothesisChoices, SeededChoices
from switch_harness.p4_programs.expressions import WIDTHS
from switch_harness.p4_programs.kinds import BOOL, Bits, Enum, Function, Kind, Record, Scope, Stack, Table
from switch_harness.p4_programs.render import dense, integer, plain
from switch_harness.p4_programs.statements import StatementDrawer


@dataclass(frozen=True, slots=True)
class DrawnProgram:
    """A program in two texts that mean the same, and frames with their ports."""

    plain: str
    dense: str
    frames: tuple[tuple[int, bytes], ...]


def program_of_seed(seed: int, size: int = 30) -> DrawnProgram:
    return _drawn(SeededChoices(seed), size)


@st.composite
def drawn_programs(draw: st.DrawFn, size: int = 30) -> DrawnProgram:
    return _drawn(HypothesisChoices(draw), size)


def _drawn(choices: Choices, size: int) -> DrawnProgram:
    drawer = ProgramDrawer(choices)
    text = drawer.program(size)
    return DrawnProgram(plain(text), dense(text, Chooser(choices)), drawer.frames())


_ERROR = Enum("error", ("NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "Drawn"))


def _width(kind: Kind) -> int:
    match kind:
        case Bits(width):
            return width
        case Record(fields=fields):
            return sum(_width(each) for _, each in fields)
    return 1


class ProgramDrawer(StatementDrawer):
    def program(self, size: int) -> str:
        self.size = size
        self.records, self.enums = [], []
        self._constructed: list[Function] = []
        lines = self._types()
        scope = Scope(place="function")
        lines += self._constants(scope)
        for _ in range(self.below(4)):
            lines += self._function(scope)
        lines += self._generic_function(scope)
        lines += self._sub_parser(scope)
        lines += self._parser(scope)
        for _ in range(self.below(3)):
            lines += self._nested_control(scope)
        lines += self._main_control("In", scope)
        lines += self._main_control("Out", scope)
        lines += self._ends()
        return "\n".join(lines) + "\n"

    # -- types

    def _types(self) -> list[str]:
        lines: list[str] = ["error { Drawn }", "typedef bit<16> Alias;"]
        if self.chance(60):
            width = self.pick([8, 3, 16])
            members = [f"M{i} = {integer(i * 2 % (1 << width), None)}" for i in range(2 + self.below(3))]
            self.enums.append(Enum("Coded", tuple(m.split()[0] for m in members), width))
            lines.append(f"enum bit<{width}> Coded {{ {', '.join(members)} }}")
        if self.chance(60):
            names = tuple("ABCD"[: 2 + self.below(3)])
            self.enums.append(Enum("Plain", names))
            lines.append(f"enum Plain {{ {', '.join(names)} }}")
        self._inner = Record("in_t", False, (("x", Bits(8)), ("y", Bits(3)), ("z", Bits(5, True))))
        lines += self._declared(self._inner)
        self.headers = [self._header(f"h{i}_t") for i in range(2)]
        self.element = self._header("e_t", 3)
        for each in (*self.headers, self.element):
            lines += self._declared(each)
        self.stack = Stack(self.element, 2)
        structs: list[Record] = []
        for i in range(1 + self.below(2)):
            fields = [(f"f{j}", self._field_kind(structs)) for j in range(1 + self.below(4))]
            structs.append(Record(f"s{i}_t", False, tuple(fields)))
            lines += self._declared(structs[-1])
        first, second = self._field_kind(structs), self._field_kind(structs)
        generic = Record(
            f"pair_t<{first.text}, {second.text}>", False, (("a", first), ("b", second), ("c", first))
        )
        lines.append("struct pair_t<A, B> { A a; B b; A c; }")
        structs.append(generic)
        self.records = [*structs, *self.headers, self._inner]
        self.metadata = Record("meta_t", False, tuple((f"m{i}", self._field_kind(structs)) for i in range(3)))
        lines += self._declared(self.metadata)
        lines += ["struct headers_t {", "    h0_t a;", "    h1_t b;", "    h1_t c;", "    e_t[2] s;", "}"]
        return lines

    def _field_kind(self, structs: list[Record]) -> Kind:
        way = self.below(8)
        if way == 7 and structs:
            return self.pick(structs)
        if way == 6 and self.enums:
            return self.pick(self.enums)
        return BOOL if way == 5 else Bits(self.pick(WIDTHS), self.chance(30))

    def _header(self, name: str, count: int = 4) -> Record:
        kinds: list[Kind] = [
            Bits(8),
            *(Bits(self.pick(WIDTHS), self.chance(25)) for _ in range(self.below(count))),
        ]
        if self.chance(15):
            kinds.append(BOOL)
        bits = sum(map(_width, kinds))
        if bits % 8:
            kinds.append(Bits(8 - bits % 8))
        if self.chance(15):
            kinds.append(self._inner)
        return Record(name, True, tuple((f"f{i}", kind) for i, kind in enumerate(kinds)))

    def _declared(self, record: Record) -> list[str]:
        word = "header" if record.is_header else "struct"
        fields = [f"    {kind.text} {name};" for name, kind in record.fields]
        return [f"{word} {record.text} {{", *fields, "}"]

    # -- declarations

    def _constants(self, scope: Scope) -> list[str]:
        lines: list[str] = []
        for _ in range(self.below(3)):
            kind, name = Bits(self.pick(WIDTHS), self.chance(30)), self.name("K")
            known = Scope(variables=[v for v in scope.variables if v.text.startswith("K")])
            lines.append(f"const {kind.text} {name} = {self.text(kind, known, 2, can_call=False)};")
            scope.add(name, kind, is_writable=False)
        return lines

    def _parameters(
        self, scope: Scope, count: int, has_data: bool = False
    ) -> tuple[tuple[str, str, Kind], ...]:
        made: list[tuple[str, str, Kind]] = []
        for _ in range(self.below(count + 1)):
            direction = self.pick(["in", "inout", "inout", "out"])
            known = [h for h in self.headers if self.chance(15)]
            kind = known[0] if known else self.common_kind(scope)
            made.append((direction, self.name("p"), kind))
        if has_data:
            made += [("", self.name("d"), Bits(self.pick(WIDTHS))) for _ in range(self.below(3))]
        for direction, name, kind in made:
            guard = "doubtful" if isinstance(kind, Record) and kind.is_header else ""
            scope.add(name, kind, is_writable=direction in ("out", "inout"), guard=guard)
        return tuple(made)

    def _parameter_text(self, parameters: tuple[tuple[str, str, Kind], ...]) -> str:
        return ", ".join(f"{direction} {kind.text} {name}".strip() for direction, name, kind in parameters)

    def _defined(self, parameters: tuple[tuple[str, str, Kind], ...], scope: Scope) -> list[str]:
        """Return assignments to most `out` parameters, so that few programs read what is undefined."""
        known = scope.inner(variables=[])
        outputs = [(name, kind) for direction, name, kind in parameters if direction == "out"]
        return [f"{name} = {self.text(kind, known, 1, False)};" for name, kind in outputs if self.chance(97)]

    def _body(self, lines: list[str]) -> list[str]:
        return [f"    {line}" for line in lines]

    def _function(self, scope: Scope) -> list[str]:
        inner = scope.inner()
        parameters = self._parameters(inner, 3)
        returned = self.common_kind(inner) if self.chance(85) else None
        name = self.name("f")
        inner.returned = returned
        lines = self._defined(parameters, inner) + self.block(inner, 3, 2)
        if returned is not None:
            lines.append(self.returning(inner))
        scope.functions = [*scope.functions, Function(name, parameters, returned)]
        head = f"{returned.text if returned else 'void'} {name}({self._parameter_text(parameters)}) {{"
        return [head, *self._body(lines), "}"]

    def _generic_function(self, scope: Scope) -> list[str]:
        """Return a function with a type parameter, which the scope has with two types."""
        if not self.chance(40):
            return []
        name = self.name("g")
        for kind in (Bits(8), self.kind()):
            parameters = (("inout", "x", kind), ("in", "y", kind), ("in", "c", BOOL))
            scope.functions = [*scope.functions, Function(name, parameters, kind)]
        body = ["T old = x;", "if (c) { x = y; }", "return old;"]
        return [f"T {name}<T>(inout T x, in T y, in bool c) {{", *self._body(body), "}"]

    def _action_declaration(self, scope: Scope, has_data: bool) -> list[str]:
        inner = scope.inner(place="action", tables=[], controls=[])
        parameters = self._parameters(inner, 1 if has_data else 2, has_data)
        name = self.name("a")
        lines = self._defined(parameters, inner) + self.block(inner, 3, 2)
        scope.actions = [*scope.actions, Function(name, parameters)]
        return [f"action {name}({self._parameter_text(parameters)}) {{", *self._body(lines), "}"]

    # -- the parser

    def _sub_parser(self, scope: Scope) -> list[str]:
        inner = scope.inner(place="parser")
        inner.variables = [v for v in scope.variables if v.text.startswith("K")]
        inner.add("count", Bits(8))
        inner.add("h", self.headers[1])
        body = [*self.block(inner, 2, 1), f"count = count + {integer(1, 8)};"]
        return [
            "parser Sub(packet_in packet, out h1_t h, inout bit<8> count) {",
            "    state start {", "        packet.extract(h);", *(f"        {line}" for line in body),
            "        transition select(h.f0, count) {",
            f"            ({self._set(8)}, {self._set(8)}): again;", f"            ({self._set(8)}, _): accept;",
            f"            default: {self.pick(['accept', 'again', 'reject'])};", "        }", "    }",
            "    state again {", "        packet.extract(h);",
            f"        transition select(count) {{ {integer(3, None)} .. {integer(255, None)}: accept; default: start; }}",
            "    }", "}",
        ]  # fmt: skip

    def _parser(self, scope: Scope) -> list[str]:
        inner = scope.inner(place="parser")
        inner.variables = [v for v in scope.variables if v.text.startswith("K")]
        inner.add("meta", self.metadata)
        inner.add("count", Bits(8))
        after_a = inner.inner()
        after_a.add("hdr.a", self.headers[0])
        start = ["packet.extract(hdr.a);", *self.block(after_a, 3, 1)]
        key = self.text(Bits(8), after_a, 2, False) if self.chance(30) else "hdr.a.f0"
        lines = [
            "parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {",
            f"    bit<8> count = {integer(self.below(3), None)};", "    Sub() sub;",
            "    state start {", *(f"        {line}" for line in start),
        ]  # fmt: skip
        if self.chance(30):
            check = f"{self.text(BOOL, after_a, 2, False)} || hdr.a.f0 < {integer(240, None)}"
            lines.append(f"        verify({check}, error.{self.pick(['NoMatch', 'Drawn'])});")
        way = self.below(5)
        if way == 4:
            kind = self.pick([BOOL, Bits(7, True), *self.enums])
            lines.append(f"        transition select({self.text(kind, after_a, 2, False)}, {key}) {{")
            for low, state in self._cases(8):
                lines.append(f"            ({self.literal(kind, after_a).text}, {low}): {state};")
        elif way == 0:
            lines.append(f"        transition select({key}, packet.lookahead<bit<16>>()) {{")
            lines += [f"            ({low}, {self._set(16)}): {state};" for low, state in self._cases(8)]
        elif way == 1:
            lines.append(f"        transition select({key}, packet.lookahead<e_t>().f0) {{")
            lines += [f"            ({low}, {self._set(8)}): {state};" for low, state in self._cases(8)]
        else:
            lines.append(f"        transition select({key}) {{")
            lines += [f"            {low}: {state};" for low, state in self._cases(8)]
        lines += [
            f"            default: {self.pick(['accept', 'with_b', 'elements', 'sub_b'])};",
            "        }",
            "    }",
        ]
        after_b = inner.inner()
        after_b.add("hdr.a", self.headers[0])
        after_b.add("hdr.b", self.headers[1])
        lines += [
            "    state with_b {", "        packet.extract(hdr.b);",
            *(f"        {line}" for line in self.block(after_b, 2, 1)),
            f"        transition {self.pick(['accept', 'elements', 'skip'])};", "    }",
            "    state sub_b {", f"        sub.apply(packet, hdr.{self.pick('bc')}, count);",
            f"        transition {self.pick(['accept', 'elements', 'skip'])};", "    }",
            "    state skip {", f"        packet.advance({integer(8 * (1 + self.below(3)), None)});",
            f"        transition {self.pick(['accept', 'sub_c'])};", "    }",
            "    state sub_c {", f"        sub.apply(packet, hdr.{self.pick('bc')}, count);",
            "        transition accept;", "    }",
            "    state elements {", "        packet.extract(hdr.s.next);",
            "        transition select(hdr.s.last.f0) {",
            f"            {self._set(8)}: elements;", f"            {self._set(8)}: with_c;", "            default: accept;",
            "        }", "    }",
            "    state with_c {", "        packet.extract(hdr.c);", "        transition accept;", "    }", "}",
        ]  # fmt: skip
        return lines

    def _cases(self, width: int) -> list[tuple[str, str]]:
        states = ["with_b", "elements", "accept", "with_c", "skip", "sub_b"]
        return [(self._set(width), self.pick(states)) for _ in range(1 + self.below(4))]

    def _set(self, width: int) -> str:
        way = self.below(4)
        if way == 0:
            return integer(self.number(width), None)
        if way == 1:
            return f"{integer(self.number(width), None)} &&& {integer(self.number(width), None)}"
        if way == 2:
            low = self.number(width)
            return f"{integer(low, None)} .. {integer(low + self.below((1 << width) - low), None)}"
        return "_"

    # -- controls

    def _locals(self, scope: Scope) -> list[str]:
        lines: list[str] = []
        declared: set[str] = set()
        for _ in range(self.below(3)):
            lines += self._variable(scope, 0, declared)
        for _ in range(self.below(3)):
            lines += self._action_declaration(scope, has_data=False)
        return lines

    def _nested_control(self, scope: Scope) -> list[str]:
        inner = scope.inner(place="control", tables=[])
        parameters = self._parameters(inner, 3)
        is_constructed = self.chance(30)
        if is_constructed:
            inner.add("n", Bits(8), is_writable=False)
        name = self.name("C")
        lines = self._locals(inner)
        if self.chance(40):
            lines += self._tables(inner)
        singles = [each.name for each in scope.controls if each.is_single]
        inner.controls = list(scope.controls)
        body = self._defined(parameters, inner) + self.block(inner, 4, 2)
        is_single = any("table" in line for line in lines) or any(
            each in line for each in singles for line in body
        )
        made = Function(f"{name}.apply", parameters, None, is_single)
        if is_constructed:
            self._constructed.append(made)
        else:
            scope.controls = [*scope.controls, made]
        text = self._parameter_text(parameters)
        constructor = "(bit<8> n)" if is_constructed else ""
        return [
            f"control {name}({text}){constructor} {{",
            *self._body([*lines, "apply {", *self._body(body), "}"]),
            "}",
        ]

    def _tables(self, scope: Scope) -> list[str]:
        lines: list[str] = []
        with_data = scope.inner(actions=[])
        for _ in range(1 + self.below(2)):
            lines += self._action_declaration(with_data, has_data=True)
        lines += self._table_declaration(scope, list(with_data.actions))
        return lines

    def _table_declaration(self, scope: Scope, actions: list[Function]) -> list[str]:
        name = self.name("t")
        references: list[str] = []
        for each in list(actions):
            directed = tuple(parameter for parameter in each.parameters if parameter[0])
            called = self.call(Function(each.name, directed), scope, 0, can_call=False)
            references += [called.text if directed else each.name] if called is not None else []
            if called is None:
                actions.remove(each)
        keys: list[tuple[str, Kind, str]] = []
        for i in range(1 + self.below(2)):
            kind: Kind = Bits(self.pick([8, 8, 3, 16, 33]))
            if self.chance(25):
                kind = self.pick([BOOL, Bits(7, True), *self.enums])
            text = self.text(kind, scope, 1, can_call=False)
            match_kind = self.pick(["exact", "ternary", "range"])
            if not isinstance(kind, Bits) or kind.is_signed:
                match_kind = "exact"
            keys.append(
                (text, kind, "lpm" if i == 0 and match_kind != "exact" and self.chance(20) else match_kind)
            )
        lines = [f"table {name} {{", "    key = {"]
        lines += [
            f'        {text}: {match_kind} @name("k{i}");' for i, (text, _, match_kind) in enumerate(keys)
        ]
        lines += ["    }", f"    actions = {{ {''.join(f'{each}; ' for each in references)}NoAction; }}"]
        lines += ["    const entries = {"]
        seen: set[str] = set()
        for _ in range(1 + self.below(4)):
            sets = [self._entry_set(kind, match_kind, scope) for _, kind, match_kind in keys]
            if str(sets) not in seen and "lpm" not in [match_kind for *_, match_kind in keys][1:]:
                seen.add(str(sets))
                lines.append(f"        ({', '.join(sets)}): {self._action_call(actions, references)};")
        lines += ["    }", f"    default_action = {self._action_call(actions, references)};", "}"]
        scope.tables = [*scope.tables, Table(name, (*(each.name for each in actions), "NoAction"))]
        return lines

    def _entry_set(self, kind: Kind, match_kind: str, scope: Scope) -> str:
        if not isinstance(kind, Bits) or kind.is_signed:
            return self.literal(kind, scope).text
        width = kind.width
        value = self.number(width)
        if match_kind == "exact":
            return integer(value, None)
        if match_kind == "lpm":
            mask = (1 << width) - (1 << self.below(width + 1))
            return f"{integer(value & mask, None)} &&& {integer(mask, None)}"
        if match_kind == "range":
            return f"{integer(value, None)} .. {integer(value + self.below((1 << width) - value), None)}"
        mask = self.number(width)
        return f"{integer(value & mask, None)} &&& {integer(mask, None)}"

    def _action_call(self, actions: list[Function], references: list[str]) -> str:
        """Return the action of an entry with its data, sometimes after the arguments that the table names."""
        if not actions:
            return "NoAction()"
        number = self.below(len(actions))
        data = [
            integer(self.number(kind.width), None)
            for direction, _, kind in actions[number].parameters
            if isinstance(kind, Bits) and not direction
        ]
        directed = references[number].partition("(")[2].rpartition(")")[0]
        if directed and self.chance(50) and "=" not in directed:
            data = [directed, *data]
        return f"{actions[number].name}({', '.join(data)})"

    def _main_control(self, name: str, scope: Scope) -> list[str]:
        inner = scope.inner(place="control", tables=[])
        inner.add("meta", self.metadata)
        inner.add("hdr.a", self.headers[0])
        inner.add("hdr.b", self.headers[1], guard="doubtful")
        inner.add("hdr.c", self.headers[1], guard="doubtful")
        inner.add("hdr.s", self.stack)
        inner.add("std.parser_error", _ERROR, is_writable=False)
        inner.add("std.ingress_port", Bits(9), is_writable=False)
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
            lines += self._tables(inner)
        body = ["std.egress_spec = 2;"] if name == "In" else []
        self.size = max(self.size, 8)
        body += self.block(inner, 8, 3)
        if self.chance(5):
            body += [f"if ({self.text(BOOL, inner, 2)}) {{ mark_to_drop(std); }}"]
        head = f"control {name}(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{"
        return [head, *self._body([*lines, "apply {", *self._body(body), "}"]), "}"]

    def _ends(self) -> list[str]:
        checksum: list[str] = []
        target = next((n for n, k in self.headers[1].fields if k == Bits(16)), None)
        if target is not None:
            fields = ", ".join(f"hdr.a.{name}" for name, _ in self.headers[0].fields)
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
        """Return frames whose first bytes are often small numbers, as those that states and tables compare."""
        bits = [_width(each) for each in self.headers]
        length = (2 * sum(bits) + 8 * 40) // 8
        made: list[tuple[int, bytes]] = []
        for _ in range(4):
            size = length if self.chance(85) else self.below(length)
            filling = self.pick([0, 1, 255, None, None, None])
            data = bytearray(self.number(8) if filling is None else filling for _ in range(size))
            made.append((self.below(4), bytes(data)))
        return tuple(made)
