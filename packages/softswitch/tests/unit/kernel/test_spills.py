"""Stack slots move one by one, so code that leaves a slot whose address it has taken is refused."""

from __future__ import annotations

import pytest

from softswitch.kernel.instructions import (
    ADD,
    CALL,
    EXIT,
    JUMP,
    LOAD,
    MOVE,
    STORE,
    AssemblyError,
    Instruction,
    encode,
    make_instruction,
    make_jump,
)
from softswitch.kernel.spills import move_spills

FRAME_POINTER = 10
STORE_4, LOAD_4, ADD_REGISTER, MOVE_32, IF_EQUAL = 0x63, 0x61, 0x0F, 0xBC, 0x15
DEEP = make_instruction(STORE, FRAME_POINTER, 0, -1024)
"""A store below BPF's stack, so that slots have to move."""
MAP_LOOKUP, CHECK_MTU, KTIME = 1, 163, 5
Code = list[Instruction]


def address(register: int, offset: int) -> Code:
    return [
        make_instruction(MOVE, register, FRAME_POINTER),
        make_instruction(ADD, register, immediate=offset),
    ]


def access(opcode: int, base: int, offset: int) -> Code:
    """A store of r0 to memory, or a load of r0 from it."""
    is_load = opcode in (LOAD, LOAD_4)
    dst, src = (0, base) if is_load else (base, 0)
    return [make_instruction(opcode, dst, src, offset)]


def call(helper: int) -> Code:
    return [make_instruction(CALL, immediate=helper)]


def local_call(target: int) -> Code:
    return [Instruction(CALL, 1 << 4, 0, 0, target=target)]


def spill(register: int, slot: int) -> Code:
    return [make_instruction(STORE, FRAME_POINTER, register, slot)]


def reload(register: int, slot: int) -> Code:
    return [make_instruction(LOAD, register, FRAME_POINTER, slot)]


def joined(then: int, otherwise: int) -> Code:
    """r6 is the address of one slot on one path, and of another on the other."""
    condition = Instruction(IF_EQUAL, 0, 0, 0, target=5)
    return [condition, *address(6, then), make_jump(JUMP, 7), DEEP, *address(6, otherwise)]


USES_WITHIN_A_SLOT = {
    "a word": [*address(6, -16), *access(STORE, 6, 0), *access(LOAD, 6, 0)],
    "half a word": [*address(6, -16), *access(STORE_4, 6, 4), *access(LOAD_4, 6, 4)],
    "the second half's own address": [*address(6, -12), *access(STORE_4, 6, 0), *access(LOAD_4, 6, -4)],
    "an address moved within the slot": [
        *address(6, -16), make_instruction(ADD, 6, immediate=4), *access(LOAD_4, 6, 0)
    ],
    "a map's key": [*address(2, -12), *call(MAP_LOOKUP)],
    "an MTU": [*address(3, -16), *call(CHECK_MTU)],
    "an address that was spilled": [*address(6, -16), *spill(6, -24), *reload(7, -24), *access(LOAD, 7, 0)],
    "a register used anew": [
        *address(6, -16), make_instruction(MOVE, 6, 0), make_instruction(ADD_REGISTER, 6, 0)
    ],
    "either of two slots": [*joined(-16, -32), *access(LOAD, 6, 0)],
}  # fmt: skip
USES_BEYOND_A_SLOT = {
    "the next word": [*address(6, -16), *access(STORE, 6, 8)],
    "the word before": [*address(6, -16), *access(LOAD, 6, -8)],
    "across two slots": [*address(6, -16), *access(STORE, 6, 4)],
    "across two slots without an address": access(STORE, FRAME_POINTER, -20),
    "half a word beyond": [*address(6, -12), *access(LOAD_4, 6, 4)],
    "an address of another slot": [*address(6, -16), make_instruction(ADD, 6, immediate=8)],
    "an unknown distance": [*address(6, -16), make_instruction(ADD_REGISTER, 6, 0)],
    "a distance in the other register": [*address(6, -16), make_instruction(ADD_REGISTER, 0, 6)],
    "a key across two slots": [*address(2, -10), *call(MAP_LOOKUP)],
    "a helper that takes no address": [*address(1, -16), *call(KTIME)],
    "another argument of a helper": [*address(3, -16), *call(MAP_LOOKUP)],
    "a function of the program": [*address(1, -16), *local_call(5)],
    "a copy in memory": [*address(6, -16), make_instruction(STORE, 1, 6, 0)],
    "a copy in a register": [*address(6, -16), make_instruction(MOVE, 7, 6), *access(LOAD, 7, 8)],
    "a copy that was spilled": [*address(6, -16), *spill(6, -24), *reload(7, -24), *access(LOAD, 7, 8)],
    "one of two paths": [*joined(-16, -28), *access(LOAD, 6, 0)],
    "a copy with another offset": [
        make_instruction(MOVE, 6, FRAME_POINTER), make_instruction(ADD, 7, immediate=-16)
    ],
}  # fmt: skip


def moved(code: Code) -> bytes:
    end = [DEEP, make_instruction(EXIT), make_instruction(EXIT)]  # of the entry function, and another
    return move_spills(encode([[instruction] for instruction in (*code, *end)]), area_offset=0)[0]


@pytest.mark.parametrize("name", USES_WITHIN_A_SLOT)
def test_stack_slots_move_if_addresses_stay_within_their_slot(name: str) -> None:
    assert moved(USES_WITHIN_A_SLOT[name])


@pytest.mark.parametrize("name", USES_BEYOND_A_SLOT)
def test_code_that_leaves_a_slot_is_refused(name: str) -> None:
    with pytest.raises(AssemblyError):
        moved(USES_BEYOND_A_SLOT[name])
