from dataclasses import replace
from pathlib import Path

from ..count import DESIGN as STEP

DESIGN = replace(STEP, program=Path(__file__).with_name("requests.p4"))
