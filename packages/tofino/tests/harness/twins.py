"""The twin of the Tofino program with 32 lanes, in the place of `hotset` in schedules of faults."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from google.protobuf import text_format
from numpy.typing import NDArray

from controller.status import LaneEvent, RpcOutcome
from foundation.designs.interface import Arm
from foundation.protocol.codec import Values
from foundation.protocol.header import LANES, QUAD
from hosts.keys import KeySpace
from hotline_simulator.faults.switch import compile_small
from hotline_simulator.faults.testbed import SimulatedTestbed
from hotline_simulator.simulated_switch import CompiledConfig
from hotline_simulator.switch_state import Entry
from softswitch.compiled import CompiledPipeline
from softswitch.memory.rows import Words
from softswitch.p4runtime.messages import p4i
from softswitch.pipeline import ActionCall, CounterValue, EntryWrite
from tests.harness import testnet

TWIN_INGRESS = f"{testnet.INGRESS}process."
TWINS = Path(__file__).parents[1] / "programs" / "compiled"
_WORD_BITS = 32
_CELLS, _BITMAPS = (f"{testnet.INGRESS}exactly_once.{name}" for name in ("cells", "bitmaps"))


def small_twin() -> CompiledConfig:
    """Compile the twin for schedules, its tables and actions named as those of `hotset`."""
    program, p4info = (
        _renamed((TWINS / f"tofino_32.{suffix}").read_text()) for suffix in ("json", "p4info.txtpb")
    )
    return compile_small(program.encode(), text_format.Parse(p4info, p4i.P4Info()))


def _renamed(text: str) -> str:
    text = text.replace(TWIN_INGRESS, testnet.INGRESS)
    # A lane is a bank, whose first register is `values_a`.
    text = re.sub(r"aggregate_(\d\d)\.values\b", r"bank_\1.values_a", text)
    return re.sub(r"aggregate_(\d\d)\.lane_stats\b", r"bank_\1.row_stats", text)


def for_twin(entry: EntryWrite) -> EntryWrite:
    """Name an entry of `hotset` as the twin does."""
    call = entry.action
    if isinstance(call, ActionCall):
        call = call._replace(name=call.name.replace(testnet.INGRESS, TWIN_INGRESS))
    return entry._replace(table=entry.table.replace(testnet.INGRESS, TWIN_INGRESS), action=call)


def twin_rpcs(twin: CompiledPipeline) -> list[CounterValue]:
    """Return what `hotset` counts in `rpcs`, without duplicates."""
    rpcs = twin.cells.read_counter(f"{TWIN_INGRESS}readdress.rpcs", 0, RpcOutcome.RELAYED)
    return rpcs + twin.cells.read_counter(f"{TWIN_INGRESS}readdress.relayed", 0, 1)


class _Values:
    """The values of a twin's registers, whose cells have a lane's value and its pushes."""

    def __init__(self, pipeline: CompiledPipeline) -> None:
        self._pipeline = pipeline
        self.cells = self

    def read_register_cells(
        self, names: Sequence[str], registers: NDArray[np.int64], indexes: NDArray[np.int64]
    ) -> Words:
        # The twin has the first register of each bank only, and rows of one value.
        banks, values = np.divmod(registers, QUAD)
        assert not values.any()
        cells = self._pipeline.cells.read_register_cells(names[::QUAD], banks, indexes)
        result: Words = cells >> np.uint64(_WORD_BITS)
        return result


def twin_testbed(arm: Arm, twin: CompiledConfig) -> SimulatedTestbed:
    testbed = SimulatedTestbed(arm, twin)
    state_ops = testbed.state_ops

    def values(pipeline: CompiledPipeline, entries: Iterable[Entry], space: KeySpace) -> Values:
        return state_ops.values(_Values(pipeline), entries, space)  # type: ignore[arg-type]  # it only reads

    testbed.state_ops = state_ops._replace(values=values)
    return testbed


class SwitchContents(NamedTuple):
    """What a switch holds, whichever of the two programs it runs."""

    cells: list[int]
    """Epoch, turn and bitmap, of 32 bits each, of every caller and slot."""
    values: list[list[int]]
    pushes: list[list[int]]
    events: list[list[int]]
    """Hits and misses of each lane."""
    drops: list[int]
    rpcs: list[int]
    """Answered, forwarded, relayed; duplicates."""


def contents(testbed: SimulatedTestbed) -> SwitchContents:
    [switch] = testbed.switches
    pipeline = switch.pipeline
    registers = {
        each.name: pipeline.cells.read_register(each.name, 0, each.size)
        for each in pipeline.program.registers
    }
    counters = {
        each.name: [cell.packets for cell in pipeline.cells.read_counter(each.name, 0, each.size)]
        for each in pipeline.program.counters
    }
    lanes = [f"{testnet.INGRESS}bank_{lane:02d}." for lane in range(LANES)]
    cells, values = registers[_CELLS], [registers[f"{lane}values_a"] for lane in lanes]
    rpcs = counters[f"{testnet.INGRESS}readdress.rpcs"]
    if (bitmaps := registers.get(_BITMAPS)) is not None:
        cells = [cell << _WORD_BITS | bitmap for cell, bitmap in zip(cells, bitmaps, strict=True)]
        pushes = [[cell & (1 << _WORD_BITS) - 1 for cell in of_lane] for of_lane in values]
        values = [[cell >> _WORD_BITS for cell in of_lane] for of_lane in values]
        rpcs = [
            *rpcs[: RpcOutcome.RELAYED],
            *counters[f"{testnet.INGRESS}readdress.relayed"],
            *counters[f"{testnet.INGRESS}duplicates"],
        ]
    else:
        pushes = [counters[f"{lane}pushes"] for lane in lanes]
    return SwitchContents(
        cells,
        values,
        pushes,
        [counters[f"{lane}row_stats"][: LaneEvent.OVERFLOW] for lane in lanes],
        counters[f"{testnet.INGRESS}drops"],
        rpcs,
    )
