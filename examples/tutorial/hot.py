"""Step 7: the switch reports parameters that are often updated, and shows how many are updated at all."""

from dataclasses import replace
from pathlib import Path

from foundation.designs.interface import Reduction, ShownRegister

from .count import DESIGN as COUNT

[ARM] = COUNT.arms
DESIGN = replace(
    COUNT,
    name="hot",
    summary="the switch reports hot parameters, and servers do the rest",
    program=Path(__file__).with_name("hot.p4"),
    arms=(replace(ARM, name="hot", job=54, design=__name__, about="in which the switch reports"),),
    module=__name__,
    registers=(
        ShownRegister("HotlineIngress.updates", Reduction.SUM),
        ShownRegister("HotlineIngress.updates", Reduction.USED),
    ),
)
