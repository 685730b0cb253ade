"""Entries and frames that meet: frames follow the parser, and entries match keys that missed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from random import Random

from softswitch import ir
from softswitch.pipeline import Change, ControlPlane, EntryAction, EntryKey, EntryWrite
from switch_harness.p4rt_drawer import P4RuntimeDrawer
from switch_harness.state import Write

PORTS = (1, 2, 3, 7)
_PORT_BITS = 9
_VALUES = 4
MAX_ENTRIES = 16
"""Entries of a table that are drawn for keys that missed."""
_STEPS = 40
_LIKELY = 0.85
_DROPS = re.compile("drop|deny", re.IGNORECASE)


class Palette:
    """A few numbers for each width, among them constants of the program's selects and entries."""

    def __init__(self, prepared: ControlPlane, random: Random) -> None:
        program = prepared.program
        self._random = random
        self._values: dict[int, list[int]] = {_PORT_BITS: list(PORTS)}
        self._constants: dict[int, set[int]] = {}
        for state in program.parser:
            for case in state.cases:
                for part, value, _ in _parts(program, state, case):
                    self._constants.setdefault(_width(program, part), set()).add(value)
        for table in program.tables.values():
            for entry in prepared.tables.read(table.name):
                for field, match in zip(table.key, entry.key, strict=True):
                    value = match if isinstance(match, int) else match[0]
                    self._constants.setdefault(field.width, set()).add(value)

    def draw(self, width: int) -> int:
        if width not in self._values:
            ones, random = (1 << width) - 1, self._random
            known = sorted(self._constants.get(width, ()))
            made = {1 & ones, 2 & ones, random.getrandbits(max(width, 1)) & ones}
            self._values[width] = [*random.sample(known, min(len(known), _VALUES)), *sorted(made)][:6]
        return self._random.choice(self._values[width])


class LikelyDrawer(P4RuntimeDrawer):
    """Draws entries of keys that frames of a `PathFrames` had, with numbers of the same palette."""

    def __init__(
        self, prepared: ControlPlane, random: Random, palette: Palette, tables: Collection[str]
    ) -> None:
        """`tables` are those that P4Info has."""
        self._palette, self._tables = palette, tables
        super().__init__(prepared, random)

    def number(self, width: int) -> int:
        return self._palette.draw(width) if self.random.random() < _LIKELY else super().number(width)

    def entry_for_one_of(self, missed: Sequence[tuple[ir.Table, tuple[int, ...]]]) -> Write | None:
        """Draw an entry that matches one of these keys; None if their tables take no more."""
        shuffled = self.random.sample(missed, len(missed))
        return next((entry for each in shuffled if (entry := self._entry_for(*each))), None)

    def _entry_for(self, table: ir.Table, key: Sequence[int]) -> Write | None:
        mine = [entry for entry in self.entries if entry.table == table.name]
        room = min(MAX_ENTRIES, self.most_entries(table), table.size)
        if table.name not in self._tables or table.is_immutable or len(mine) >= room:
            return None
        matches = tuple(self._match_of(part, value) for part, value in zip(table.key, key, strict=True))
        action = self.action(table)
        if action is None or any(entry.key == matches for entry in mine):
            return None
        write = EntryWrite(Change.INSERT, table.name, matches, action, self.priority(table))
        return lambda pipeline: self._insert(pipeline, write)

    def _insert(self, pipeline: ControlPlane, write: EntryWrite) -> None:
        if pipeline.tables.write([write]) == [None]:
            self.entries.append(EntryKey(write.table, write.key, write.priority))

    def take_back(self, pipeline: ControlPlane) -> None:
        entry = self.entries.pop()
        pipeline.tables.write([EntryWrite(Change.DELETE, entry.table, entry.key, None, entry.priority)])

    def _match_of(self, part: ir.KeyField, value: int) -> ir.Match:
        ones, is_whole = (1 << part.width) - 1, self.random.random() < 0.5
        match part.kind:
            case ir.MatchKind.EXACT:
                return value
            case ir.MatchKind.LPM:
                length = part.width if is_whole else self.random.randrange(part.width + 1)
                mask = ones & ~(ones >> length)
                return ir.Masked(value & mask, mask)
            case ir.MatchKind.RANGE:
                return ir.RangeMatch(value, value) if is_whole else ir.RangeMatch(0, ones)
        return ir.Masked(value, ones) if is_whole else ir.Masked(0, 0)

    def changeable(self) -> list[ir.Table]:
        return [table for table in super().changeable() if table.name in self._tables]

    def action(self, table: ir.Table) -> EntryAction | None:
        """Draw an action, rarely one that is called a drop, and none that is most often default only."""
        if table.profile is not None:
            member_or_group: EntryAction | None = super().action(table)
            return member_or_group
        actions = [self.program.actions[index] for index in table.actions]
        actions = [action for action in actions if action.name != "NoAction"] or actions
        others = [action for action in actions if not _DROPS.search(action.name)]
        return self.call(others if others and self.random.random() < _LIKELY else actions)


