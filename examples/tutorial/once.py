"""Step 3: the switch adds, but nothing twice."""

from dataclasses import replace
from pathlib import Path

from .sum import DESIGN as SUM
from .sum import OFF, ON

DESIGN = replace(
    SUM,
    name="once",
    promise="no acknowledged update is lost as long as the switch lives",
    program=Path(__file__).with_name("once.p4"),
    arms=(
        replace(OFF, name="once-off", job=62, design=__name__),
        replace(ON, name="once", job=52, design=__name__, reference="once-off"),
    ),
    module=__name__,
    control=f"{__package__}.control:CONTROL",
)
