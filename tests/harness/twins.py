"""The twin of the Tofino program with 32 lanes, in the place of `hotset` in schedules of faults."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from google.protobuf import text_format

from foundation.designs.interface import Arm
from foundation.protocol.codec import Values
from foundation.protocol.header import LANES
from hosts.keys import KeySpace
from simulator.faults.switch import compile_small
from simulator.faults.testbed import SimulatedTestbed
from simulator.simulated_switch import CompiledConfig
from simulator.switch_state import Entry
from softswitch.compiled import CompiledPipeline
from softswitch.p4runtime.messages import p4i
from softswitch.pipeline import ActionCall, EntryWrite
from tests.harness import testnet

TWIN_INGRESS = f"{testnet.INGRESS}process."
_COMPILED = Path(__file__).parents[1] / "programs" / "compiled"
_WORD_BITS = 32
_COUNTERS = ("drops", "readdress.rpcs")


def small_twin() -> CompiledConfig:
    """Compile the twin for schedules, its tables and actions named as those of `hotset`."""
    program, p4info = (
        (_COMPILED / f"tofino_32.{suffix}").read_text().replace(TWIN_INGRESS, testnet.INGRESS)
        for suffix in ("json", "p4info.txtpb")
    )
    return compile_small(program.encode(), text_format.Parse(p4info, p4i.P4Info()))


def for_twin(entry: EntryWrite) -> EntryWrite:
    """Name an entry of `hotset` as the twin does."""
    call = entry.action
    if isinstance(call, ActionCall):
        call = call._replace(name=call.name.replace(testnet.INGRESS, TWIN_INGRESS))
    return entry._replace(table=entry.table.replace(testnet.INGRESS, TWIN_INGRESS), action=call)


class _Values:
    """The values of a twin's registers, whose cells have a lane's value and its pushes."""

    def __init__(self, pipeline: CompiledPipeline) -> None:
        self._pipeline = pipeline

    def read_register(self, name: str, first: int, end: int) -> list[int]:
        return [cell >> _WORD_BITS for cell in self._pipeline.read_register(name, first, end)]


def twin_testbed(arm: Arm, twin: CompiledConfig) -> SimulatedTestbed:
    testbed = SimulatedTestbed(arm, twin)
    state_ops = testbed.switch.state_ops

    def values(pipeline: CompiledPipeline, entries: Iterable[Entry], space: KeySpace) -> Values:
        return state_ops.values(_Values(pipeline), entries, space)  # type: ignore[arg-type]  # it only reads

    testbed.switch.state_ops = state_ops._replace(values=values)
    return testbed


class SwitchContents(NamedTuple):
    """What a switch holds, whichever of the two programs it runs."""

    cells: list[int]
    """Epoch, turn and bitmap, of 32 bits each, of every caller and slot."""
    values: list[list[int]]
    pushes: list[list[int]]
    events: list[tuple[int, int]]
    """Hits and misses of each lane."""
    packets: list[list[int]]


def contents(testbed: SimulatedTestbed) -> SwitchContents:
    pipeline = testbed.switch.pipeline
    sizes = {register.name: register.size for register in pipeline.program.registers}
    lanes = [f"{testnet.INGRESS}aggregate_{lane:02d}." for lane in range(LANES)]
    cells = _register(pipeline, sizes, "exactly_once.cells")
    values = [_register(pipeline, sizes, f"{lane}values", "") for lane in lanes]
    if (bitmaps := f"{testnet.INGRESS}exactly_once.bitmaps") in sizes:
        stored = _register(pipeline, sizes, bitmaps, "")
        cells = [cell << _WORD_BITS | bitmap for cell, bitmap in zip(cells, stored, strict=True)]
        pushes = [[cell & (1 << _WORD_BITS) - 1 for cell in of_lane] for of_lane in values]
        values = [[cell >> _WORD_BITS for cell in of_lane] for of_lane in values]
    else:
        pushes = [_counter(pipeline, f"{lane}pushes", len(values[0])) for lane in lanes]
    return SwitchContents(
        cells,
        values,
        pushes,
        [(hits, misses) for hits, misses in (_counter(pipeline, f"{lane}lane_stats", 2) for lane in lanes)],
        [_counter(pipeline, f"{testnet.INGRESS}{name}", 3) for name in _COUNTERS],
    )


def _register(
    pipeline: CompiledPipeline, sizes: dict[str, int], name: str, prefix: str = testnet.INGRESS
) -> list[int]:
    return pipeline.read_register(prefix + name, 0, sizes[prefix + name])


def _counter(pipeline: CompiledPipeline, name: str, cells: int) -> list[int]:
    return [cell.packets for cell in pipeline.read_counter(name, 0, cells)]
