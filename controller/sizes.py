"""Sizes of the pipeline's tables. Unlike `controller.tables`, this module needs no P4Runtime client."""

from __future__ import annotations

from foundation.protocol.header import LANES

CALLERS = 8192  # entries of table `workers`
SLOTS = 4096  # register slots of a bank, and entries of a lane's table
CAPACITY = LANES * SLOTS  # rows of one value that the switch holds
