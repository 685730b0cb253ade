"""Random tables with constant entries."""

from __future__ import annotations

from switch_harness.p4_interpreter import TableEntry
from switch_harness.p4_programs.kinds import Bits, Function, Kind, Scope, Table
from switch_harness.p4_programs.parsers import ParserDrawer
from switch_harness.p4_programs.render import integer


class TableDrawer(ParserDrawer):
    given: dict[str, list[TableEntry]]
    """Entries for the control plane to add, by the names of tables in the source."""

    def tables(self, scope: Scope) -> list[str]:
        lines: list[str] = []
        with_data = scope.inner(actions=[])
        for _ in range(1 + self.below(2)):
            lines += self.action_declaration(with_data, has_data=True)
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
                kind = self.other_kind()
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
        table = Table(name, (*(each.name for each in actions), "NoAction"))
        scope.tables = [*scope.tables, table]
        is_plain = all(isinstance(k, Bits) and not k.is_signed and m != "range" for _, k, m in keys)
        if is_plain and self.chance(40):
            self.given[name] = self._given_entries(keys, actions)
            return [*lines, f"    size = 16; default_action = {self._action_call(actions, references)};", "}"]
        lines += ["    const entries = {"]
        seen: set[str] = set()
        for _ in range(1 + self.below(4)):
            sets = [self._entry_set(kind, match_kind, scope) for _, kind, match_kind in keys]
            if str(sets) not in seen and "lpm" not in [match_kind for *_, match_kind in keys][1:]:
                seen.add(str(sets))
                lines.append(f"        ({', '.join(sets)}): {self._action_call(actions, references)};")
        return [*lines, "    }", f"    default_action = {self._action_call(actions, references)};", "}"]

    def _given_entries(self, keys: list[tuple[str, Kind, str]], actions: list[Function]) -> list[TableEntry]:
        """Return entries for the control plane to add, with different keys and priorities."""
        entries: dict[tuple[tuple[int, int], ...], TableEntry] = {}
        for i in range(1 + self.below(4)):
            sets: list[tuple[int, int]] = []
            for _, kind, match_kind in keys:
                assert isinstance(kind, Bits)
                full = (1 << kind.width) - 1
                prefix = full & ~((1 << self.below(kind.width + 1)) - 1)
                mask = {"exact": full, "lpm": prefix}.get(match_kind, self.number(kind.width))
                sets.append((self.number(kind.width) & mask, mask))
            name = "NoAction"
            data: tuple[int, ...] = ()
            if actions:
                action = self.pick(actions)
                widths = [k.width for d, _, k in action.parameters if isinstance(k, Bits) and not d]
                name, data = action.name, tuple(map(self.number, widths))
            entries.setdefault(tuple(sets), TableEntry(tuple(sets), i + 1, name, data))
        return list(entries.values())

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
