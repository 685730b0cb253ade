from dataclasses import replace
from pathlib import Path

from ..once import DESIGN as STEP

DESIGN = replace(STEP, program=Path(__file__).with_name("late.p4"))
