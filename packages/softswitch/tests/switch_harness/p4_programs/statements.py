"""Random statements."""

from __future__ import annotations

from collections.abc import Callable

from switch_harness.p4_programs.extern_statements import ExternStatementDrawer
from switch_harness.p4_programs.kinds import (
    BOOL,
    Bits,
    Enum,
    Function,
    Kind,
    Record,
    Scope,
    Stack,
    Table,
    Tuple,
)
from switch_harness.p4_programs.operands import WIDTHS, Binding
from switch_harness.p4_programs.render import CLOSE, OPEN, integer

_COMPOUND = ("+=", "-=", "*=", "&=", "|=", "^=", "|+|=", "|-|=", "<<=", ">>=")
_HIDING = 15
"""Percentage of variables that hide one of the same name."""


class StatementDrawer(ExternStatementDrawer):
    stack: Stack
    size: int
    """Statements that may still be drawn."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]  # those of the chooser
        self._names = 0

    def name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def kind(self) -> Kind:
        way = self.below(10)
        if way == 9:
            return BOOL
        if way == 8 and self.enums:
            return self.pick(self.enums)
        if way == 7 and self.records:
            return self.pick(self.records)
        if way == 6 and self.chance(25):
            return self.stack
        if way == 6 and self.chance(40):
            return Tuple(tuple(Bits(self.pick(WIDTHS)) for _ in range(1 + self.below(3))))
        return Bits(8) if self.chance(30) else Bits(self.pick(WIDTHS), self.chance(30))

    def other_kind(self) -> Kind:
        """Return a type that is compared, but no unsigned number."""
        others: list[Kind] = [Bits(7, True), BOOL]
        return self.pick([*others, *self.enums])

    def common_kind(self, scope: Scope) -> Kind:
        """Return the kind of a variable, so that there is something of it."""
        known = [v.kind for v in scope.variables if not isinstance(v.kind, Stack)]
        way = self.below(10)
        if way < 5:
            return Bits(8)  # so that there are many variables of one type, which may be the same
        return self.pick(known) if known and way < 8 else self.kind()

    # -- statements

    def block(self, scope: Scope, count: int, depth: int) -> list[str]:
        """Return the lines of some statements, of which variables are added to the scope."""
        lines: list[str] = []
        declared: set[str] = set()
        for _ in range(1 + self.below(count)):
            if self.size <= 0:
                break
            self.size -= 1
            lines += self.statement(scope, depth, declared)
        return lines

    def statement(self, scope: Scope, depth: int, declared: set[str]) -> list[str]:
        if self.below(20) == 1:
            return self._variable(scope, depth, declared)
        ways: list[Callable[[Scope, int], list[str]]] = [
            self._assignment, self._assignment, self._assignment, self._compound,
            self._slice_assignment, self._conditional, self._call_statement, self._action, self._apply,
            self._apply, self._table, self._switch, self._loop, self._jump, self.validity, self.register,
            self.stack_change, self.counter, self._for_in, self._block, self._formula, self._read_once,
        ]  # fmt: skip
        if scope.loops and self.chance(15):
            ways = [self._jump]
        return self.pick(ways)(scope, depth) or self._assignment(scope, depth)

    def _indented(self, scope: Scope, count: int, depth: int) -> list[str]:
        return [f"    {line}" for line in self.block(scope.inner(), count, depth - 1)]

    def _assignment(self, scope: Scope, depth: int) -> list[str]:
        targets = [v for v in scope.variables if v.is_writable]
        if not targets:
            return [";"]
        target = self.pick(targets)
        if isinstance(target.kind, Record) and self.chance(30):
            # A list without a cast becomes what the target is.
            parts = [self.text(each, scope, 1) for _, each in target.kind.fields]
            return [f"{target.text} = {{ {', '.join(parts)} }};"]
        text = self.indexed(target.text, scope)
        return [f"{text} = {self.text(target.kind, scope, 2)};"]

    def _formula(self, scope: Scope, depth: int) -> list[str]:
        targets = [
            v for v in scope.variables if v.is_writable and isinstance(v.kind, Bits) and v.kind.width > 1
        ]
        if not targets:
            return []
        target = self.pick(targets)
        assert isinstance(target.kind, Bits)
        if self.chance(30):
            order = self.pick(["==", "<", ">=", "!="])
            sides = [self.formula(target.kind, scope, 2).text for _ in range(2)]
            if self.chance(50):
                # Bits bind tighter than comparisons.
                condition = (
                    f"{OPEN}{sides[0]}{CLOSE} {order} {OPEN}{sides[1]}{CLOSE} && {self.text(BOOL, scope, 0)}"
                )
                return [f"if ({condition}) {{ {target.text} = {self.text(target.kind, scope, 0)}; }}"]
        return [f"{target.text} = {self.formula(target.kind, scope, 4).text};"]

    def _variable(self, scope: Scope, depth: int, declared: set[str]) -> list[str]:
        kind = self.kind()
        hidden = sorted(
            {v.text for v in scope.variables if v.text.startswith("v") and v.text.isalnum()} - declared
        )
        name = self.pick(hidden) if hidden and self.chance(_HIDING) else self.name("v")
        initial = f" = {self.text(kind, scope, 2)}" if self.chance(97) else ""
        scope.add(name, kind)
        declared.add(name)
        return [f"{kind.text} {name}{initial};"]

    def _read_once(self, scope: Scope, depth: int) -> list[str]:
        """Return a variable that takes the low bits of a wider number, and its only read."""
        kind, wide = Bits(self.pick([3, 5, 8, 9, 16])), Bits(self.pick([17, 24, 32, 65]))
        target_kind = Bits(self.pick(WIDTHS))
        if scope.place == "parser" or (target := self.target(target_kind, scope)) is None:
            return []
        name, value = self.name("v"), self.expression(wide, scope, 1).within(Binding.PREFIX)
        reads = [
            f"({target_kind.text}) {name}",
            f"({target_kind.text}) ({name} >> {integer(1 + self.below(2), None)})",
            f"{name} {self.pick(['<', '>=', '==', '!='])} {self.literal(kind, scope).text} "
            f"? {self.literal(target_kind, scope).text} : {self.literal(target_kind, scope).text}",
        ]
        return [f"{kind.text} {name} = ({kind.text}) {value};", f"{target} = {self.pick(reads)};"]

    def _compound(self, scope: Scope, depth: int) -> list[str]:
        targets = [v for v in scope.variables if v.is_writable and isinstance(v.kind, Bits) and not v.guard]
        if not targets:
            return []
        target = self.pick(targets)
        operator = self.pick(_COMPOUND)
        kind = Bits(8) if operator in ("<<=", ">>=") else target.kind
        return [f"{target.text} {operator} {self.text(kind, scope, 1)};"]

    def _slice_assignment(self, scope: Scope, depth: int) -> list[str]:
        kind = Bits(self.pick([1, 3, 7, 8, 16]))
        target = self.target(kind, scope.inner(variables=[v for v in scope.variables if not v.guard]))
        operator = self.pick(["=", "=", "+=", "^=", "|-|="])
        return [f"{target} {operator} {self.text(kind, scope, 2)};"] if target is not None else []

    def _conditional(self, scope: Scope, depth: int) -> list[str]:
        if depth <= 0:
            return []
        if scope.place == "control" and scope.tables and self.chance(30):
            condition = f"{self._next_table(scope).name}.apply().{self.pick(['hit', 'miss'])}"
            if self.chance(30):
                condition = f"{self.expression(BOOL, scope, 1).within(Binding.EQUAL)} && {condition}"
        else:
            condition = self.text(BOOL, scope, 2)
        lines = [f"if ({condition}) {{", *self._indented(scope, 3, depth), "}"]
        if self.chance(50):
            lines[-1] = "} else {"
            lines += [*self._indented(scope, 3, depth), "}"]
        return lines

    def _call_statement(self, scope: Scope, depth: int) -> list[str]:
        return self._called(scope.functions, scope)

    def _called(self, functions: list[Function], scope: Scope) -> list[str]:
        if not functions:
            return []
        called = self.call(self.pick(functions), scope, 1)
        return [f"{called.text};"] if called is not None else []

    def _action(self, scope: Scope, depth: int) -> list[str]:
        return self._called(scope.actions, scope) if scope.place in ("control", "action") else []

    def _apply(self, scope: Scope, depth: int) -> list[str]:
        if scope.place != "control" or not scope.controls:
            return []
        control = self.pick(scope.controls)
        if control.is_single:
            scope.controls.remove(control)
        return self._called([control], scope)

    def _table(self, scope: Scope, depth: int) -> list[str]:
        if scope.place != "control" or not scope.tables:
            return []
        table = self._next_table(scope)
        if depth <= 0 or self.chance(50):
            return [f"{table.name}.apply();"]
        lines = [f"switch ({table.name}.apply().action_run) {{"]
        for i, action in enumerate(table.actions):
            if self.chance(60):
                if self.chance(20) and i + 1 < len(table.actions):
                    lines.append(f"    {action}:")
                    lines.append(f"    {table.actions[-1]}: {{")
                    lines += [*(f"    {line}" for line in self._indented(scope, 2, depth)), "    }"]
                    return [*lines, "}"]
                lines.append(f"    {action}: {{")
                lines += [*(f"    {line}" for line in self._indented(scope, 2, depth)), "    }"]
        if self.chance(50):
            lines += ["    default: {", *(f"    {line}" for line in self._indented(scope, 2, depth)), "    }"]
        return [*lines, "}"]

    def _next_table(self, scope: Scope) -> Table:
        return scope.tables.pop(self.below(len(scope.tables)))

    def _switch(self, scope: Scope, depth: int) -> list[str]:
        if depth <= 0 or scope.place == "parser":
            return []
        kind: Bits | Enum = self.pick([Bits(8), Bits(3), Bits(16)])
        if self.enums and self.chance(40):
            kind = self.pick(self.enums)
        lines = [f"switch ({self.text(kind, scope, 2)}) {{"]
        if isinstance(kind, Enum):
            labels = [f"{kind.text}.{member}" for member in kind.members]
        else:
            numbers = [*range(3 + self.below(2)), (1 << kind.width) - 1]
            labels = [integer(number, kind.width) for number in numbers]
        for i, label in enumerate(labels):
            if self.chance(25):
                continue
            if self.chance(20) and i + 1 < len(labels):
                lines.append(f"    {label}:")
                continue
            lines.append(f"    {label}: {{")
            lines += [*(f"    {line}" for line in self._indented(scope, 2, depth)), "    }"]
        if self.chance(60) or lines[-1].endswith(":"):
            lines += ["    default: {", *(f"    {line}" for line in self._indented(scope, 2, depth)), "    }"]
        return [*lines, "}"] if len(lines) > 1 else []

    def _in_loop(self, scope: Scope) -> Scope:
        """Return the scope of a loop, in which no table is applied, as some loops are unrolled."""
        controls = [each for each in scope.controls if not each.is_single]
        return scope.inner(loops=scope.loops + 1, tables=[], controls=controls)

    def _loop(self, scope: Scope, depth: int) -> list[str]:
        if depth <= 0 or scope.loops > 1 or scope.place == "parser":
            return []
        name, kind = self.name("i"), Bits(self.pick([8, 32]))
        inner = self._in_loop(scope)
        inner.add(name, kind, is_writable=False)
        last = integer(1 + self.below(3), kind.width if self.chance(50) else None)
        update = self.pick([f"{name} = {name} + 1", f"{name} += 1"])
        if scope.place == "action" and self.chance(30):
            # Loops of actions may depend on the packet.
            last = (
                f"(bit<{kind.width}>)({self.text(Bits(8), scope, 1)})[{integer(1, None)}:{integer(0, None)}]"
            )
        head = f"for ({kind.text} {name} = {integer(self.below(2), None)}; {name} < {last}; {update}) {{"
        return [head, *self._indented(inner, 3, depth), "}"]

    def _block(self, scope: Scope, depth: int) -> list[str]:
        return ["{", *self._indented(scope, 3, depth), "}"] if depth > 0 else []

    def _for_in(self, scope: Scope, depth: int) -> list[str]:
        if depth <= 0 or scope.loops > 1 or scope.place == "parser":
            return []
        name, kind = self.name("i"), Bits(8)
        inner = self._in_loop(scope)
        inner.add(name, kind, is_writable=False)
        low = self.below(4)
        if self.chance(60):
            collection = f"{integer(low, 8)} .. {integer(low + self.below(3), 8)}"
        else:
            values = ", ".join(self.text(kind, scope, 1) for _ in range(1 + self.below(3)))
            collection = f"{self.pick([f'(list<{kind.text}>)', ''])}{{{values}}}"
        return [f"for ({kind.text} {name} in {collection}) {{", *self._indented(inner, 3, depth), "}"]

    def _jump(self, scope: Scope, depth: int) -> list[str]:
        """Return a jump, mostly one under a condition."""
        jumps = {
            "control": ["exit;", "return;"], "action": ["exit;", "return;"], "parser": [],
            "function": [self.returning(scope)],
        }[scope.place]  # fmt: skip
        if scope.loops:
            jumps += ["break;", "continue;"] * 2
        if not jumps:
            return []
        jump = self.pick(jumps)
        return [f"if ({self.text(BOOL, scope, 1)}) {{ {jump} }}"]

    def returning(self, scope: Scope) -> str:
        return "return;" if scope.returned is None else f"return {self.text(scope.returned, scope, 2)};"
