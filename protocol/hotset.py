"""The arms of the design `hotset`: the hottest parameters in the switch, and the switch as a proxy."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.arms import Arm

DESIGN = "hotset"


@dataclass(frozen=True, slots=True)
class HotSet:
    """What of the switch an arm uses."""

    offload: bool = False
    """The hot set is in the switch, in slots of its own."""
    proxy: bool = False
    """The switch is the workers' one connection to each PS."""

    @property
    def aggregates(self) -> bool:
        """With the hot set in it the switch adds up what is pushed."""
        return self.offload


PROFILE = Arm(
    "profile", 1, DESIGN, HotSet(offload=True), "#000000",
    about="that trains for the update log, and under the hot set's load",
    is_measured=False,
)  # fmt: skip
NEITHER = Arm(
    "neither", 2, DESIGN, HotSet(), "#7f7f7f",
    about="with all parameters at the servers, and a connection for each worker",
)  # fmt: skip
AGAIN = Arm(
    "again", 6, DESIGN, HotSet(), "#b4b4b4",
    about="that is neither once more",
    baseline="neither",
)  # fmt: skip
PROXY = Arm(
    "proxy", 3, DESIGN, HotSet(proxy=True), "#3b7dd8",
    about="in which the switch is the workers' one connection to each server",
    note="The arm proxy should show nothing with few workers: its effect ([DDL] Fig. 9) needs hundreds of "
    "connections.",
    baseline="neither",
    told="with the proxy alone ",
)  # fmt: skip
HOT = Arm(
    "hot", 4, DESIGN, HotSet(offload=True), "#e07b1a",
    about="in which the switch holds the hottest parameters",
    baseline="neither",
    told="",
)  # fmt: skip
BOTH = Arm(
    "both", 5, DESIGN, HotSet(offload=True, proxy=True), "#2c9a57",
    about="that is hot and proxy together",
    baseline="neither",
)  # fmt: skip

ARMS = (PROFILE, NEITHER, AGAIN, PROXY, HOT, BOTH)


def settings_of(arm: Arm) -> HotSet:
    """What an arm of this design uses; raises `TypeError` for another design's."""
    if not isinstance(arm.settings, HotSet):
        raise TypeError(f"arm {arm.name} is of design {arm.design}, not {DESIGN}")
    return arm.settings
