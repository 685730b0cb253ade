"""The register memory of each design in the switch, read from the compiled programs."""

from __future__ import annotations

import json
from functools import cache
from typing import TypedDict

from foundation.designs import hotset, none
from foundation.designs.interface import Design
from foundation.protocol.header import QUAD
from foundation.settings import Strict
from hotline_allreduce.atp import design as atp
from hotline_allreduce.atp import packet as atp_packet
from hotline_allreduce.atp.packet import CELLS
from hotline_allreduce.psdense import design as psdense
from hotline_allreduce.ring import design as ring
from hotline_allreduce.switchml import design as switchml
from hotline_allreduce.switchml.packet import SLOTS, VALUES

_TIMEOUT_REGISTER = "slot_timeout.since"
_OPTIONAL_REGISTERS = ("stale_chunk_filter.numbers", _TIMEOUT_REGISTER, "claim.tensors")
"""Registers of optional settings, which the published SwitchML and ATP lack."""
_NETWORK_REGISTER = "to_bundle.turns"
"""Register of a byte that only leaves of a network with several spines use."""
_VALUE_BYTES = 4


class Memory(Strict):
    arm: str
    slots: int
    values: int  # values of a slot
    value_bytes: int
    other_bytes: int

    @property
    def bytes(self) -> int:
        return self.value_bytes + self.other_bytes


def memories() -> list[Memory]:
    switchml_registers, atp_registers, hotset_registers = (
        _register_bytes(each.DESIGN) for each in (switchml, atp, hotset)
    )
    # The setting `check` compares chunk numbers; the timeout is another setting.
    checked_registers = {
        name: size for name, size in switchml_registers.items() if _TIMEOUT_REGISTER not in name
    }
    banks = sum(name.endswith(".values_a") for name in hotset_registers)
    slots_per_bank = hotset_registers["HotlineIngress.bank_00.values_a"] // _VALUE_BYTES
    entries = 2 * SLOTS  # the pool has two sets of slots
    return [
        _memory("switchml", _without_optional_registers(switchml_registers), "value_", entries, VALUES),
        _memory("switchml-checked", checked_registers, "value_", entries, VALUES),
        _memory("atp", _without_optional_registers(atp_registers), "value_", CELLS, atp_packet.VALUES),
        _memory("atp-checked", atp_registers, "value_", CELLS, atp_packet.VALUES),
        _memory("offload", hotset_registers, "bank_", slots=banks * slots_per_bank, values=QUAD),
        *(
            _memory(each.name, _register_bytes(each), value_prefix="", slots=0, values=0)
            for each in (none.DESIGN, psdense.DESIGN, ring.DESIGN)
        ),
    ]


def _without_optional_registers(registers: dict[str, int]) -> dict[str, int]:
    return {
        name: size
        for name, size in registers.items()
        if not any(part in name for part in _OPTIONAL_REGISTERS)
    }


def _memory(arm: str, registers: dict[str, int], value_prefix: str, slots: int, values: int) -> Memory:
    # An empty prefix stands for a design that stores no values.
    value_bytes = sum(size for name, size in registers.items() if value_prefix and f".{value_prefix}" in name)
    other_bytes = sum(registers.values()) - value_bytes
    return Memory(arm=arm, slots=slots, values=values, value_bytes=value_bytes, other_bytes=other_bytes)


class _Register(TypedDict):
    name: str
    size: int
    bitwidth: int


class _Program(TypedDict):
    register_arrays: list[_Register]


@cache
def _register_bytes(design: Design) -> dict[str, int]:
    # A page's numbers need it for eight designs, of which the programs have megabytes of JSON.
    program: _Program = json.loads(design.program.read_bytes())
    sizes = {each["name"]: each["size"] * each["bitwidth"] // 8 for each in program["register_arrays"]}
    return {name: size for name, size in sizes.items() if not name.endswith(_NETWORK_REGISTER)}
