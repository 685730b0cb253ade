"""The parts of a program that lowering has made, which all bodies of the program add to."""

from __future__ import annotations

from dataclasses import dataclass, field

from softswitch import ir
from softswitch.p4 import tree, types
from softswitch.p4.diagnostics import SourceError, SourceFiles
from softswitch.p4.objects import CallableObject, Elaborator, ExternObject
from softswitch.p4.operands import Operand
from softswitch.p4.scopes import Facts
from softswitch.p4.storage import VariableStorage

MAX_UNROLLED = 1 << 14
"""Repetitions of all loops of a program that are written out."""
FieldValue = ir.FieldRef | ir.SizedConstant


@dataclass(slots=True)
class TableSpec:
    """A table but for what follows it in its control."""

    declaration: tree.Table
    owner: CallableObject
    name: str
    key: tuple[ir.KeyField, ...]
    actions: tuple[int, ...]
    action_declarations: dict[int, tree.Declaration]
    default: ir.Invocation
    default_is_const: bool
    entries: tuple[ir.ConstEntry, ...]
    size: int
    has_counter: bool
    profile: int | None
    meter: ir.DirectMeter | None
    has_idle_timeout: bool
    selector_inputs: list[ir.FieldRef] = field(default_factory=list)

    def actions_from(self, declaration: tree.Declaration) -> list[int]:
        return [index for index, each in self.action_declarations.items() if each is declaration]


class LoweringState:
    def __init__(self, facts: Facts, sources: SourceFiles) -> None:
        self.facts, self.sources = facts, sources
        self.storage = VariableStorage(facts)
        self.elaborator = Elaborator(facts)
        self.anonymous: dict[tuple[tree.Call, CallableObject], CallableObject | ExternObject] = {}
        """Instances that calls make, by the call and the instance around."""
        self._repetitions = 0

        self.counters: dict[ExternObject, int] = {}
        self.meters: dict[ExternObject, int] = {}
        self.registers: dict[ExternObject, int] = {}
        self.calculations: list[ir.Calculation] = []
        self.field_lists: list[ir.FieldList] = []
        self.preserved: dict[int, int] = {}
        """Positions of lists of the fields with `@field_list`, by its number."""
        self.digests: list[ir.FieldList] = []
        self.digest_types: list[tuple[types.Type, tree.Node]] = []
        self.messages: list[str] = []

        self.metadata: tuple[types.Type, Operand] | None = None
        self.standard: dict[str, ir.FieldRef] = {}

        self.actions: list[ir.Action] = []
        self.shared_actions: dict[tuple[CallableObject | None, tree.Action], int] = {}
        self.tables: dict[str, TableSpec] = {}
        self.table_names: dict[tuple[CallableObject, tree.Table], str] = {}
        self.profiles: list[tuple[ExternObject, list[str]]] = []
        self.direct_counters: dict[str, ExternObject] = {}
        """The direct counter of each table that has one."""
        self.direct_meters: dict[str, ExternObject] = {}
        self.implementations: dict[tuple[CallableObject, tree.Node], ExternObject] = {}
        self.key_storage: dict[tuple[CallableObject, tree.KeyElement], ir.FieldRef] = {}

        self.value_sets: list[ir.ValueSet] = []
        self.set_index: dict[tuple[CallableObject, tree.ValueSet], int] = {}
        self.emitted: list[int] = []
        """Headers in the order in which the deparser emits them."""

    def count_repetition(self, node: tree.Node) -> None:
        self._repetitions += 1
        if self._repetitions > MAX_UNROLLED:
            raise SourceError(node, f"expected at most {MAX_UNROLLED} repetitions of all loops together")

    def add_message(self, text: str) -> int:
        self.messages.append(text)
        return len(self.messages) - 1

    def add_calculation(
        self, name: str, algorithm: str, inputs: list[FieldValue], node: tree.Node, has_payload: bool = False
    ) -> int:
        calculation = ir.Calculation(name, algorithm, tuple(inputs), has_payload, node.position.place)
        self.calculations.append(calculation)
        return len(self.calculations) - 1

    def add_field_list(self, values: list[FieldValue]) -> int:
        used = {each.id for each in self.field_lists}
        number = next(i for i in range(1, len(used) + 2) if i not in used)
        self.field_lists.append(ir.FieldList(number, f"fl{number}", tuple(values)))
        return len(self.field_lists) - 1
