"""The `ControllerOps` of a design: its table rows, and how it reads the switch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from controller.controller import Controller
from controller.network_rows import rows_of_switch
from controller.schemas import schema_of
from controller.tables import Change, RowEncoder, TableRow, Update, WorkerRow
from foundation.designs.interface import Arm, ControllerOps, Design
from foundation.designs.registry import DesignError, load_part
from foundation.protocol.leaf_spine import LeafSpine


def control_of(design: Design) -> ControllerOps[Controller, TableRow]:
    ops = cast(ControllerOps[Controller, TableRow], load_part(design, design.control))
    if design.values_register is None:
        return ops
    return ops._replace(read_values=partial(_read_values_register, design.values_register))


def rows_in_network(
    design: Design, rows: Sequence[TableRow], network: LeafSpine, switch: int
) -> list[TableRow]:
    """Return the rows of a switch of a network from those of a single switch with the same hosts."""
    return (control_of(design).network_rows or rows_of_switch)(rows, network, switch)


async def _read_values_register(
    name: str, controller: Controller, arms: Sequence[Arm], space: Any
) -> dict[str, NDArray[np.uint32]]:
    # `space` is a `hosts.keys.KeySpace`, which this room cannot import.
    values = np.array(await controller.read_register(name, 0, space.size), np.uint32)
    return {arm.name: values for arm in arms if arm.settings.aggregates}


def check_rows(design: Design, rows: Iterable[TableRow]) -> None:
    """Raise `DesignError` for the first row that the tables of the design's program cannot have.

    One entry of table `workers` is left for the controller, which is a caller when it reads registers.
    """
    p4info = schema_of(design).p4info
    encoder = RowEncoder(p4info)
    n_entries: Counter[str] = Counter()
    for row in rows:
        try:
            encoder.update(Update(Change.INSERT, row))
            if row.TABLES:
                n_entries[row.entry().table] += 1
        except (AttributeError, LookupError, TypeError, ValueError, OverflowError) as error:
            raise DesignError(
                f"part control ({design.control}): rows returns {row}, which {design.program.name} has no "
                f"table, action or field for: {type(error).__name__}: {error}"
            ) from error
    for table in p4info.tables:
        name, reserved = table.preamble.name, 0
        if name == WorkerRow.CONTROL + WorkerRow.TABLES[0]:
            reserved = 1
        if n_entries[name] > table.size - reserved:
            raise DesignError(
                f"{n_entries[name]} entries of table {table.preamble.alias}: expected at most "
                f"{table.size - reserved}, for which {design.program.name} was compiled"
            )
