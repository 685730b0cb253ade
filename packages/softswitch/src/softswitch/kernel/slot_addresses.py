"""Check that addresses of stack slots are used within their slot, which `spills` moves on its own.

Spilled registers are accessed relative to the frame pointer. Only variables that LLVM keeps in memory have
their address in a register; they have at most 8 bytes (the slots of loop guards, and values that helpers of
the kernel take). An address that reached into the next slot would reach a different value after the move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from softswitch.kernel.instructions import ADD, CALL, MOVE, AssemblyError, Instruction

SLOT_BYTES = 8
FRAME_POINTER = 10
_LDX, _ST, _STX, _ALU, _ALU64 = 1, 2, 3, 4, 7  # classes of instructions
ACCESS_BYTES = {0x00: 4, 0x08: 2, 0x10: 1, 0x18: 8}
"""Bytes that a load or store accesses, by the size in its opcode (`SIZE_MASK`)."""
SIZE_MASK = 0x18
_ARGUMENTS = range(1, 6)  # registers of a call
POINTED_BYTES = {(1, 2): 4, (163, 3): 4}
"""Bytes that helpers access at an address, by helper and argument: bpf_map_lookup_elem with the keys of our
maps, bpf_check_mtu."""

_Addresses = dict[int, frozenset[int]]
"""Offsets from the frame pointer of the addresses that registers (from 0) and slots (below 0) may hold."""


def slot_of(offset: int) -> int:
    return offset // SLOT_BYTES * SLOT_BYTES


def check_slot_addresses(
    code: Sequence[Instruction],
    blocks: Mapping[int, range],
    successors: Callable[[range], Sequence[int]],
    address_positions: Set[int],
    skipped: Set[int],
) -> None:
    """Raise AssemblyError where code leaves a slot whose address it has taken, or may do so.

    `address_positions` are instructions that add a slot's offset to a copy of the frame pointer; `skipped`
    are second halves of instructions.
    """
    entries: dict[int, _Addresses] = {0: {}}
    worklist = [0]
    while worklist:
        start = worklist.pop()
        addresses = dict(entries[start])
        for position in blocks[start]:
            if position in address_positions:
                addresses[code[position].dst] = frozenset({code[position].immediate})
            elif position not in skipped:
                _follow(code[position], position, addresses)
        for successor in successors(blocks[start]):
            known = entries.get(successor)
            merged = {**(known or {})}
            for location, offsets in addresses.items():
                merged[location] = merged.get(location, frozenset()) | offsets
            if merged != known:
                entries[successor] = merged
                worklist.append(successor)


def _follow(instruction: Instruction, position: int, addresses: _Addresses) -> None:
    """Check an instruction, and update the addresses that registers and slots hold after it."""
    opcode_class = instruction.opcode_class
    if opcode_class in (_LDX, _ST, _STX):
        _check_access(instruction, position, addresses)
    if opcode_class == _LDX:
        loaded: frozenset[int] = frozenset()
        if instruction.src == FRAME_POINTER:
            loaded = addresses.get(slot_of(instruction.offset), loaded)
        _put(addresses, instruction.dst, loaded)
    elif opcode_class in (_ST, _STX):
        stored = addresses.get(instruction.src, frozenset()) if opcode_class == _STX else frozenset()
        if instruction.dst == FRAME_POINTER:
            _put(addresses, slot_of(instruction.offset), stored)
        elif stored:
            raise _error(position, "stores the address of a stack slot outside of the stack")
    elif instruction.opcode == CALL:
        _check_call(instruction, position, addresses)
        for register in (0, *_ARGUMENTS):
            addresses.pop(register, None)
    elif opcode_class in (_ALU, _ALU64):
        _calculate(instruction, position, addresses)
    elif opcode_class == 0:  # a 64-bit constant
        addresses.pop(instruction.dst, None)


def _check_access(instruction: Instruction, position: int, addresses: _Addresses) -> None:
    base = instruction.src if instruction.opcode_class == _LDX else instruction.dst
    starts = frozenset({0}) if base == FRAME_POINTER else addresses.get(base, frozenset())
    for start in starts:
        # An access relative to the frame pointer is to the slot at its own offset.
        slot = slot_of(instruction.offset if base == FRAME_POINTER else start)
        end = start + instruction.offset + ACCESS_BYTES[instruction.opcode & SIZE_MASK]
        if not slot <= start + instruction.offset <= end <= slot + SLOT_BYTES:
            raise _error(
                position,
                f"accesses bytes {start + instruction.offset} to {end - 1} of the stack",
                f"expected bytes of the slot {slot} to {slot + SLOT_BYTES - 1}",
            )


def _check_call(instruction: Instruction, position: int, addresses: _Addresses) -> None:
    for register in _ARGUMENTS:
        offsets = addresses.get(register, frozenset())
        size = None if instruction.is_local_call else POINTED_BYTES.get((instruction.immediate, register))
        for offset in offsets:
            if size is None or offset + size > slot_of(offset) + SLOT_BYTES:
                callee = "a function" if instruction.is_local_call else f"helper {instruction.immediate}"
                raise _error(position, f"passes the address {offset} on the stack to {callee}")


def _calculate(instruction: Instruction, position: int, addresses: _Addresses) -> None:
    offsets = addresses.get(instruction.dst, frozenset())
    if instruction.opcode == MOVE and not instruction.offset:
        _put(addresses, instruction.dst, addresses.get(instruction.src, frozenset()))
    elif instruction.opcode_class == _ALU or instruction.opcode & 0xF0 == 0xB0:  # 32 bits, or another move
        addresses.pop(instruction.dst, None)
    elif instruction.opcode == ADD:
        moved = frozenset(offset + instruction.immediate for offset in offsets)
        if any(slot_of(new) != slot_of(old) for new, old in zip(sorted(moved), sorted(offsets), strict=True)):
            raise _error(position, f"adds {instruction.immediate} to the address of a stack slot")
        _put(addresses, instruction.dst, moved)
    elif offsets or (instruction.opcode & 0x08 and addresses.get(instruction.src)):
        raise _error(position, "calculates with the address of a stack slot")


def _put(addresses: _Addresses, location: int, offsets: frozenset[int]) -> None:
    if offsets:
        addresses[location] = offsets
    else:
        addresses.pop(location, None)


def _error(
    position: int, problem: str, expected: str = "expected it to stay within its slot"
) -> AssemblyError:
    return AssemblyError(f"instruction {position} of LLVM's output {problem}: {expected}")
