"""Move stack slots to the CPU's area of the arena, if BPF's stack of 512 bytes is too small.

LLVM may use a larger stack (`compiler.STACK_BYTES`). Only slots of the entry function are moved, into which
LLVM inlines nearly everything. The verifier knows the types of values on the stack, but treats every value
loaded from the arena as a number. So a slot stays on the stack if it may hold an address of a frame, a map or
the context; an address in the arena is cast again when it is loaded. Each slot of 8 bytes moves on its own,
which `slot_addresses` checks to be right.
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
    make_instruction,
)
from softswitch.kernel.slot_addresses import (
    ACCESS_BYTES,
    FRAME_POINTER,
    SIZE_MASK,
    SLOT_BYTES,
    check_slot_addresses,
    slot_of,
)
from softswitch.kernel.target import ARENA_MAP, GET_SMP_PROCESSOR_ID, MAP_VALUE

BPF_STACK_BYTES = 512
_FRAME_UNIT_BYTES = 32  # the verifier rounds each function's part of the stack up
_LD, _LDX, _ST, _STX, _ALU, _ALU64 = 0, 1, 2, 3, 4, 7  # classes of instructions
_ADD, _SUB, _MOVE = 0x00, 0x10, 0xB0  # operations of _ALU and _ALU64
_OPERATION_MASK, _MODE_MASK = 0xF0, 0xE0  # parts of opcodes
_REGISTER_OPERAND = 0x08
_ATOMIC = 0xC0  # mode
_CONTEXT = 1  # register of a program's argument, and of the first argument of a call
_RESERVED_SLOTS = 2  # of the stack: `_Placement.address` and `scratch`
_AREA_ALIGNMENT = 16  # bytes
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
    functions_by_start = dict(zip(starts, functions, strict=True))
    stack_bytes = BPF_STACK_BYTES - max(
        (_stack_depth(functions_by_start, start) for start in _callees(functions[0])), default=0
    )
    if _frame_bytes(functions[0]) <= stack_bytes:
        return code, 0
    function = _Function(instructions, len(functions[0]))
    placement = function.assign_slots(stack_bytes)
    groups = [function.rewrite(position, placement, area_offset) for position in range(function.size)]
    groups += [[instruction] for instruction in instructions[function.size :]]
    return encode(groups), placement.area_bytes


def _callees(function: Sequence[Instruction]) -> set[int]:
    return {
        instruction.target
        for instruction in function
        if instruction.is_local_call and instruction.target is not None
    }


def _stack_depth(functions: Mapping[int, Sequence[Instruction]], start: int) -> int:
    """Return the bytes of stack that a function and its callees need."""
    callee_bytes = max((_stack_depth(functions, callee) for callee in _callees(functions[start])), default=0)
    return -(-_frame_bytes(functions[start]) // _FRAME_UNIT_BYTES) * _FRAME_UNIT_BYTES + callee_bytes


def _frame_bytes(function: Sequence[Instruction]) -> int:
    return -min((offset for instruction in function for offset in _frame_offsets(instruction)), default=0)


def _frame_offsets(instruction: Instruction) -> Iterator[int]:
    if _accesses_frame(instruction):
        yield instruction.offset


def _accesses_frame(instruction: Instruction) -> bool:
    is_load = instruction.opcode_class == _LDX and instruction.src == FRAME_POINTER
    return is_load or (instruction.opcode_class in (_ST, _STX) and instruction.dst == FRAME_POINTER)


@dataclass(frozen=True)
class _Placement:
    """New offsets of slots: from the frame pointer (`stack`), and from the first spill (`area`)."""

    stack: dict[int, int]
    area: dict[int, int]
    address: int
    """Offset on the stack of the spills' address."""
    scratch: int
    """Offset on the stack of the saved value of a register that holds the spills' address."""

    @property
    def area_bytes(self) -> int:
        return -(-len(self.area) * SLOT_BYTES // _AREA_ALIGNMENT) * _AREA_ALIGNMENT


class _Function:
    """The entry function, the first `size` instructions."""

    def __init__(self, instructions: Sequence[Instruction], size: int) -> None:
        self._code, self.size = instructions, size
        self._wide_load_ends = {i + 1 for i in range(size) if instructions[i].opcode == WIDE_LOAD}
        self._address_slots = {
            i + 1: slot_of(instructions[i + 1].immediate)
            for i in range(size)
            if instructions[i].opcode == MOVE and instructions[i].src == FRAME_POINTER
        }
        """Slots whose address is taken, by the position of the instruction that adds their offset."""
        for position in self._address_slots:
            addition, copy = instructions[position], instructions[position - 1]
            if addition.opcode != ADD or addition.dst != copy.dst:
                raise AssemblyError(
                    f"expected LLVM to add an offset to a stack address, got opcode {addition.opcode:#x}"
                )
        self._blocks = self._find_blocks()
        address_positions = self._address_slots.keys()
        check_slot_addresses(
            instructions, self._blocks, self._successors, address_positions, self._wide_load_ends
        )
        self._accessed_types = self._find_accessed_types()
        """Type of the value that each access to the stack loads or stores, by position."""
        self._live_registers = self._find_live_registers()

    def assign_slots(self, stack_bytes: int) -> _Placement:
        """Place the slots: as many addresses as fit on the stack, all others in the arena."""
        # The verifier follows each combination of the numbers that it knows on the stack, and refuses a
        # program that takes a million steps. It knows no numbers in the arena.
        access_counts: Counter[int] = Counter()
        fixed_slots, number_slots = set(self._address_slots.values()), set()
        for position in range(self.size):
            instruction = self._code[position]
            if position in self._wide_load_ends or not _accesses_frame(instruction):
                continue
            slot = slot_of(instruction.offset)
            access_counts[slot] += 1
            accessed_type = self._accessed_types.get(position)
            if accessed_type is _Type.NUMBER:
                number_slots.add(slot)
            elif accessed_type is _Type.OTHER:
                fixed_slots.add(slot)
        free_slots = stack_bytes // SLOT_BYTES - _RESERVED_SLOTS
        if len(fixed_slots) > free_slots:
            raise AssemblyError(
                f"the program needs {len(fixed_slots)} addresses at once: expected at most {free_slots}, "
                f"which fit on BPF's stack of {BPF_STACK_BYTES} bytes"
            )
        address_slots = sorted(
            access_counts.keys() - fixed_slots - number_slots, key=lambda slot: (-access_counts[slot], slot)
        )
        stack_slots = [*sorted(fixed_slots), *address_slots][:free_slots]
        area_slots = sorted(access_counts.keys() - set(stack_slots))
        stack_offsets = {
            slot: -SLOT_BYTES * number for number, slot in enumerate(stack_slots, start=_RESERVED_SLOTS + 1)
        }
        area_offsets = {slot: SLOT_BYTES * number for number, slot in enumerate(area_slots)}
        return _Placement(stack_offsets, area_offsets, address=-SLOT_BYTES, scratch=-2 * SLOT_BYTES)

    def rewrite(self, position: int, placement: _Placement, area_offset: int) -> list[Instruction]:
        instruction = self._code[position]
        prologue = _prologue(placement, area_offset) if position == 0 else []
        if position in self._wide_load_ends:
            return [instruction]
        if position in self._address_slots:
            instruction.immediate = (
                placement.stack[slot_of(instruction.immediate)] + instruction.immediate % SLOT_BYTES
            )
        if not _accesses_frame(instruction):
            return [*prologue, instruction]
        slot, byte_in_slot = slot_of(instruction.offset), instruction.offset % SLOT_BYTES
        if slot in placement.stack:
            instruction.offset = placement.stack[slot] + byte_in_slot
            return [*prologue, instruction]
        instruction.offset = placement.area[slot] + byte_in_slot
        if instruction.opcode_class == _LDX:
            return [*prologue, *self._rewrite_load(position, instruction, placement)]
        return [*prologue, *self._rewrite_store(position, instruction, placement)]

    def _rewrite_load(
        self, position: int, instruction: Instruction, placement: _Placement
    ) -> list[Instruction]:
        is_address = self._accessed_types.get(position) is _Type.ARENA and _is_whole_slot(instruction)
        instruction.registers = instruction.dst << 4 | instruction.dst
        address = make_instruction(LOAD, instruction.dst, FRAME_POINTER, placement.address)
        return [address, instruction, *([_make_cast(instruction.dst)] if is_address else [])]

    def _rewrite_store(
        self, position: int, instruction: Instruction, placement: _Placement
    ) -> list[Instruction]:
        value = instruction.src if instruction.opcode_class == _STX else None
        dead_registers = [r for r in range(10) if r != value and not self._live_registers[position] >> r & 1]
        # If all are live, r6 to r9 hold values; r0 to r5 may be unreadable, since calls clobber them.
        base = dead_registers[0] if dead_registers else next(r for r in range(6, 10) if r != value)
        instruction.registers = instruction.src << 4 | base
        store = [make_instruction(LOAD, base, FRAME_POINTER, placement.address), instruction]
        if dead_registers:
            return store
        return [
            make_instruction(STORE, FRAME_POINTER, base, placement.scratch),
            *store,
            make_instruction(LOAD, base, FRAME_POINTER, placement.scratch),
        ]

    # -- data flow

    def _find_blocks(self) -> dict[int, range]:
        """Return the basic blocks by their first position."""
        starts = {0, self.size}
        for position in range(self.size):
            instruction = self._code[position]
            if position in self._wide_load_ends or instruction.is_local_call:
                continue
            if instruction.target is not None or instruction.opcode == EXIT:
                starts |= {position + 1} if instruction.target is None else {position + 1, instruction.target}
        sorted_starts = sorted(starts)
        return {a: range(a, b) for a, b in pairwise(sorted_starts)}

    def _successors(self, block: range) -> list[int]:
        terminator = self._code[block[-1]]
        if block[-1] in self._wide_load_ends or terminator.is_local_call or terminator.target is None:
            is_exit = terminator.opcode == EXIT and block[-1] not in self._wide_load_ends
            return [] if is_exit else [block.stop]
        is_unconditional = terminator.opcode in (JUMP, LONG_JUMP)
        return [terminator.target] if is_unconditional else [block.stop, terminator.target]

    def _find_accessed_types(self) -> dict[int, _Type]:
        entry_states: dict[int, _State] = {}
        types: dict[int, _Type] = {}
        worklist: list[tuple[int, _State]] = [(0, {_CONTEXT: _Type.OTHER, FRAME_POINTER: _Type.OTHER})]
        while worklist:
            start, new_state = worklist.pop()
            if start in entry_states and not _widen(entry_states[start], new_state):
                continue
            state = dict(entry_states.setdefault(start, dict(new_state)))
            block = self._blocks[start]
            for position in block:
                instruction = self._code[position]
                if position in self._wide_load_ends:
                    continue
                if _accesses_frame(instruction):
                    types[position] = _accessed_type(instruction, state)
                _update_types(instruction, state)
            worklist += [(successor, state) for successor in self._successors(block)]
        return types

    def _find_live_registers(self) -> dict[int, int]:
        """Return the registers whose values are read after each store to the stack, as bits."""
        live_at_start: dict[int, int] = dict.fromkeys(self._blocks, 0)
        live_after: dict[int, int] = {}
        changed = True
        while changed:
            changed = False
            for start, block in reversed(self._blocks.items()):
                live_registers = 0
                for successor in self._successors(block):
                    live_registers |= live_at_start[successor]
                for position in reversed(block):
                    if position in self._wide_load_ends:
                        continue
                    live_after[position] = live_registers
                    read, written = _accessed_registers(self._code[position])
                    live_registers = read | live_registers & ~written
                if live_registers != live_at_start[start]:
                    live_at_start[start], changed = live_registers, True
        return live_after


def _prologue(placement: _Placement, area_offset: int) -> list[Instruction]:
    """Return the instructions that put the spills' address on the stack; only r1 has a value before them."""
    return [
        make_instruction(MOVE, 6, _CONTEXT),  # calls preserve r6
        make_instruction(CALL, immediate=GET_SMP_PROCESSOR_ID),
        make_instruction(0x57, 0, immediate=MAX_CPUS - 1),  # and
        make_instruction(0x67, 0, immediate=3),  # shift left: words to bytes
        make_instruction(WIDE_LOAD, 2, MAP_VALUE, immediate=ARENA_MAP),
        make_instruction(0),  # the second half of the load
        make_instruction(0x0F, 0, 2),  # add
        _make_cast(0),
        make_instruction(LOAD, 0, 0, AREA_OF),
        make_instruction(0x0F, 2, 0),  # add
        make_instruction(ADD, 2, immediate=area_offset),
        _make_cast(2),
        make_instruction(STORE, FRAME_POINTER, 2, placement.address),
        make_instruction(MOVE, _CONTEXT, 6),
    ]


def _make_cast(register: int) -> Instruction:
    return make_instruction(MOVE, register, register, _CAST_TO_ARENA, _CAST_TO_ARENA)


def _is_whole_slot(instruction: Instruction) -> bool:
    return ACCESS_BYTES[instruction.opcode & SIZE_MASK] == SLOT_BYTES


def _accessed_type(instruction: Instruction, state: _State) -> _Type:
    if instruction.opcode_class == _ST or not _is_whole_slot(instruction):
        return _Type.NUMBER
    return state.get(
        slot_of(instruction.offset) if instruction.opcode_class == _LDX else instruction.src, _Type.NUMBER
    )


def _widen(merged_state: _State, new_state: _State) -> bool:
    """Merge the types of another path to an instruction into `merged_state`; return whether any changed."""
    changed = False
    for location, new_type in new_state.items():
        old_type = merged_state.get(location)
        if old_type is not new_type and old_type is not _Type.OTHER:
            merged_state[location] = new_type if old_type is None else _Type.OTHER
            changed = True
    return changed


def _update_types(instruction: Instruction, state: _State) -> None:
    opcode_class = instruction.opcode_class
    if opcode_class in (_ALU, _ALU64):
        state[instruction.dst] = _result_type(instruction, state)
    elif opcode_class == _LD:
        state[instruction.dst] = _Type.OTHER if instruction.src == 1 else _Type.NUMBER  # 1: address of a map
    elif opcode_class == _LDX:
        base = state.get(instruction.src, _Type.NUMBER)
        state[instruction.dst] = _Type.OTHER if base is _Type.OTHER else _Type.NUMBER
        if instruction.src == FRAME_POINTER:
            state[instruction.dst] = _accessed_type(instruction, state)
    elif opcode_class in (_ST, _STX) and instruction.dst == FRAME_POINTER:
        state[slot_of(instruction.offset)] = _accessed_type(instruction, state)
    elif opcode_class == _STX and instruction.opcode & _MODE_MASK == _ATOMIC:
        state[instruction.src] = _Type.NUMBER
    elif instruction.opcode == CALL:
        for register in range(1, 6):  # the arguments
            state.pop(register, None)
        state[0] = _Type.NUMBER if instruction.is_local_call else _Type.OTHER


def _result_type(instruction: Instruction, state: _State) -> _Type:
    operation = instruction.opcode & _OPERATION_MASK
    has_register_operand = bool(instruction.opcode & _REGISTER_OPERAND)
    source_type = state.get(instruction.src, _Type.NUMBER) if has_register_operand else _Type.NUMBER
    if operation == _MOVE:
        if instruction.opcode_class == _ALU64 and instruction.offset == _CAST_TO_ARENA:
            return _Type.ARENA if instruction.immediate == _CAST_TO_ARENA else _Type.NUMBER
        return source_type if instruction.opcode_class == _ALU64 and instruction.offset == 0 else _Type.NUMBER
    target_type = state.get(instruction.dst, _Type.NUMBER)
    if target_type is _Type.NUMBER and operation in (_ADD, _SUB):
        return source_type
    return target_type


def _accessed_registers(instruction: Instruction) -> tuple[int, int]:
    """Return the registers that an instruction reads and those that it writes, as bits."""
    dst, src, opcode_class = 1 << instruction.dst, 1 << instruction.src, instruction.opcode_class
    if opcode_class in (_ALU, _ALU64):
        read = src if instruction.opcode & _REGISTER_OPERAND else 0
        return (read if instruction.opcode & _OPERATION_MASK == _MOVE else read | dst), dst
    if opcode_class == _LD:
        return 0, dst
    if opcode_class == _LDX:
        return src, dst
    if opcode_class in (_ST, _STX):
        is_atomic = opcode_class == _STX and instruction.opcode & _MODE_MASK == _ATOMIC
        # A compare-and-exchange also reads r0.
        return dst | (src if opcode_class == _STX else 0) | (1 if is_atomic else 0), 0
    if instruction.opcode == CALL:
        return 0b111110, 0b111111  # arguments are r1 to r5; r0 to r5 are clobbered
    if instruction.opcode == EXIT:
        return 1, 0  # r0 is the result
    assert opcode_class in JUMP_CLASSES
    if instruction.opcode in (JUMP, LONG_JUMP):
        return 0, 0
    return dst | (src if instruction.opcode & _REGISTER_OPERAND else 0), 0
