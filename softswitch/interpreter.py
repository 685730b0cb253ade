"""The readable oracle: runs a program's IR packet by packet in plain Python, with BMv2's arithmetic."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from softswitch import ir
from softswitch.errors import EntryExists, EntryMissing, StateError, TableFull
from softswitch.pipeline import ActionCall, Change, CounterValue, EntryWrite, Output

BINARY: dict[ir.Op, Callable[[int, int], int]] = {
    ir.Op.ADD: operator.add,
    ir.Op.SUB: operator.sub,
    ir.Op.MUL: operator.mul,
    ir.Op.SHL: operator.lshift,
    ir.Op.SHR: operator.rshift,
    ir.Op.AND: operator.and_,
    ir.Op.OR: operator.or_,
    ir.Op.XOR: operator.xor,
    ir.Op.EQ: operator.eq,
    ir.Op.NE: operator.ne,
    ir.Op.LT: operator.lt,
    ir.Op.GT: operator.gt,
    ir.Op.LE: operator.le,
    ir.Op.GE: operator.ge,
}


class _ParserError(Exception):
    pass


@dataclass
class _Entry:
    invocation: ir.Invocation
    packets: int = 0
    bytes: int = 0


@dataclass
class _TableState:
    """Entries by key and rank."""

    default: ir.Invocation
    entries: dict[tuple[tuple[ir.Match, ...], int], _Entry] = field(default_factory=dict)


@dataclass
class _Packet:
    """The parsed representation of one packet."""

    ingress_length: int
    length: int
    fields: list[list[int]]
    valid: list[bool]
    next_index: list[int]
    args: tuple[int, ...] = ()
    exited: bool = False


class InterpretedPipeline:
    """A `Pipeline` in plain Python."""

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self._tables = {name: _TableState(table.default) for name, table in program.tables.items()}
        for name, table in program.tables.items():
            for entry in table.const_entries:
                place = entry.key, table.rank(entry.key, entry.priority)
                self._tables[name].entries[place] = _Entry(entry.invocation)
        self._counters = [[[0, 0] for _ in range(counter.size)] for counter in program.counters]
        self._registers = [[0] * register.size for register in program.registers]
        self._counter_index = {counter.name: i for i, counter in enumerate(program.counters)}
        self._register_index = {register.name: i for i, register in enumerate(program.registers)}

    # -- packets

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        """Run one frame through parser, ingress, egress and deparser (`Pipeline.process`)."""
        program = self.program
        packet = _Packet(
            ingress_length=len(frame),
            length=len(frame),
            fields=[[0] * len(header.fields) for header in program.headers],
            valid=[False] * len(program.headers),
            next_index=[0] * len(program.stacks),
        )
        self._set(packet, program.standard("ingress_port"), port)
        self._set(packet, program.standard("packet_length"), len(frame))
        self._set(packet, program.standard("ingress_global_timestamp"), t_in)
        consumed = self._parse(packet, frame)
        wrong = any(not self._checksum_matches(packet, checksum) for checksum in program.verify)
        self._set(packet, program.standard("checksum_error"), int(wrong))

        self._run(packet, program.ingress)
        egress_port = self._get(packet, program.standard("egress_spec"))
        if self._get(packet, program.standard("mcast_grp")):
            raise StateError("a packet asked for a multicast group; multicast is not supported by softswitch")
        if egress_port == ir.DROP_PORT:
            return []

        self._set(packet, program.standard("instance_type"), 0)
        self._set(packet, program.standard("egress_port"), egress_port)
        self._set(packet, program.standard("egress_spec"), 0)
        self._set(packet, program.standard("egress_global_timestamp"), now)
        self._set(packet, program.standard("packet_length"), packet.length)
        self._run(packet, program.egress)
        if self._get(packet, program.standard("egress_spec")) == ir.DROP_PORT:
            return []
        for checksum in program.update:
            if packet.valid[checksum.target.header] and self._evaluate(packet, checksum.condition):
                self._set(packet, checksum.target, self._csum16(packet, checksum))
        return [Output(egress_port, self._deparse(packet) + frame[consumed:])]

    def _get(self, packet: _Packet, ref: ir.FieldRef) -> int:
        return packet.fields[ref.header][ref.field]

    def _set(self, packet: _Packet, ref: ir.FieldRef, value: int) -> None:
        packet.fields[ref.header][ref.field] = value & ((1 << self.program.width(ref)) - 1)

    def _header_bytes(self, header: int) -> int:
        return self.program.headers[header].bits // 8

    # -- parser

    def _parse(self, packet: _Packet, frame: bytes) -> int:
        """Run the parser; how many bytes it took. An error leaves what was parsed so far (as BMv2 does)."""
        cursor = 0
        state: int | None = self.program.start_state
        error = "NoError"
        try:
            while state is not None:
                current = self.program.parser[state]
                for operation in current.operations:
                    if isinstance(operation, ir.Assign):
                        self._set(packet, operation.target, self._evaluate(packet, operation.value))
                    else:
                        cursor = self._extract(packet, frame, cursor, operation)
                state = self._select(packet, current)
        except _ParserError as raised:
            error = str(raised)
        self._set(packet, self.program.standard("parser_error"), self.program.errors[error])
        return cursor

    def _extract(self, packet: _Packet, frame: bytes, cursor: int, operation: ir.Extract) -> int:
        if operation.stack is not None:
            elements = self.program.stacks[operation.stack].headers
            if packet.next_index[operation.stack] == len(elements):
                raise _ParserError("StackOutOfBounds")
            header = elements[packet.next_index[operation.stack]]
        else:
            assert operation.header is not None
            header = operation.header
        size = self._header_bytes(header)
        if len(frame) - cursor < size:
            raise _ParserError("PacketTooShort")
        bits = int.from_bytes(frame[cursor : cursor + size], "big")
        offset = size * 8
        for index, declared in enumerate(self.program.headers[header].fields):
            offset -= declared.width
            packet.fields[header][index] = (bits >> offset) & ((1 << declared.width) - 1)
        packet.valid[header] = True
        if operation.stack is not None:
            packet.next_index[operation.stack] += 1
        return cursor + size

    def _select(self, packet: _Packet, state: ir.ParserState) -> int | None:
        key = 0
        for ref in state.key:
            key = key << (-(-self.program.width(ref) // 8) * 8) | self._get(packet, ref)
        for case in state.cases:
            if key & case.mask == case.value:
                return case.state
        return None

    # -- controls

    def _run(self, packet: _Packet, control: ir.Control) -> None:
        name = control.start
        packet.exited = False
        while name is not None and not packet.exited:
            node = control.nodes[name]
            if isinstance(node, ir.Conditional):
                name = node.if_true if self._evaluate(packet, node.condition) else node.if_false
            else:
                name = self._apply(packet, node)

    def _apply(self, packet: _Packet, table: ir.Table) -> str | None:
        state = self._tables[table.name]
        entry = self._look_up(packet, table, state) if table.key else None
        if entry is not None:
            entry.packets += 1
            entry.bytes += packet.ingress_length
        invocation = entry.invocation if entry else state.default
        self._execute(packet, invocation)
        if table.branches_on_hit:
            return table.next_on_hit if entry else table.next_on_miss
        return table.next_nodes[invocation.action]

    def _look_up(self, packet: _Packet, table: ir.Table, state: _TableState) -> _Entry | None:
        """The matching entry of the highest rank."""
        values = tuple(self._evaluate(packet, part.source) for part in table.key)
        if table.is_exact:
            return state.entries.get((values, 1))
        matching = [
            (rank, entry)
            for (key, rank), entry in state.entries.items()
            if all(_matches(match, value) for match, value in zip(key, values, strict=True))
        ]
        return max(matching, key=lambda found: found[0])[1] if matching else None

    def _execute(self, packet: _Packet, invocation: ir.Invocation) -> None:
        packet.args = invocation.args
        for statement in self.program.actions[invocation.action].body:
            self._statement(packet, statement)

    def _statement(self, packet: _Packet, statement: ir.Statement) -> None:
        match statement:
            case ir.Assign(target, value):
                self._set(packet, target, self._evaluate(packet, value))
            case ir.SetValid(header):
                if not packet.valid[header]:
                    packet.fields[header] = [0] * len(packet.fields[header])
                    packet.length += self._header_bytes(header)
                packet.valid[header] = True
            case ir.SetInvalid(header):
                if packet.valid[header]:
                    packet.length -= self._header_bytes(header)
                packet.valid[header] = False
            case ir.Shift(stack, count):
                self._shift(packet, stack, count)
            case ir.Count(counter, index):
                self._count(packet, counter, self._evaluate(packet, index))
            case ir.RegisterRead(target, register, index):
                cell = self._evaluate(packet, index)
                if cell < len(self._registers[register]):
                    self._set(packet, target, self._registers[register][cell])
            case ir.RegisterWrite(register, index, value):
                cell = self._evaluate(packet, index)
                if cell < len(self._registers[register]):
                    mask = (1 << self.program.registers[register].width) - 1
                    self._registers[register][cell] = self._evaluate(packet, value) & mask
            case ir.MarkToDrop():
                self._set(packet, self.program.standard("egress_spec"), ir.DROP_PORT)
                self._set(packet, self.program.standard("mcast_grp"), 0)
            case ir.Exit():
                packet.exited = True

    def _shift(self, packet: _Packet, stack: int, count: int) -> None:
        """push_front / pop_front as P4_16 §8.18 says; values move with validity."""
        elements = self.program.stacks[stack].headers
        size = len(elements)
        fields = [packet.fields[header] for header in elements]
        valid = [packet.valid[header] for header in elements]
        for position, header in enumerate(elements):
            source = position - count
            inside = 0 <= source < size
            packet.fields[header] = list(fields[source]) if inside else [0] * len(fields[position])
            packet.valid[header] = valid[source] if inside else False
        packet.next_index[stack] = min(max(packet.next_index[stack] + count, 0), size)

    def _count(self, packet: _Packet, counter: int, index: int) -> None:
        cells = self._counters[counter]
        if index < len(cells):
            cells[index][0] += 1
            cells[index][1] += packet.ingress_length

    # -- expressions

    def _evaluate(self, packet: _Packet, expression: ir.Expression) -> int:
        match expression:
            case ir.Constant(value):
                return value
            case ir.FieldRef(header, index):
                return packet.fields[header][index]
            case ir.IsValid(header):
                return int(packet.valid[header])
            case ir.Parameter(index, _):
                return packet.args[index]
            case ir.Unary(ir.Op.NOT, operand):
                return int(not self._evaluate(packet, operand))
            case ir.Unary(_, operand):
                return ~self._evaluate(packet, operand)
            case ir.Binary(ir.Op.BOOL_AND, left, right):
                return int(bool(self._evaluate(packet, left)) and bool(self._evaluate(packet, right)))
            case ir.Binary(ir.Op.BOOL_OR, left, right):
                return int(bool(self._evaluate(packet, left)) or bool(self._evaluate(packet, right)))
            case ir.Binary(op, left, right):
                return int(BINARY[op](self._evaluate(packet, left), self._evaluate(packet, right)))
            case ir.Ternary(condition, left, right):
                return self._evaluate(packet, left if self._evaluate(packet, condition) else right)

    # -- checksums and deparser

    def _csum16(self, packet: _Packet, checksum: ir.Checksum) -> int:
        bits = 0
        for part, width in zip(checksum.inputs, checksum.input_widths, strict=True):
            bits = bits << width | self._evaluate(packet, part)
        width = sum(checksum.input_widths)
        if width % 16:
            bits, width = bits << 8, width + 8
        total = 0
        for shift in range(0, width, 16):
            total += bits >> shift & 0xFFFF
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        return ~total & 0xFFFF

    def _checksum_matches(self, packet: _Packet, checksum: ir.Checksum) -> bool:
        if not packet.valid[checksum.target.header] or not self._evaluate(packet, checksum.condition):
            return True
        return self._csum16(packet, checksum) == self._get(packet, checksum.target)

    def _deparse(self, packet: _Packet) -> bytes:
        out = bytearray()
        for header in self.program.deparser:
            if packet.valid[header]:
                bits = 0
                for value, declared in zip(
                    packet.fields[header], self.program.headers[header].fields, strict=True
                ):
                    bits = bits << declared.width | value
                out += bits.to_bytes(self._header_bytes(header), "big")
        return bytes(out)

    # -- control plane

    def write_entries(self, writes: Sequence[EntryWrite]) -> list[Exception | None]:
        """Apply writes in order (`Pipeline.write_entries`)."""
        return [self._write(write) for write in writes]

    def _write(self, write: EntryWrite) -> Exception | None:
        table = self.program.tables[write.table]
        entries = self._tables[write.table].entries
        place = write.key, table.rank(write.key, write.priority)
        exists = place in entries
        if write.change is Change.INSERT and exists:
            return EntryExists(f"table {write.table} has an entry {write.key} already")
        if write.change is not Change.INSERT and not exists:
            return EntryMissing(f"table {write.table} has no entry {write.key}")
        if write.change is Change.DELETE:
            del entries[place]
            return None
        if write.change is Change.INSERT and len(entries) >= table.size:
            return TableFull(f"table {write.table} is full: it holds its {table.size} entries")
        assert write.action is not None
        invocation = self.program.invocation(table, write.action.name, write.action.args)
        entry = entries.setdefault(place, _Entry(invocation))
        entry.invocation = invocation
        return None

    def set_default(self, table: str, action: ActionCall | None) -> None:
        """Replace or restore a table's default action (`Pipeline.set_default`)."""
        declared = self.program.tables[table]
        self._tables[table].default = (
            declared.default
            if action is None
            else self.program.invocation(declared, action.name, action.args)
        )

    def entry_counter(self, table: str, key: tuple[ir.Match, ...], priority: int = 0) -> CounterValue:
        """Read an entry's direct counter (`Pipeline.entry_counter`)."""
        entry = self._entry(table, key, priority)
        return CounterValue(entry.packets, entry.bytes)

    def set_entry_counter(
        self, table: str, key: tuple[ir.Match, ...], value: CounterValue, priority: int = 0
    ) -> None:
        """Write an entry's direct counter (`Pipeline.set_entry_counter`)."""
        entry = self._entry(table, key, priority)
        entry.packets, entry.bytes = value

    def _entry(self, table: str, key: tuple[ir.Match, ...], priority: int) -> _Entry:
        place = key, self.program.tables[table].rank(key, priority)
        entry = self._tables[table].entries.get(place)
        if entry is None:
            raise EntryMissing(f"table {table} has no entry {key}")
        return entry

    def read_counter(self, name: str, start: int, stop: int) -> list[CounterValue]:
        """Read counter cells (`Pipeline.read_counter`)."""
        return [CounterValue(*cell) for cell in self._counters[self._counter_index[name]][start:stop]]

    def write_counter(self, name: str, index: int, value: CounterValue) -> None:
        """Write a counter cell (`Pipeline.write_counter`)."""
        self._counters[self._counter_index[name]][index] = list(value)

    def read_register(self, name: str, start: int, stop: int) -> list[int]:
        """Read register cells (`Pipeline.read_register`)."""
        return self._registers[self._register_index[name]][start:stop]

    def write_register(self, name: str, index: int, value: int) -> None:
        """Write a register cell (`Pipeline.write_register`)."""
        self._registers[self._register_index[name]][index] = value


def _matches(match: ir.Match, value: int) -> bool:
    match match:
        case ir.Masked(wanted, mask):
            return value & mask == wanted
        case ir.Between(low, high):
            return low <= value <= high
    return value == match
