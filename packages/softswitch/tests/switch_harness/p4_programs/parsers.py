"""Random parsers, with a parser within them."""

from __future__ import annotations

from switch_harness.p4_programs.declarations import DeclarationDrawer
from switch_harness.p4_programs.kinds import BOOL, Bits, Scope
from switch_harness.p4_programs.operands import Binding
from switch_harness.p4_programs.render import integer


class ParserDrawer(DeclarationDrawer):
    def sub_parser(self, scope: Scope) -> list[str]:
        inner = scope.inner(place="parser")
        inner.variables = [v for v in scope.variables if v.text.startswith("K")]
        inner.add("count", Bits(8))
        inner.add("h", self.headers[1])
        body = [*self.block(inner, 2, 1), f"count = count + {integer(1, 8)};"]
        return [
            "parser Sub(packet_in packet, out h1_t h, inout bit<8> count) {",
            "    state start {", "        packet.extract(h);", *(f"        {line}" for line in body),
            "        transition select(h.f0, count) {",
            f"            ({self._set(8)}, {self._set(8)}): again;",
            f"            ({self._set(8)}, _): accept;",
            f"            default: {self.pick(['accept', 'again', 'reject'])};", "        }", "    }",
            "    state again {", "        packet.extract(h);",
            f"        transition select(count) {{ {integer(3, None)} .. {integer(255, None)}: accept;",
            "        default: start; }",
            "    }", "}",
        ]  # fmt: skip

    def parser(self, scope: Scope) -> list[str]:
        inner = scope.inner(place="parser")
        inner.variables = [v for v in scope.variables if v.text.startswith("K")]
        inner.add("meta", self.metadata)
        inner.add("count", Bits(8))
        after_a = inner.inner()
        after_a.add("hdr.a", self.headers[0])
        start = ["packet.extract(hdr.a);", *self.block(after_a, 3, 1)]
        key = self.text(Bits(8), after_a, 2, False) if self.chance(30) else "hdr.a.f0"
        lines = [
            "parser P(packet_in packet, out headers_t hdr,",
            "         inout meta_t meta, inout standard_metadata_t std) {",
            f"    bit<8> count = {integer(self.below(3), None)};", "    Sub() sub;",
            "    state start {", *(f"        {line}" for line in start),
        ]  # fmt: skip
        if self.chance(30):
            drawn = self.expression(BOOL, after_a, 2, False).within(Binding.OR)
            check = f"{drawn} || hdr.a.f0 < {integer(240, None)}"
            lines.append(f"        verify({check}, error.{self.pick(['NoMatch', 'Drawn'])});")
        way = self.below(5)
        if way == 4:
            kind = self.other_kind()
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
            f"            {self._set(8)}: elements;", f"            {self._set(8)}: with_c;",
            "            default: accept;", "        }", "    }",
            "    state with_c {", "        packet.extract(hdr.c);", "        transition accept;",
            "    }", "}",
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
