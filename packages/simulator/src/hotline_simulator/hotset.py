"""Simulated state of design `hotset` in the switch: the values of the hot parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from controller.hotset.migrate import plan
from controller.status import LaneEvent
from controller.tables import INGRESS, HotParam, KeyState, TableRow
from foundation.protocol.codec import Keys, Values
from foundation.protocol.header import LANES, QUAD
from foundation.protocol.rows import RowRanges
from hosts.keys import KeySpace, places_of_rows
from hotline_agents.hotset.ps.store import HotsetStore
from hotline_simulator.switch_state import SwitchStateOps
from softswitch.compiled import CompiledPipeline


def _rows_to_load(
    entries: Iterable[HotParam], job: int, keys: Sequence[int], lanes: int, ranges: RowRanges
) -> list[TableRow]:
    moves = plan(entries, job, keys, offload=True, lane_count=lanes, ranges=ranges).arriving
    return [move.param for move in moves]


def _count_writes(entries: Iterable[HotParam], job: int, keys: Sequence[int]) -> int:
    moves = plan(entries, job, keys, offload=True).summary()
    return moves["inserts"] + moves["modifies"] + moves["deletes"]


def _release_to_switch(store: HotsetStore, keys: Sequence[Keys]) -> None:
    for of_home, own in zip(store.by_home, keys, strict=True):
        indexes = of_home.locate(own)
        of_home.release(indexes[of_home.is_in_share(indexes)])


def read_registers(register: str) -> Callable[[CompiledPipeline, Iterable[HotParam], KeySpace], Values]:
    """Return a function that reads entries' rows in the registers `register`_a to `register`_d of banks."""
    names = [f"{INGRESS}bank_{bank:02d}.{register}_{letter}" for bank in range(LANES) for letter in "abcd"]

    def read_values(pipeline: CompiledPipeline, entries: Iterable[HotParam], space: KeySpace) -> Values:
        result = np.zeros(space.n_values, np.uint32)
        params = list(entries)
        if not params:
            return result
        keys = np.array([param.key for param in params], np.uint64)
        banks, slots, dims = np.array([(param.bank, param.slot, param.dim) for param in params]).T
        # The values of a row are in consecutive registers.
        places = places_of_rows(space.first_values(space.positions(keys)), dims)
        registers = places_of_rows(banks * QUAD, dims)
        result[places] = pipeline.cells.read_register_cells(names, registers, slots.repeat(dims))
        return result

    return read_values


def _overflows(pipeline: CompiledPipeline) -> int:
    cell = LaneEvent.OVERFLOW
    names = [f"{INGRESS}bank_{lane:02d}.row_stats" for lane in range(LANES)]
    return sum(pipeline.cells.read_counter(name, cell, cell + 1)[0].packets for name in names)


SWITCH_STATE_OPS = SwitchStateOps(
    is_entry=lambda row: isinstance(row, HotParam),
    is_moving=lambda param: param.state is not KeyState.HOT,
    rows_to_load=_rows_to_load,
    count_writes=_count_writes,
    release_to_switch=_release_to_switch,
    values=read_registers("values"),
    overflows=_overflows,
)
