"""Coverage of a program: the tables, actions and parser states that packets have reached."""

from __future__ import annotations

from softswitch import ir
from softswitch.explain.folding import fold_names
from softswitch.explain.record import Recorder
from softswitch.interpreter.packet import Packet
from softswitch.ir.names import source_name
from softswitch.pipeline import EntryKey

Place = tuple[str, str]
"""Kind and name: a parser state, a table that hit or missed, or an action by its table."""
PARSER_STATE, TABLE, ACTION = "parser state", "table", "action"


class Coverage:
    """All places of one program, and those that packets have reached."""

    def __init__(self, program: ir.Program) -> None:
        self.places = _list_places(program)
        self.reached: set[Place] = set()

    @property
    def missed(self) -> list[Place]:
        return [place for place in self.places if place not in self.reached]

    def merge(self, other: Coverage) -> None:
        """Add the places that another run of the same program has reached."""
        self.reached |= other.reached

    def report(self) -> list[str]:
        """Return a line for each kind of place with its share, and one for each place that was missed."""
        lines = []
        for kind in dict.fromkeys(kind for kind, _ in self.places):
            names = [name for place_kind, name in self.places if place_kind == kind]
            missed = [name for place_kind, name in self.missed if place_kind == kind]
            lines.append(f"{kind}s: {len(names) - len(missed)} of {len(names)}")
            lines += [f"  missed: {name}" for name in fold_names(missed)]
        return lines


def _list_places(program: ir.Program) -> list[Place]:
    states = dict.fromkeys(source_name(state.name) for state in program.parser)
    places = [(PARSER_STATE, name) for name in states]
    tables = program.tables.values()
    places += [
        (TABLE, f"{table.name} {result}") for table in tables if table.key for result in ("hit", "miss")
    ]
    actions = (_describe_action(program, table, index) for table in tables for index in table.actions)
    return places + [(ACTION, name) for name in dict.fromkeys(actions)]


def _describe_action(program: ir.Program, table: ir.Table, action: int) -> str:
    if not source_name(table.name):  # which the compiler has made
        return f"statements at {table.location}"
    return f"{program.actions[action].name} of {table.name}"


class CoverageRecorder(Recorder):
    def __init__(self, program: ir.Program) -> None:
        super().__init__(program)
        self.coverage = Coverage(program)

    def reached(self, packet: Packet, state: int) -> None:
        self.coverage.reached.add((PARSER_STATE, source_name(self._program.parser[state].name)))
        super().reached(packet, state)

    def looked_up(
        self, packet: Packet, table: ir.Table, key: tuple[int, ...], entry: EntryKey | None
    ) -> None:
        self.coverage.reached.add((TABLE, f"{table.name} {'miss' if entry is None else 'hit'}"))
        super().looked_up(packet, table, key, entry)

    def applies(self, packet: Packet, table: ir.Table, invocation: ir.Invocation | None) -> None:
        if invocation is not None:
            self.coverage.reached.add((ACTION, _describe_action(self._program, table, invocation.action)))
        super().applies(packet, table, invocation)
