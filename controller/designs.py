"""What the controller has for each design: the rows of its tables, and what it reads of the switch."""

from __future__ import annotations

from foundation.designs.interface import Control
from foundation.designs.registry import Parts

CONTROL = Parts[Control](
    "controller",
    "CONTROL",
    {
        "hotset": "controller.hotset.control",
        "none": "controller.none.control",
        "psdense": "controller.none.control",
        "ring": "controller.none.control",
        "switchml": "controller.switchml.control",
    },
)
