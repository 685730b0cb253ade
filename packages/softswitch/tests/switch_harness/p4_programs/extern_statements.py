"""Random statements on headers, stacks, registers and counters."""

from __future__ import annotations

from switch_harness.p4_programs.expressions import ExpressionDrawer
from switch_harness.p4_programs.kinds import Bits, Record, Scope, Stack
from switch_harness.p4_programs.render import integer


class ExternStatementDrawer(ExpressionDrawer):
    def validity(self, scope: Scope, depth: int) -> list[str]:
        headers = [
            v for v in scope.variables if isinstance(v.kind, Record) and v.kind.is_header and v.is_writable
        ]
        if not (doubtful := [v for v in headers if v.guard]):
            return []
        header = self.pick(doubtful)
        if self.chance(40):
            return [f"{header.text}.setInvalid();"]
        if self.chance(10):
            return [f"{header.text} = {{#}};"]
        return [
            f"if (!{header.text}.isValid()) {{",
            f"    {header.text} = {self.text(header.kind, scope, 1)};",
            "}",
        ]

    def stack_change(self, scope: Scope, depth: int) -> list[str]:
        stacks = [v for v in scope.variables if isinstance(v.kind, Stack) and v.is_writable]
        if not stacks:
            return []
        stack = self.pick(stacks)
        assert isinstance(stack.kind, Stack)
        count = integer(1 + self.below(stack.kind.size), None)
        return [f"{stack.text}.{self.pick(['push_front', 'pop_front'])}({count});"]

    def register(self, scope: Scope, depth: int) -> list[str]:
        if not scope.registers or scope.place not in ("control", "action"):
            return []
        name, kind, size = self.pick(scope.registers)
        assert size == 4
        index = f"(bit<32>)({self.text(Bits(8), scope, 1)})[{integer(1, None)}:{integer(0, None)}]"
        if self.chance(50) and (target := self.target(kind, scope)) is not None:
            return [f"{name}.read({target}, {index});"]
        return [f"{name}.write({index}, {self.text(kind, scope, 2)});"]

    def counter(self, scope: Scope, depth: int) -> list[str]:
        if not scope.counters or scope.place not in ("control", "action"):
            return []
        name, size = self.pick(scope.counters)
        index = self.text(Bits(32), scope, 1) if self.chance(20) else integer(self.below(size), None)
        return [f"{name}.count({index});"]
