"""The `ControllerOps` of a design: its table rows, and how it reads the switch."""

from __future__ import annotations

from typing import cast

from controller.controller import Controller
from controller.tables import TableRow
from foundation.designs.interface import ControllerOps, Design
from foundation.designs.registry import load_part


def control_of(design: Design) -> ControllerOps[Controller, TableRow]:
    return cast(ControllerOps[Controller, TableRow], load_part(design, design.control))
