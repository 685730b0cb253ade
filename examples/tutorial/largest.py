"""Step 6: the switch has the largest pushed value of each parameter, and answers."""

from dataclasses import replace
from pathlib import Path

from foundation.designs.combination import Combination
from foundation.designs.interface import Reduction, ShownRegister

from .sum import DESIGN as SUM
from .sum import OFF, ON

DESIGN = replace(
    SUM,
    name="largest",
    summary="the switch has the largest pushed value of each parameter",
    promise="no acknowledged update is lost as long as the switch lives",
    program=Path(__file__).with_name("largest.p4"),
    arms=(
        replace(OFF, name="largest-off", job=63, design=__name__),
        replace(ON, name="largest", job=53, design=__name__, reference="largest-off"),
    ),
    module=__name__,
    combination=Combination.MAX,
    registers=(ShownRegister("HotlineIngress.largest", Reduction.USED),),
    values_register="HotlineIngress.largest",
    switch_state=None,
)
