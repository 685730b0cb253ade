"""Step 3: routes as for `none`, and the parameters that the switch holds, for the check after a run."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from controller.controller import Controller
from controller.forwarding import CONTROL as FORWARDING
from foundation.designs.interface import Arm
from hosts.keys import KeySpace


async def read_values(
    controller: Controller, arms: Sequence[Arm], space: KeySpace
) -> dict[str, NDArray[np.uint32]]:
    sums = await controller.read_register("HotlineIngress.aggregate.sums", 0, space.size)
    return {arm.name: np.array(sums, np.uint32) for arm in arms if arm.settings.aggregates}


CONTROL = FORWARDING._replace(read_values=read_values)
