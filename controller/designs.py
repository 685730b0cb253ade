"""The `ControllerOps` of a design: its table rows, and how it reads the switch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from controller.client import schema_of
from controller.controller import Controller
from controller.tables import Change, RowEncoder, TableRow, Update
from foundation.designs.interface import ControllerOps, Design
from foundation.designs.registry import DesignError, load_part


def control_of(design: Design) -> ControllerOps[Controller, TableRow]:
    return cast(ControllerOps[Controller, TableRow], load_part(design, design.control))


def check_rows(design: Design, rows: Iterable[TableRow]) -> None:
    """Raise `DesignError` for the first row that the tables of the design's program cannot have."""
    encoder = RowEncoder(schema_of(design).p4info)
    for row in rows:
        try:
            encoder.update(Update(Change.INSERT, row))
        except (AttributeError, LookupError, TypeError, ValueError, OverflowError) as error:
            raise DesignError(
                f"part control ({design.control}): rows returns {row}, which {design.program.name} has no "
                f"table, action or field for: {type(error).__name__}: {error}"
            ) from error
