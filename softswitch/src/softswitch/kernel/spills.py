"""Move what LLVM keeps on the stack to the CPU's area of the arena, if BPF's stack of 512 bytes is too small.

LLVM may use a larger stack (`compiler.STACK_BYTES`). What does not fit is in the entry function, into which
LLVM inlines nearly everything. The verifier knows the types of values on the stack, but takes all that is
loaded from the arena for numbers. So a slot stays on the stack if it may hold an address of a frame, a map or
the context; an address in the arena is cast again when it is loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise

from softswitch.kernel.arena import AREA_OF, MAX_CPUS
from softswitch.kernel.instructions import (
    ADD,
    CALL,
    EXIT,
    JUMP,
    JUMP_CLASSES,
    LOAD,
    LONG_JUMP,
    MOVE,
    STORE,
    WIDE_LOAD,
    AssemblyError,
    Instruction,
    decode,
    encode,
    instruction,
)
from softswitch.kernel.target import ARENA_MAP, GET_SMP_PROCESSOR_ID, MAP_VALUE

STACK = 512
_SLOT = 8
_FRAME_POINTER = 10
_FRAME_UNIT = 32  # the verifier rounds each function's part of the stack up
_LD, _LDX, _ST, _STX, _ALU, _ALU64 = 0, 1, 2, 3, 4, 7  # classes of instructions
_ADD, _SUB, _MOVE = 0x00, 0x10, 0xB0  # operations of the last two
_REGISTER_OPERAND = 0x08
_SIZES = {0x00: 4, 0x08: 2, 0x10: 1, 0x18: 8}
_ATOMIC = 0xC0
_CAST_TO_ARENA = 1  # offset and immediate of a move that casts from LLVM's address space 1 to 0


class _Type(Enum):
    NUMBER = auto()
    ARENA = auto()
    """An address in the arena that loads and stores may use."""
    OTHER = auto()
    """Any other address, or a value whose type depends on the path to the instruction."""


_State = dict[int, _Type]
"""Types of registers (from 0), and of slots by their offset from the frame pointer (below 0)."""


def move_spills(code: bytes, area_offset: int) -> tuple[bytes, int]:
    """Return code that fits on BPF's stack, and the size in bytes of its spills, at `area_offset` of an area.

    Raises AssemblyError if too much must be on the stack.
    """
    instructions = decode(code)
    starts = sorted({0, *_callees(instructions)})
    functions = [instructions[a:b] for a, b in zip(starts, [*starts[1:], len(instructions)], strict=True)]
    by_start = dict(zip(starts, functions, strict=True))
    room = STACK - max((_depth(by_start, start) for start in _callees(functions[0])), default=0)
    if _frame_bytes(functions[0]) <= room:
        return code, 0
    function = _Function(instructions, len(functions[0]))
    places = function.place(room)
    groups = [function.rewrite(position, places, area_offset) for position in range(function.size)]
    groups += [[each] for each in instructions[function.size :]]
    return encode(groups), places.area_bytes


def _callees(function: Sequence[Instruction]) -> set[int]:
    return {each.target for each in function if each.is_local_call and each.target is not None}


def _depth(functions: Mapping[int, Sequence[Instruction]], start: int) -> int:
    """Return the bytes of stack that a function needs with those that it calls."""
    callee_bytes = max((_depth(functions, each) for each in _callees(functions[start])), default=0)
    return -(-_frame_bytes(functions[start]) // _FRAME_UNIT) * _FRAME_UNIT + callee_bytes


def _frame_bytes(function: Sequence[Instruction]) -> int:
    return -min((offset for each in function for offset in _frame_offsets(each)), default=0)


def _frame_offsets(each: Instruction) -> Iterator[int]:
    if _accesses_frame(each):
        yield each.offset


def _accesses_frame(each: Instruction) -> bool:
    is_load = each.kind == _LDX and each.src == _FRAME_POINTER
    return is_load or (each.kind in (_ST, _STX) and each.dst == _FRAME_POINTER)


def _slot_of(offset: int) -> int:
    return offset // _SLOT * _SLOT


@dataclass(frozen=True)
class _Places:
    """New offsets of slots: from the frame pointer (`stack`), and from where the spills begin (`area`)."""

    stack: dict[int, int]
    area: dict[int, int]
    address: int
    """Offset on the stack of the spills' address."""
    scratch: int
    """Offset on the stack of a register's value while the register holds that address."""

    @property
    def area_bytes(self) -> int:
        return -(-len(self.area) * _SLOT // 16) * 16


class _Function:
    """The entry function, the first `size` instructions."""

    def __init__(self, instructions: Sequence[Instruction], size: int) -> None:
        self._code, self.size = instructions, size
        self._wide_load_ends = {i + 1 for i in range(size) if instructions[i].opcode == WIDE_LOAD}
        self._address_slots = {
            i + 1: _slot_of(instructions[i + 1].immediate)
            for i in range(size)
            if instructions[i].opcode == MOVE and instructions[i].src == _FRAME_POINTER
        }
        """Slots whose address is taken, by the position of the instruction that adds their offset."""
        for position in self._address_slots:
            if instructions[position].opcode != ADD:
                raise AssemblyError("LLVM takes an address on the stack in an unexpected way")
        self._blocks = self._find_blocks()
        self._accessed_types = self._find_accessed_types()
        """Type of the value that each access to the stack loads or stores, by position."""
        self._live = self._find_live()

    def place(self, room: int) -> _Places:
        """Place the slots: as many addresses as fit on the stack, all others in the arena."""
        # The verifier follows each combination of the numbers that it knows on the stack, and refuses a
        # program that takes a million steps. It knows no numbers in the arena.
        uses: Counter[int] = Counter()
        fixed, numbers = set(self._address_slots.values()), set()
        for position in range(self.size):
            each = self._code[position]
            if position in self._wide_load_ends or not _accesses_frame(each):
                continue
            slot = _slot_of(each.offset)
            uses[slot] += 1
            accessed_type = self._accessed_types.get(position)
            if accessed_type is _Type.NUMBER:
                numbers.add(slot)
            elif accessed_type is _Type.OTHER:
                fixed.add(slot)
        free_slots = room // _SLOT - 2
        if len(fixed) > free_slots:
            raise AssemblyError(
                f"the program needs more addresses at once than fit on BPF's stack of {STACK} bytes"
            )
        addresses = sorted(uses.keys() - fixed - numbers, key=lambda slot: (-uses[slot], slot))
        stack_slots = [*sorted(fixed), *addresses][:free_slots]
        area_slots = sorted(uses.keys() - set(stack_slots))
        stack = {slot: -_SLOT * (number + 3) for number, slot in enumerate(stack_slots)}
        area = {slot: _SLOT * number for number, slot in enumerate(area_slots)}
        return _Places(stack, area, -_SLOT, -2 * _SLOT)

    def rewrite(self, position: int, places: _Places, area_offset: int) -> list[Instruction]:
        each = self._code[position]
        before = _prologue(places, area_offset) if position == 0 else []
        if position in self._wide_load_ends:
            return [each]
        if position in self._address_slots:
            each.immediate = places.stack[_slot_of(each.immediate)] + each.immediate % _SLOT
        if not _accesses_frame(each):
            return [*before, each]
        slot, within = _slot_of(each.offset), each.offset % _SLOT
        if slot in places.stack:
            each.offset = places.stack[slot] + within
            return [*before, each]
        each.offset = places.area[slot] + within
        if each.kind == _LDX:
            return [*before, *self._load(position, each, places)]
        return [*before, *self._store(position, each, places)]

    def _load(self, position: int, each: Instruction, places: _Places) -> list[Instruction]:
        is_address = self._accessed_types.get(position) is _Type.ARENA and _is_whole(each)
        each.registers = each.dst << 4 | each.dst
        address = instruction(LOAD, each.dst, _FRAME_POINTER, places.address)
        return [address, each, *([_cast(each.dst)] if is_address else [])]

    def _store(self, position: int, each: Instruction, places: _Places) -> list[Instruction]:
        value = each.src if each.kind == _STX else None
        dead = [r for r in range(10) if r != value and not self._live[position] >> r & 1]
        # If all are live, r6 to r9 hold values; r0 to r5 may be unreadable, since calls clobber them.
        base = dead[0] if dead else next(r for r in range(6, 10) if r != value)
        each.registers = each.src << 4 | base
        store = [instruction(LOAD, base, _FRAME_POINTER, places.address), each]
        if dead:
            return store
        return [
            instruction(STORE, _FRAME_POINTER, base, places.scratch),
            *store,
            instruction(LOAD, base, _FRAME_POINTER, places.scratch),
        ]

    # -- data flow

    def _find_blocks(self) -> dict[int, range]:
        """Return the basic blocks by their first position."""
        starts = {0, self.size}
        for position in range(self.size):
            each = self._code[position]
            if position in self._wide_load_ends or each.is_local_call:
                continue
            if each.target is not None or each.opcode == EXIT:
                starts |= {position + 1} if each.target is None else {position + 1, each.target}
        ordered = sorted(starts)
        return {a: range(a, b) for a, b in pairwise(ordered)}

    def _successors(self, block: range) -> list[int]:
        last = self._code[block[-1]]
        if block[-1] in self._wide_load_ends or last.is_local_call or last.target is None:
            return [] if last.opcode == EXIT and block[-1] not in self._wide_load_ends else [block.stop]
        return [last.target] if last.opcode in (JUMP, LONG_JUMP) else [block.stop, last.target]

    def _find_accessed_types(self) -> dict[int, _Type]:
        before: dict[int, _State] = {}
        types: dict[int, _Type] = {}
        worklist: list[tuple[int, _State]] = [(0, {1: _Type.OTHER, _FRAME_POINTER: _Type.OTHER})]
        while worklist:
            start, incoming = worklist.pop()
            if start in before and not _widen(before[start], incoming):
                continue
            state = dict(before.setdefault(start, dict(incoming)))
            block = self._blocks[start]
            for position in block:
                each = self._code[position]
                if position in self._wide_load_ends:
                    continue
                if _accesses_frame(each):
                    types[position] = _accessed_type(each, state)
                _execute(each, state)
            worklist += [(following, state) for following in self._successors(block)]
        return types

    def _find_live(self) -> dict[int, int]:
        """Return the registers whose values are read after each store to the stack, as bits."""
        before: dict[int, int] = dict.fromkeys(self._blocks, 0)
        after: dict[int, int] = {}
        changed = True
        while changed:
            changed = False
            for start, block in reversed(self._blocks.items()):
                live = 0
                for following in self._successors(block):
                    live |= before[following]
                for position in reversed(block):
                    if position in self._wide_load_ends:
                        continue
                    after[position] = live
                    used, defined = _registers(self._code[position])
                    live = used | live & ~defined
                if live != before[start]:
                    before[start], changed = live, True
        return after


def _prologue(places: _Places, area_offset: int) -> list[Instruction]:
    """Return the instructions that put the spills' address on the stack; only r1 has a value before them."""
    return [
        instruction(MOVE, 6, 1),
        instruction(CALL, immediate=GET_SMP_PROCESSOR_ID),
        instruction(0x57, 0, immediate=MAX_CPUS - 1),  # and
        instruction(0x67, 0, immediate=3),  # shift left
        instruction(WIDE_LOAD, 2, MAP_VALUE, immediate=ARENA_MAP),
        instruction(0),
        instruction(0x0F, 0, 2),  # add
        _cast(0),
        instruction(LOAD, 0, 0, AREA_OF),
        instruction(0x0F, 2, 0),
        instruction(ADD, 2, immediate=area_offset),
        _cast(2),
        instruction(STORE, _FRAME_POINTER, 2, places.address),
        instruction(MOVE, 1, 6),
    ]


def _cast(register: int) -> Instruction:
    return instruction(MOVE, register, register, _CAST_TO_ARENA, _CAST_TO_ARENA)


def _is_whole(each: Instruction) -> bool:
    return _SIZES[each.opcode & 0x18] == _SLOT


def _accessed_type(each: Instruction, state: _State) -> _Type:
    """Return the type of the value that an access to the stack loads or stores."""
    if each.kind == _ST or not _is_whole(each):
        return _Type.NUMBER
    return state.get(_slot_of(each.offset) if each.kind == _LDX else each.src, _Type.NUMBER)


def _widen(merged: _State, new: _State) -> bool:
    """Merge the types of another path to an instruction into `merged`; return whether that changed any."""
    changed = False
    for place, kind in new.items():
        before = merged.get(place)
        if before is not kind and before is not _Type.OTHER:
            merged[place] = kind if before is None else _Type.OTHER
            changed = True
    return changed


def _execute(each: Instruction, state: _State) -> None:
    kind = each.kind
    if kind in (_ALU, _ALU64):
        state[each.dst] = _result_type(each, state)
    elif kind == _LD:
        state[each.dst] = _Type.OTHER if each.src == 1 else _Type.NUMBER  # 1: address of a map
    elif kind == _LDX:
        base = state.get(each.src, _Type.NUMBER)
        state[each.dst] = _Type.OTHER if base is _Type.OTHER else _Type.NUMBER
        if each.src == _FRAME_POINTER:
            state[each.dst] = _accessed_type(each, state)
    elif kind in (_ST, _STX) and each.dst == _FRAME_POINTER:
        state[_slot_of(each.offset)] = _accessed_type(each, state)
    elif kind == _STX and each.opcode & 0xE0 == _ATOMIC:
        state[each.src] = _Type.NUMBER
    elif each.opcode == CALL:
        for register in range(1, 6):
            state.pop(register, None)
        state[0] = _Type.NUMBER if each.is_local_call else _Type.OTHER


def _result_type(each: Instruction, state: _State) -> _Type:
    operation, by_register = each.opcode & 0xF0, bool(each.opcode & _REGISTER_OPERAND)
    source = state.get(each.src, _Type.NUMBER) if by_register else _Type.NUMBER
    if operation == _MOVE:
        if each.kind == _ALU64 and each.offset == _CAST_TO_ARENA:
            return _Type.ARENA if each.immediate == _CAST_TO_ARENA else _Type.NUMBER
        return source if each.kind == _ALU64 and each.offset == 0 else _Type.NUMBER
    before = state.get(each.dst, _Type.NUMBER)
    if before is _Type.NUMBER and operation in (_ADD, _SUB):
        return source
    return before


def _registers(each: Instruction) -> tuple[int, int]:
    """Return the registers that an instruction reads and those that it writes, as bits."""
    dst, src, kind = 1 << each.dst, 1 << each.src, each.kind
    if kind in (_ALU, _ALU64):
        used = src if each.opcode & _REGISTER_OPERAND else 0
        return (used if each.opcode & 0xF0 == _MOVE else used | dst), dst
    if kind == _LD:
        return 0, dst
    if kind == _LDX:
        return src, dst
    if kind in (_ST, _STX):
        is_atomic = kind == _STX and each.opcode & 0xE0 == _ATOMIC
        return dst | (src if kind == _STX else 0) | (1 if is_atomic else 0), 0
    if each.opcode == CALL:
        return 0b111110, 0b111111
    if each.opcode == EXIT:
        return 1, 0
    assert kind in JUMP_CLASSES
    if each.opcode in (JUMP, LONG_JUMP):
        return 0, 0
    return dst | (src if each.opcode & _REGISTER_OPERAND else 0), 0
