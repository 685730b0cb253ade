"""Step 3: routes as for `none`, and the parameters that the switch holds, for the check after a run."""

from collections.abc import Sequence

from controller.controller import Controller
from controller.forwarding import CONTROL as FORWARDING
from foundation.designs.interface import Arm
from hosts.keys import KeySpace


async def read_values(
    controller: Controller, arms: Sequence[Arm], space: KeySpace
) -> dict[str, dict[int, int]]:
    sums = await controller.read_register("HotlineIngress.aggregate.sums", 0, space.size)
    return {arm.name: dict(enumerate(sums)) for arm in arms if arm.settings.aggregates}


CONTROL = FORWARDING._replace(read_values=read_values)
