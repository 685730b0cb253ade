"""Random types, constants, functions and actions."""

from __future__ import annotations

from switch_harness.p4_programs.kinds import BOOL, Bits, Enum, Function, Kind, Record, Scope, Stack
from switch_harness.p4_programs.operands import WIDTHS
from switch_harness.p4_programs.render import integer
from switch_harness.p4_programs.statements import StatementDrawer

Parameters = tuple[tuple[str, str, Kind], ...]


def width_of(kind: Kind) -> int:
    match kind:
        case Bits(width):
            return width
        case Record(fields=fields):
            return sum(width_of(each) for _, each in fields)
    return 1


class DeclarationDrawer(StatementDrawer):
    headers: list[Record]
    element: Record
    metadata: Record

    # -- types

    def types(self) -> list[str]:
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
            fields = [(f"f{j}", self.field_kind(structs)) for j in range(1 + self.below(4))]
            structs.append(Record(f"s{i}_t", False, tuple(fields)))
            lines += self._declared(structs[-1])
        first, second = self.field_kind(structs), self.field_kind(structs)
        generic = Record(
            f"pair_t<{first.text}, {second.text}>", False, (("a", first), ("b", second), ("c", first))
        )
        lines.append("struct pair_t<A, B> { A a; B b; A c; }")
        structs.append(generic)
        self.records = [*structs, *self.headers, self._inner]
        self.metadata = Record("meta_t", False, tuple((f"m{i}", self.field_kind(structs)) for i in range(3)))
        lines += self._declared(self.metadata)
        lines += ["struct headers_t {", "    h0_t a;", "    h1_t b;", "    h1_t c;", "    e_t[2] s;", "}"]
        return lines

    def field_kind(self, structs: list[Record]) -> Kind:
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
        bits = sum(map(width_of, kinds))
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

    def constants(self, scope: Scope) -> list[str]:
        lines: list[str] = []
        for _ in range(self.below(3)):
            kind, name = Bits(self.pick(WIDTHS), self.chance(30)), self.name("K")
            known = Scope(variables=[v for v in scope.variables if v.text.startswith("K")])
            lines.append(f"const {kind.text} {name} = {self.text(kind, known, 2, can_call=False)};")
            scope.add(name, kind, is_writable=False)
        return lines

    def parameters(self, scope: Scope, count: int, has_data: bool = False) -> Parameters:
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

    def parameter_text(self, parameters: Parameters) -> str:
        return ", ".join(f"{direction} {kind.text} {name}".strip() for direction, name, kind in parameters)

    def defined(self, parameters: Parameters, scope: Scope) -> list[str]:
        """Return assignments to most `out` parameters, so that few programs read what is undefined."""
        known = scope.inner(variables=[])
        outputs = [(name, kind) for direction, name, kind in parameters if direction == "out"]
        return [f"{name} = {self.text(kind, known, 1, False)};" for name, kind in outputs if self.chance(97)]

    def body(self, lines: list[str]) -> list[str]:
        return [f"    {line}" for line in lines]

    def function(self, scope: Scope) -> list[str]:
        inner = scope.inner()
        parameters = self.parameters(inner, 3)
        returned = self.common_kind(inner) if self.chance(85) else None
        name = self.name("f")
        inner.returned = returned
        lines = self.defined(parameters, inner) + self.block(inner, 3, 2)
        if returned is not None:
            lines.append(self.returning(inner))
        scope.functions = [*scope.functions, Function(name, parameters, returned)]
        head = f"{returned.text if returned else 'void'} {name}({self.parameter_text(parameters)}) {{"
        return [head, *self.body(lines), "}"]

    def generic_function(self, scope: Scope) -> list[str]:
        """Return a function with a type parameter, which the scope has with two types."""
        if not self.chance(40):
            return []
        name = self.name("g")
        for kind in (Bits(8), self.kind()):
            parameters = (("inout", "x", kind), ("in", "y", kind), ("in", "c", BOOL))
            scope.functions = [*scope.functions, Function(name, parameters, kind)]
        body = ["T old = x;", "if (c) { x = y; }", "return old;"]
        return [f"T {name}<T>(inout T x, in T y, in bool c) {{", *self.body(body), "}"]

    def action_declaration(self, scope: Scope, has_data: bool) -> list[str]:
        inner = scope.inner(place="action", tables=[], controls=[])
        parameters = self.parameters(inner, 1 if has_data else 2, has_data)
        name = self.name("a")
        lines = self.defined(parameters, inner) + self.block(inner, 3, 2)
        scope.actions = [*scope.actions, Function(name, parameters)]
        return [f"action {name}({self.parameter_text(parameters)}) {{", *self.body(lines), "}"]