class PathFrames:
    """Frames along random paths of the parser, whose other fields are of the palette."""

    def __init__(self, program: ir.Program, random: Random, palette: Palette) -> None:
        self._program, self._random, self._palette = program, random, palette

    def draw(self) -> tuple[int, bytes]:
        """Return a port and a frame of 64 bytes or more, whose IPv4 checksum is most often right."""
        walk = _Walk(self._program, self._random, self._palette)
        walk.run()
        frame = walk.frame()
        frame += self._random.randbytes(max(self._random.randrange(40), 64 - len(frame)))
        return self._random.choice(PORTS), frame


class _Walk:
    def __init__(self, program: ir.Program, random: Random, palette: Palette) -> None:
        self._program, self._random, self._palette = program, random, palette
        self._bits: list[int] = []
        self._forced: dict[int, int] = {}  # by the position of the bit
        self._at: dict[ir.FieldRef, int] = {}
        self._elements: dict[int, int] = {}
        self._checksums: list[int] = []

    def run(self) -> None:
        number: int | None = self._program.start_state
        for _ in range(_STEPS):
            if number is None:
                return
            state = self._program.parser[number]
            for operation in state.operations:
                if isinstance(operation, ir.Extract):
                    self._extract(operation)
            if not state.cases:
                return
            chosen = self._random.choice(state.cases)
            for part, value, mask in _parts(self._program, state, chosen):
                self._force(part, value, mask)
            number = chosen.state

    def _extract(self, extract: ir.Extract) -> None:
        header = extract.header
        if extract.stack is not None:
            elements = self._program.stacks[extract.stack].headers
            header = elements[min(self._elements.get(extract.stack, 0), len(elements) - 1)]
            self._elements[extract.stack] = self._elements.get(extract.stack, 0) + 1
        assert header is not None
        fields = self._program.headers[header].fields
        start = len(self._bits)
        for number, field in enumerate(fields):
            if field.varbit:
                continue
            self._at[ir.FieldRef(header, number)] = len(self._bits)
            value = self._palette.draw(field.width) if field.width else 0
            if self._random.random() > _LIKELY:
                value = self._random.getrandbits(field.width) if field.width else 0
            self._bits += [value >> bit & 1 for bit in reversed(range(field.width))]
        if [field.width for field in fields[:2]] == [4, 4] and start % 8 == 0:
            self._write(start, 8, 0x45)
            self._checksums.append(start // 8)
        elif fields and fields[0].width == 4:
            self._write(start, 4, 6)

    def _force(self, part: ir.KeyPart, value: int, mask: int) -> None:
        width = _width(self._program, part)
        start: int | None = None
        if isinstance(part, ir.Lookahead):
            start = len(self._bits) + part.offset
        elif isinstance(part, ir.FieldRef):
            start = self._at.get(part)
        if start is not None:
            self._write(start, width, value, mask)

    def _write(self, start: int, width: int, value: int, mask: int = -1) -> None:
        for bit in range(width):
            if mask >> bit & 1:
                self._forced[start + width - 1 - bit] = value >> bit & 1

    def frame(self) -> bytes:
        length = max([len(self._bits), *(position + 1 for position in self._forced)])
        bits = self._bits + [0] * (-(-length // 8) * 8 - len(self._bits))
        for position, bit in self._forced.items():
            bits[position] = bit
        frame = bytearray(int("".join(map(str, bits)) or "0", 2).to_bytes(len(bits) // 8, "big"))
        for start in self._checksums:
            header = frame[start : start + 20]
            if len(header) == 20 and self._random.random() < _LIKELY:
                header[10:12] = b"\0\0"
                total = sum(int.from_bytes(header[i : i + 2], "big") for i in range(0, 20, 2))
                total = (total & 0xFFFF) + (total >> 16)
                total = (total & 0xFFFF) + (total >> 16)
                frame[start + 10 : start + 12] = (total ^ 0xFFFF).to_bytes(2, "big")
        return bytes(frame)


def _parts(
    program: ir.Program, state: ir.ParserState, case: ir.Case
) -> Iterator[tuple[ir.KeyPart, int, int]]:
    """Yield each part of a state's key with the value and the mask that a case asks of it."""
    shift = 0
    for part in reversed(state.key):
        width = _width(program, part)
        ones = (1 << width) - 1
        yield part, case.value >> shift & ones, case.mask >> shift & ones
        shift += -(-width // 8) * 8


def _width(program: ir.Program, part: ir.KeyPart) -> int:
    if isinstance(part, ir.Lookahead):
        return part.width
    if isinstance(part, ir.ElementField):
        return program.headers[program.stacks[part.element.stack].headers[0]].fields[part.field].width
    return program.width(part)
